"""Histories of the documents seen before, against a model of them and `tamis.evaluate`.

The events of a case are steps: publish, add, remove, forget, ask, change the rules, set the clock,
open the directory again. Thresholds between ways to evaluate are options of the case, so that few
documents go through all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import tamis
from attack.case import Case
from attack.document_model import DocumentModel, Remembered
from tamis.joins import ages, aggregate_tree, evaluate, ordered_index, windows
from tamis.matcher import profile_filter
from tamis.matcher.storage import document_file
from tests.joins import random_aggregates, random_joins
from tests.joins.random_aggregates import START

__all__ = ["check_documents", "draw_documents"]

_OWNERS: Final = ("ann", "bob")
_FAR: Final = 73 * 365 * 86_400
"""Seconds by which a clock is wrong, or an event's time."""

_SMALL: Final = (
    (evaluate, "_FEW", 0),
    (evaluate, "_PROBE", 1),
    (ordered_index, "_BLOCK", 2),
    (aggregate_tree, "_MOST", 4),
    (windows, "_SEVERAL", 1),
    (profile_filter, "_RULES_PER_SEARCH", 1_000_000),
    (document_file, "_REWRITE_BYTES", 300),
    (ages, "_SPARE", 2),
)
"""Thresholds, and values by which few documents pass them."""


# --- Drawing ---


def draw_documents(random: Random, size: float) -> Case:
    """Rules about documents, and steps."""
    names = [f"r{number}" for number in range(6)]
    rules = [_draw_rule(random, name) for name in names]
    ids = [f"d{number}" for number in range(random.choice((1, 3, 30)))]
    retention = random.choice(
        [
            {},
            {"count": random.choice((0, 1, 1, 2, 5))},
            {"age": 1_200.0, "clock": True},
            {"age": 1_200.0, "by": "t", "clock": True},
            {"age": 1_200.0, "by": "t"},
            {"age": 600.0, "by": "t", "count": 3},
            {"age": 600.0, "clock": True, "count": 3},
        ]
    )
    steps: list[dict[str, Any]] = []
    while len(steps) < 400 * size + 40:
        steps.append(_draw_step(random, ids, names))
        if random.random() < 0.02:
            steps += _draw_wrong_clock(random)
    options = {
        "retention": retention,
        "engine": random.choice(("auto", "auto", "scan", "shared")),
        "stored": random.random() < 0.4,
        "small": random.random() < 0.6,
    }
    return Case("documents", rules, steps, options)


def _draw_rule(random: Random, id: str) -> dict[str, Any]:
    choice = random.random()
    if choice < 0.4:
        text = random_joins.rule(random)[0]
    elif choice < 0.75:
        text = random_aggregates.rule(random)[0]
    else:
        number, sign = random.randrange(-1, 4), random.choice(random_joins.COMPARISONS)
        text = random.choice(
            [
                f"n = {number} AND EXISTS (SELECT 1 FROM seen d WHERE d.n = n)",
                f"n < {number} AND EXISTS (SELECT 1 FROM seen d WHERE d.n {sign} n)",
                f"n IN (0, {number}) AND n {sign} ALL (SELECT d.n FROM seen d)",
                f"m = 2 AND EXISTS (SELECT 1 FROM seen d WHERE d.s = 'a' AND d.n {sign} n)",
                f"EXISTS (SELECT 1 FROM seen d WHERE NOT (d.x {sign} x))",
            ]
        )
    rule = {"id": id, "rule": text, "logic": random.choice(("strong", "weak"))}
    if random.random() < 0.4:
        rule["subscription"] = random.choice(_OWNERS)
        if random.random() < 0.5:
            rule["rule"] = text.replace("FROM seen", "FROM received")
    return rule


def _draw_event(random: Random) -> dict[str, Any]:
    event = {**random_aggregates.document(random), **random_joins.document(random)}
    if random.random() < 0.3:
        name = random.choice(list(event) or ["n"])
        event[name] = [event.get(name, 1), _draw_event(random).get(name, 2)]
    event.pop("t", None)
    if random.random() < 0.8:
        event["t"] = START + timedelta(minutes=random.randrange(60))
    if random.random() < 0.04:
        event["t"] = START + timedelta(seconds=_FAR)
    return event


def _draw_step(random: Random, ids: list[str], names: list[str]) -> dict[str, Any]:
    do = random.choice(
        ("publish",) * 9
        + ("add", "add", "match", "match", "many", "bits", "list", "expire", "expire")
        + ("remove", "remove", "clock", "clock", "rule", "rule", "optimize", "reopen", "clear")
    )
    step: dict[str, Any] = {"do": do}
    if do in ("publish", "add", "match", "many", "bits"):
        step["event"] = _draw_event(random)
    if do in ("publish", "add") and random.random() < 0.4:
        step["id"] = random.choice(ids)
    if do == "bits":
        step["join"] = random_joins.condition(random)[0]
    if do == "remove":
        step["place"] = random.randrange(30)
    if do == "rule":
        step["rule"] = _draw_rule(random, random.choice(names))
        step["drop"] = random.random() < 0.3
    if do == "clear" and random.random() < 0.7:
        step["do"] = "expire"
    if do == "clock":
        step["by"] = random.choice((1, 30, 300, 300, 700, 2_000, -20, -400))
    return step


def _draw_wrong_clock(random: Random) -> list[dict[str, Any]]:
    """Events published while a clock is wrong, and right after."""
    wrong = random.choice((_FAR, -_FAR, 7_000))
    new = [{"do": "publish", "event": _draw_event(random)} for _ in range(3)]
    later = {"do": "clock", "by": 1_300}
    return [{"do": "clock", "by": wrong}, *new[:2], {"do": "clock", "by": -wrong}, new[2], later]


