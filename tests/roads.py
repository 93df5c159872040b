"""The roads that events take through Tamis, and the thresholds that choose among them.

Tamis reads few events otherwise than many, short lists otherwise than long ones, and so on. A test
of answers sets these thresholds low or high, so that it takes each road on purpose, and counts the
calls of what each road consists of. A new threshold belongs into THRESHOLDS, a new road into ROADS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from unittest.mock import patch

__all__ = ["ROADS", "SIDES", "THRESHOLDS", "Side", "count_roads", "set_thresholds"]

Side: TypeAlias = Literal["low", "high", "usual"]
SIDES: Final[tuple[Side, ...]] = ("low", "high", "usual")

_HUGE: Final = 1 << 40


class Threshold(NamedTuple):
    """A constant of a module, and the values at which it sends everything one way or the other."""

    module: str
    name: str
    low: int
    high: int


THRESHOLDS: Final = [
    # Reading events.
    Threshold("encode.json.warm_up", "_LEAST", 0, _HUGE),
    Threshold("encode.json.warm_up", "_LEAST_LOADED", 0, _HUGE),
    Threshold("encode.json.reader", "_FIRST_ROOM", 0, 1 << 18),
    Threshold("matcher.inputs", "_TEXTS", 7, _HUGE),
    Threshold("matcher.inputs", "_ROWS", 7, 1 << 31),
    Threshold("matcher.inputs", "_DICTS", 7, _HUGE),
    Threshold("encode.events", "_UNSEEN", 0, _HUGE),
    Threshold("encode.events", "_FEW", 0, _HUGE),
    Threshold("encode.events", "_MANY", 1, _HUGE),
    Threshold("encode.known_pairs", "_LONGEST", 0, _HUGE),
    Threshold("encode.known_pairs", "_LONGEST_LIST", 0, _HUGE),
    Threshold("encode.known_pairs", "_MOST", 1, _HUGE),
    Threshold("encode.known_pairs", "_MOST_LEVELS", 1, 100),
    Threshold("encode.derived", "_REMEMBERED", 1, _HUGE),
    Threshold("encode.dictionary", "_SMALL", 0, _HUGE),
    Threshold("encode.dictionary", "_MOST_CACHED", 0, _HUGE),
    Threshold("encode.number_columns", "_MOST_CODES", 0, 1 << 16),
    Threshold("encode.text_predicates", "_SET_SIZE", 2, _HUGE),
    Threshold("encode.text_predicates", "_FEW", 0, _HUGE),
    Threshold("encode.text_predicates", "_LONG", 0, _HUGE),
    Threshold("encode.text_predicates", "_MOST_CACHED", 1, _HUGE),
    Threshold("encode.text_predicates", "_MOST_PLACES", 0, _HUGE),
    # Searching.
    Threshold("engines.base", "_LEAST_ROWS", 9, _HUGE),
    Threshold("engines.base", "_MOST_ROWS", 9, _HUGE),
    Threshold("engines.base", "BUFFER", 8, 1 << 22),
    Threshold("engines.tiles.engine", "BUFFER", 8, 1 << 22),
    Threshold("engines.tiles.engine", "_LEAST_ROOM", 8, 1 << 20),
    Threshold("engines.tiles.engine", "_BATCH", 1, _HUGE),
    Threshold("engines.tiles.engine", "_MOST_BEST", 1, 64),
    Threshold("engines.tiles.engine", "_MOST_VALUES", 1, 4096),
    Threshold("engines.shared.engine", "_LEAST", 0, _HUGE),
    Threshold("engines.shared.engine", "_USES", 0, 8),
    Threshold("matcher.batch_searcher", "_FIRST_ROWS", 5, _HUGE),
    Threshold("matcher.batch_searcher", "_MOST_ROWS", 5, _HUGE),
    Threshold("matcher.ids", "_FEW", 0, _HUGE),
    Threshold("matcher.matcher", "_SMALL_TAIL", 0, _HUGE),
    # Files.
    Threshold("files.matching", "_FIRST_EVENTS", 3, _HUGE),
    Threshold("files.matching", "_MOST_EVENTS", 5, _HUGE),
]
"""Every constant by which Tamis chooses what to do with events, by their number and size. A kernel
has its constants compiled in: MOST_DEEP and MOST_IN_ROW of JSON, the rows and the pairs of a count,
the codes of a guard. Events draw both sides of those."""


@contextmanager
def set_thresholds(side: Side | Random, within: str = "") -> Iterator[None]:
    """Set the thresholds of a package low or high; random numbers decide for each of them."""
    with ExitStack() as stack:
        for module, name, low, high in THRESHOLDS:
            if not module.startswith(within):
                continue
            chosen = side.choice(SIDES) if isinstance(side, Random) else side
            owner = import_module(f"tamis.{module}")
            if chosen != "usual":
                stack.enter_context(patch.object(owner, name, low if chosen == "low" else high))
        yield


ROADS: Final = {
    # Mappings.
    "pairs of scalars": "encode.known_pairs:KnownPairs.join_scalars",
    "pairs of nested values": "encode.known_pairs:KnownPairs.join_nested",
    "pairs of what rules mention": "encode.known_pairs:KnownPairs.select_mentioned",
    "one pass over plain values": "encode.events:AxesEncoder._add_plain",
    "flattened": "encode.events:AxesEncoder._add_flat",
    "codes of a list at once": "encode.events:codes_of_list",
    "one event, then pairs": "encode.events:to_pairs",
    "weighted pairs": "encode.events:EventEncoder.encode_weighted_pairs",
    "weighted values": "encode.events:EventEncoder.encode_weighted",
    # Columns.
    "columns of numbers": "encode.columns:fill_numbers",
    "columns by type": "encode.columns:codes_of_array",
    "columns of lists": "encode.columns:_drop_repeats",
    "columns of maps": "encode.arrow_values:split_map",
    "derived by value": "encode.columns:ColumnEncoder._derive",
    "derived by row": "encode.columns:ColumnEncoder._derive_by_row",
    "rows of a table": "encode.columns:ColumnEncoder.rows",
    # JSON.
    "JSON by kernels": "encode.json.encoder:read_texts",
    "JSON, captured": "encode.json.encoder:_decode_captured",
    "JSON, left to Python": "encode.json.texts:JsonTexts.event",
    "JSON, long doubles": "encode.json.encoder:JsonEncoder._encode_doubles",
    "JSON, more room": "encode.json.reader:_resize",
    "JSON decoded": "encode.json.texts:JsonTexts.events",
    # Texts.
    "guards": "encode.guards:Guards.rows_that_need",
    "JSON, merged": "encode.json.encoder:merge_rows",
    "text predicates": "encode.text_predicates:TextIndex.match",
    "texts looked up": "encode.text_predicates:_LiteralSet._look_up",
    # Searching.
    "tail": "matcher.snapshot:Snapshot.match_tail",
    "one event": "engines.tiles.engine:match_event",
    "many events": "engines.tiles.engine:match_rows",
    "counted by groups": "engines.tiles.engine:count_rows",
    "best of one": "engines.tiles.engine:top_event",
    "best of many": "engines.tiles.engine:top_rows",
    "shared": "engines.shared.engine:match_rows",
    "best of shared": "engines.shared.engine:top_rows",
    "several segments": "matcher.batch_searcher:merge_matches",
    "threads": "engines.threads:_pool",
}
"""For each road, a function that only this road calls."""


@contextmanager
def count_roads() -> Iterator[Counter[str]]:
    """Count how often each road is taken meanwhile."""
    taken: Counter[str] = Counter()

    def counted(road: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            taken[road] += 1
            return function(*arguments, **named)

        return call

    with ExitStack() as stack:
        for road, place in ROADS.items():
            module, _, path = place.partition(":")
            owner: Any = import_module(f"tamis.{module}")
            *classes, name = path.split(".")
            for of in classes:
                owner = getattr(owner, of)
            stack.enter_context(patch.object(owner, name, counted(road, getattr(owner, name))))
        yield taken
