"""The changes that a journal records.

Their wire format is MessagePack, as the classes below declare it. It is part of the file format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from tamis.matcher.rule import Row, Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.write.responsive import take_in_steps

__all__ = ["Added", "Change", "Removed", "decode_changes", "encode_changes", "encode_rules"]


class Added(msgspec.Struct, frozen=True, tag="add"):
    """Rules were added. They replaced rules with the same ids."""

    rows: tuple[bytes, ...]
    """The rules, as `encode_rules` gives them."""
    refused: tuple[RuleId, ...] = ()
    """Ids of rules in `rows` that were not added after all."""
    clears: bool = False
    """Whether all earlier rules were removed first."""

    def added_rows(self) -> Iterator[Row]:
        """The rules that were added, each as it is stored."""
        refused = frozenset(self.refused)
        for encoded in self.rows:
            yield from (row for row in _decode_rows(encoded) if row.id not in refused)


class Removed(msgspec.Struct, frozen=True, tag="remove"):
    """Rules were removed."""

    ids: tuple[RuleId, ...]


Change: TypeAlias = Added | Removed

encode_changes = msgspec.msgpack.Encoder().encode
"""Encodes a list of changes."""

decode_changes = msgspec.msgpack.Decoder(list[Change]).decode
"""Decodes a list of changes; raises `msgspec.MsgspecError` if the bytes are none."""

_encode_rows = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


def encode_rules(rules: Sequence[Rule] | RuleColumns) -> tuple[bytes, ...]:
    """Encode rules for `Added.rows`: lists of `Row`, one after the other."""
    if isinstance(rules, RuleColumns):
        steps = take_in_steps(range(len(rules)))
        return tuple(_encode_rows(rules.rows(some[0], some[-1] + 1)) for some in steps)
    return tuple(_encode_rows([Row.of(rule) for rule in some]) for some in take_in_steps(rules))
