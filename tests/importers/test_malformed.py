"""Malformed documents are refused, and never raise another error."""

from __future__ import annotations

import copy
import gzip
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.importers import Imported, eventbridge, jsonlogic, mongo, mustang, unleash
from tamis.importers.mongo import Dialect
from tests.importers import test_eventbridge, test_jsonlogic, test_mongo, test_mustang, test_unleash

JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**70, float("inf"), float("nan")),
    *("", "x", "$.a[", "$gt", "(", "\ud800"),
    *([], [1], [[1]], [None], {}, {"a": 1}, {"$gt": {}}, {"type": "MODULO", "rhs": 0}),
]

VALID: dict[str, tuple[Callable[[Any], Imported], list[Any]]] = {
    "growthbook": (
        lambda document: mongo.read({"r": document}),
        [case[0] for case in test_mongo.GROWTHBOOK],
    ),
    "mongodb": (
        lambda document: mongo.read({"r": document}, dialect=Dialect.MONGODB),
        [case[0] for case in test_mongo.MONGODB],
    ),
    "eventbridge": (
        lambda document: eventbridge.read({"r": document}),
        [case[0] for case in test_eventbridge.CASES],
    ),
    "jsonlogic": (
        lambda document: jsonlogic.read({"r": document}, typed=True),
        test_jsonlogic.RULES + test_jsonlogic.TYPED + test_jsonlogic.LISTS,
    ),
    "mustang": (
        lambda document: mustang.read([document]),
        [test_mustang.dnf(case[0]) for case in test_mustang.CASES],
    ),
    "unleash": (
        lambda document: unleash.read({"r": document}),
        [test_unleash.strategy(case[0]) for case in test_unleash.CONSTRAINTS],
    ),
}


def list_paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all parts of a document."""
    members = enumerate(document) if isinstance(document, list) else []
    if isinstance(document, dict):
        members = document.items()
    for key, value in members:
        yield (*path, key)
        yield from list_paths(value, (*path, key))


def spoil(document: Any, dice: random.Random) -> Any:
    """A copy with one part replaced, renamed or removed."""
    document = copy.deepcopy(document)
    paths = list(list_paths(document))
    if not paths:
        return dice.choice(JUNK)
    *above, last = dice.choice(paths)
    parent = document
    for key in above:
        parent = parent[key]
    match dice.randrange(6):
        case 0:
            del parent[last]
        case 1 if isinstance(parent, dict):
            parent[dice.choice(["$x", "a", "type", "$or", ""])] = parent.pop(last)
        case _:
            parent[last] = copy.deepcopy(dice.choice(JUNK))
    return document


@pytest.mark.parametrize("kind", VALID)
def test_malformed_rules_are_refused(kind: str) -> None:
    read, documents = VALID[kind]
    dice = random.Random(5)
    refused = 0
    for _ in range(1_000):
        document = spoil(dice.choice(documents), dice)
        imported = read(document)
        assert len(imported.rules) + len(imported.refused) == 1
        refused += len(imported.refused)
    assert refused > 300


def test_rules_nested_too_deep_are_refused() -> None:
    document: Any = {"var": "x"}
    for _ in range(5_000):
        document = {"!": document}
    (refused,) = jsonlogic.read({"r": document}).refused
    assert "too deep" in refused.reason


def test_a_file_that_grows_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.importers.entries._LARGEST_FILE", 1 << 20)
    path = tmp_path / "rules.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (2 << 20) + b"]"))
    with pytest.raises(tamis.InputFileError, match="more than 1 MiB"):
        mongo.read(path)