# --- Checking ---


def check_documents(case: Case) -> str | None:
    """Every answer over documents, after every step."""
    with TemporaryDirectory(prefix="attack-") as folder, ExitStack() as changed:
        if case.options.get("small"):
            for owner, name, value in _SMALL:
                changed.enter_context(patch.object(owner, name, value))
        with _History(case, Path(folder) / "index").opened() as history:
            for number, step in enumerate(case.events):
                wrong = history.take(step)
                if wrong is not None:
                    return f"step {number}, {step}: {wrong}"
    return None


class _History:
    """A matcher, and the model of its documents."""

    def __init__(self, case: Case, path: Path) -> None:
        self._options = dict(case.options)
        self._path = path
        self._now = START.timestamp()
        self._rules: dict[str, dict[str, Any]] = {}
        retention = dict(self._options.get("retention", {}))
        clock = self._tell if retention.pop("clock", False) or "by" not in retention else None
        self._retention = tamis.Retention(**retention, clock=clock)
        self._model = DocumentModel(**retention, clock=clock, believed=time.time)
        self._script = case.rules

    def _tell(self) -> float:
        return self._now

    @contextmanager
    def opened(self) -> Iterator[_History]:
        """Open the matcher, and close whichever is open at the end."""
        self._matcher = self._open()
        # One rule stays, so that each match looks at the documents.
        self._add_rule({"id": "any", "rule": "EXISTS (SELECT 1 FROM seen d)"})
        for rule in self._script:
            self._add_rule(rule)
        try:
            yield self
        finally:
            self._matcher.close()

    def _open(self) -> tamis.Matcher:
        engine = self._options.get("engine", "auto")
        if self._options.get("stored"):
            return tamis.open(self._path, engine=engine, documents=self._retention, sync=False)
        return tamis.Matcher(engine=engine, documents=self._retention)

    def take(self, step: dict[str, Any]) -> str | None:
        """Take one step, and say what is wrong then."""
        matcher, model = self._matcher, self._model
        event, id = step.get("event", {}), step.get("id")
        match step.get("do"):
            case "publish":
                return self._publish(event, id)
            case "add":
                matcher.documents.add(event, id=id)
                model.add(event, id)
            case "match":
                return _differ(matcher.match(event), self._expect(event))
            case "many":
                found = matcher.match_many([event])["rule"].to_pylist()
                return _differ(found, self._expect(event))
            case "bits":
                return self._compare_bits(step.get("join", "d.x = x"), event)
            case "list":
                return self._compare_all()
            case "remove" if model.documents:
                gone = model.documents[step.get("place", 0) % len(model.documents)].id
                matcher.documents.remove(gone)
                model.remove(gone)
            case "expire":
                matcher.documents.expire()
                model.look()
            case "clear":
                matcher.documents.clear()
                model.clear()
            case "clock":
                self._set_clock(step.get("by", 0))
            case "rule" if "rule" in step:
                self._change_rule(step["rule"], step.get("drop", False))
            case "optimize":
                matcher.optimize()
            case "reopen" if self._options.get("stored"):
                matcher.close()
                self._matcher = self._open()
                model.reopen()
        return None

    def _set_clock(self, seconds: float) -> None:
        self._now += seconds
        # Only who looks sees a clock that is wrong for a while.
        self._matcher.documents.expire()
        self._model.look()

    def _add_rule(self, rule: dict[str, Any]) -> None:
        self._matcher.add_many([rule], replace=True)
        self._rules.pop(rule["id"], None)
        self._rules[rule["id"]] = rule

    def _change_rule(self, rule: dict[str, Any], drop: bool) -> None:
        if not drop:
            self._add_rule(rule)
        elif rule["id"] in self._rules:
            self._matcher.remove(rule["id"])
            del self._rules[rule["id"]]

    def _publish(self, event: dict[str, Any], id: str | None) -> str | None:
        found = self._matcher.publish(event, id=id)
        self._model.note(event)
        expected = self._expect(event)
        owners = (self._rules[name].get("subscription") for name in expected)
        self._model.add(event, id, frozenset(owner for owner in owners if owner))
        return _differ(found, expected)

    def _expect(self, event: dict[str, Any]) -> list[str]:
        self._model.look()
        documents = self._model.documents
        return [id for id, rule in self._rules.items() if _holds(rule, event, documents)]

    def _compare_bits(self, where: str, event: dict[str, Any]) -> str | None:
        join = f"EXISTS (SELECT 1 FROM seen d WHERE {where})"
        found = self._matcher.documents.bits(join, event)
        expected = [tamis.evaluate(join, event, documents=[one]) for one in self._model.look()]
        return None if found == expected else f"bits are {found}, not {expected}"

    def _compare_all(self) -> str | None:
        self._matcher.documents.expire()
        self._model.look()
        documents, known = self._matcher.documents, self._model.documents
        if list(documents) != [one.id for one in known]:
            return f"the documents are {list(documents)}, not {[one.id for one in known]}"
        for one in known:
            if documents.received_by(one.id) != one.receivers:
                return f"{one.id!r} was received by {documents.received_by(one.id)}"
        return None


def _holds(rule: dict[str, Any], event: dict[str, Any], documents: list[Remembered]) -> bool:
    owner = rule.get("subscription")
    received = None if owner is None else [d.event for d in documents if owner in d.receivers]
    seen = [document.event for document in documents]
    logic = rule.get("logic", "strong")
    return tamis.evaluate(rule["rule"], event, logic, documents=seen, received=received)


def _differ(found: list[Any], expected: list[Any]) -> str | None:
    return None if found == expected else f"{found}, not {expected}"
