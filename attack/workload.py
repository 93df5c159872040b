"""A writer's work on a directory of rules: the changes that crashes and failing disks interrupt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import tamis
from tamis.matcher.storage import document_file, store
from tamis.matcher.write import background

__all__ = [
    "Change",
    "State",
    "apply_change",
    "draw_changes",
    "open_writer",
    "read_state",
    "small_files",
]


class State(NamedTuple):
    """What a directory holds: the texts of rules by id, in their order, and the documents."""

    rules: tuple[tuple[str, str], ...] = ()
    documents: tuple[tuple[str, int], ...] = ()


Change: TypeAlias = tuple[Any, ...]
"""The name of a change and its argument."""


def draw_changes(random: Random, count: int) -> Iterator[tuple[Change, State]]:
    """Random changes, each with the state after it."""
    rules: dict[str, str] = {}
    documents: dict[str, int] = {}
    for number in range(count):
        change = _draw(random, number, rules)
        match change:
            case ("add", new):
                for id in new:
                    rules.pop(id, None)
                rules.update(new)
            case ("remove", ids):
                for id in ids:
                    del rules[id]
            case ("replace_all", new):
                rules = dict(new)
            case ("publish", id):
                documents[id] = number
        yield change, State(tuple(rules.items()), tuple(sorted(documents.items())))


def _draw(random: Random, number: int, rules: dict[str, str]) -> Change:
    choice = random.random()
    if choice < 0.35 or len(rules) < 3:
        return "add", {f"r{number}": f"x = {number} AND name = '{'n' * random.randint(0, 600)}'"}
    if choice < 0.45:
        return "add", {random.choice(list(rules)): f"x >= {number}"}
    if choice < 0.6:
        return "add", {f"r{number}.{i}": f"x = {i}" for i in range(random.choice((3, 30)))}
    if choice < 0.75:
        return "remove", random.sample(list(rules), random.choice((1, 2)))
    if choice < 0.8:
        return "replace_all", {f"n{number}.{i}": f"x = {i}" for i in range(random.choice((1, 20)))}
    if choice < 0.9:
        return "publish", f"d{number}"
    return "checkpoint", None


def apply_change(matcher: tamis.Matcher, change: Change, number: int) -> None:
    """Make a change, and return when it is acknowledged as being on the disk."""
    match change:
        case ("add", new) if len(new) == 1:
            ((id, text),) = new.items()
            matcher.add(id, text, replace=True)
        case ("add", new):
            matcher.add_many(new, replace=True)
        case ("remove", ids):
            matcher.remove_many(ids)
        case ("replace_all", new):
            matcher.replace_all(new)
        case ("publish", id):
            matcher.documents.add({"x": number}, id=id)
            matcher.documents.sync()
        case ("checkpoint", _):
            while matcher._writer.compact(quiet=False):
                pass


def open_writer(folder: Path) -> tamis.Matcher:
    """Open a directory, with the engine that opens fastest."""
    return tamis.open(folder, engine="scan", verify=True)


def read_state(matcher: tamis.Matcher) -> State:
    """The rules and documents of a matcher."""
    rules = tuple((str(id), matcher.rule(id).text) for id in matcher)
    documents: list[tuple[str, int]] = []
    for id in matcher.documents:
        x: Any = matcher.documents[id]["x"]
        documents.append((str(id), x))
    found = {*matcher.match({"x": 3, "name": ""})}
    expected = {id for id, text in rules if tamis.evaluate(text, {"x": 3, "name": ""})}
    assert found == expected, f"{found} matched, not {expected}"
    return State(rules, tuple(sorted(documents)))


@contextmanager
def small_files() -> Iterator[None]:
    """Write checkpoints after few bytes, and only where the work says so: no background thread.

    So the same seed makes the same file calls, and a short run reaches all of them.
    """
    with ExitStack() as changed:
        for owner, name, value in (
            (store, "_CHECKPOINT_BYTES", 1_500),
            (document_file, "_REWRITE_BYTES", 400),
            (background.Worker, "wake", lambda worker: None),
        ):
            changed.enter_context(patch.object(owner, name, value))
        yield
