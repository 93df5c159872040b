"""Builds the matcher that a case describes, and what it should hold.

The rules of a case are a script: a rule whose id is there replaces that rule,
``{"id": …, "remove": true}`` removes it, and ``{"optimize": 300}`` merges all, with so many events
of the case as a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import tamis
from attack.case import Case
from tamis.engines.betree import tree

__all__ = ["apply_script", "build_matcher", "to_source"]

Rules = dict[Any, dict[str, Any]]


def apply_script(case: Case) -> Rules:
    """The rules that are left after the script, by id, oldest first."""
    left: Rules = {}
    for rule in case.rules:
        if "optimize" in rule:
            continue
        left.pop(rule["id"], None)
        if not rule.get("remove"):
            left[rule["id"]] = rule
    return left


def to_source(rule: Any, form: str) -> Any:
    """A rule of the JSON form as a text, a model, or as it is."""
    if isinstance(rule, str) or form == "json":
        return rule
    model = tamis.from_json(rule)
    return model if form == "model" else tamis.to_sql(model)


@contextmanager
def build_matcher(case: Case) -> Iterator[tamis.Matcher]:
    """Run the script of a case, and open the result as the options say.

    Options: ``engine``, ``form`` of the rules (text, json or model), ``chunk`` (how many rules are
    added at once), ``optimize``, ``capacity`` (of a BE-Tree's nodes at first), ``schema``, and
    ``stored`` (in memory, "saved" and opened again, or written to a "directory" from the first rule
    on and opened again).
    """
    options = case.options
    engine, schema = options.get("engine", "auto"), options.get("schema")
    stored = options.get("stored")
    capacity = options.get("capacity") or tree.MAX_CAPACITY
    with (
        TemporaryDirectory(prefix="attack-") as folder,
        patch.object(tree, "MAX_CAPACITY", capacity),
    ):
        path = Path(folder) / "index"
        if stored == "directory":
            matcher = tamis.open(path, engine=engine, schema=schema, sync=False)
        else:
            matcher = tamis.Matcher(engine=engine, schema=schema)
        try:
            _run_script(matcher, case)
            if options.get("optimize"):
                matcher.optimize()
            if stored:
                if stored == "saved":
                    matcher.save(path)
                matcher.close()
                matcher = tamis.open(path, read_only=stored == "saved")
            yield matcher
        finally:
            matcher.close()


def _run_script(matcher: tamis.Matcher, case: Case) -> None:
    form, chunk = case.options.get("form", "text"), case.options.get("chunk", 1_000_000)
    for kind, items in groupby(case.rules, _kind_of_step):
        listed = list(items)
        if kind == "optimize":
            for step in listed:
                matcher.optimize(_sample(case, step["optimize"]))
        elif kind == "remove":
            known = {rule["id"] for rule in listed if rule["id"] in matcher}
            matcher.remove_many(sorted(known, key=str))
        else:
            for start in range(0, len(listed), chunk):
                rules = listed[start : start + chunk]
                full = [{**rule, "rule": to_source(rule["rule"], form)} for rule in rules]
                for several in _split_repeated(full):
                    matcher.add_many(several, replace=True)


def _kind_of_step(step: dict[str, Any]) -> str:
    return next((kind for kind in ("optimize", "remove") if step.get(kind)), "add")


def _sample(case: Case, size: int) -> list[dict[str, Any]]:
    """Events like those that will be asked about, so many of them, some often."""
    events = case.events[size % len(case.events) :] + case.events
    return [events[i % len(events)] for i in range(size)]


def _split_repeated(rules: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Cut a list where an id comes again: one call takes an id once."""
    piece: dict[Any, dict[str, Any]] = {}
    for rule in rules:
        if rule["id"] in piece:
            yield list(piece.values())
            piece = {}
        piece[rule["id"]] = rule
    if piece:
        yield list(piece.values())
