"""Events as the log stores them: MessagePack that gives back the same values.

MessagePack has no decimals, and its library would write some values as texts; these are converted
first. Most events have only strings and numbers, and need no conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from tamis.errors import EventError
from tamis.expr.event import Event, value_of_item
from tamis.expr.numbers import LongDecimal

__all__ = ["decode_document", "encode_document"]

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_DECIMAL: Final = 1
"""The code of a decimal in MessagePack."""

_encode = msgspec.msgpack.Encoder().encode


def encode_document(event: Event) -> bytes:
    """Encode an event that was flattened without an error.

    Raises
    ------
    EventError
        It has a value that cannot be stored.
    """
    try:
        if _PLAIN.issuperset(map(type, event.values())):
            return _encode(dict(event))
        return _encode({name: _convert(name, item) for name, item in event.items()})
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EventError(f"the event cannot be stored: {error}") from error


def _convert(path: str, item: Any) -> Any:
    """`item` with nothing but what MessagePack can represent."""
    if type(item) in _PLAIN:
        return item
    if isinstance(item, Mapping):
        return {name: _convert(f"{path}.{name}", inner) for name, inner in item.items()}
    if isinstance(item, Sequence | set | frozenset) and not isinstance(item, str | bytes):
        return [_convert(path, inner) for inner in item]
    if isinstance(item, Decimal):
        return msgspec.msgpack.Ext(_DECIMAL, str(item).encode())
    value = value_of_item(path, item)
    if isinstance(value, LongDecimal):
        return msgspec.msgpack.Ext(_DECIMAL, str(value.decimal).encode())
    return value


def _read_decimal(code: int, text: memoryview) -> Decimal:
    if code != _DECIMAL:
        raise msgspec.DecodeError(f"unknown extension {code}")
    return Decimal(text.tobytes().decode())


decode_document = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_read_decimal).decode
"""Decodes an event; raises `msgspec.MsgspecError` if the bytes are none."""
