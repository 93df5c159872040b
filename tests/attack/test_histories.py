"""The checker of linearizability accepts what an order explains, and nothing else."""

from __future__ import annotations

from typing import Any

from attack.histories import NEVER, Kind, Operation, find_contradiction


def operation(kind: Kind, ids: str, called: int, returned: int, done: Any = True) -> Operation:
    return Operation(kind, frozenset(ids), done, called, returned)


def test_overlapping_operations_may_take_effect_in_any_order() -> None:
    add = operation("add", "a", 0, 5)
    assert find_contradiction([add, operation("match", "", 1, 2)]) is None
    assert find_contradiction([add, operation("match", "a", 1, 2)]) is None
    both = [operation("match", "a", 1, 2), operation("match", "", 3, 4)]
    assert find_contradiction([add, *both]) is not None


def test_what_returned_is_seen() -> None:
    add, match = operation("add", "ab", 0, 1), operation("match", "a", 2, 3)
    assert find_contradiction([add, match]) is not None
    assert find_contradiction([add, operation("match", "ab", 2, 3)]) is None


def test_a_refused_operation_tells_about_the_state() -> None:
    twice = [operation("add", "a", 0, 1), operation("add", "a", 2, 3, False)]
    assert find_contradiction(twice) is None
    assert find_contradiction([operation("add", "a", 0, 1, False)]) is not None
    assert find_contradiction([operation("remove", "a", 0, 1)]) is not None


def test_an_interrupted_operation_happened_or_not() -> None:
    add = operation("add", "a", 0, NEVER, None)
    for found in ("", "a"):
        assert find_contradiction([add, operation("match", found, 1, 2)]) is None
    undone = [operation("match", "a", 1, 2), operation("match", "", 3, 4)]
    assert find_contradiction([add, *undone]) is not None
