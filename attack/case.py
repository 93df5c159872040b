"""A case: rules and events that some part of Tamis has to get right, as a JSON file.

Failures are written as cases after they were reduced, and `tests/attack` replays all of them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["CASES", "Case", "load_case", "save_case", "shrink"]

CASES: Final = Path(__file__).with_name("cases")

_T = TypeVar("_T")

_MOST_TRIALS: Final = 3_000
"""How often a shrinking case is checked; a large one may stay larger than necessary."""


@dataclass(frozen=True)
class Case:
    """What a check needs to run again."""

    check: str
    """The name of the check."""
    rules: list[dict[str, Any]]
    """Rules in their complete form; ``rule`` is in the JSON form, or a text."""
    events: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def decisions(self) -> int:
        """How many pairs of a rule and an event it has; rules that are removed do not count."""
        left: set[Any] = set()
        for rule in self.rules:
            if "rule" in rule:
                left.add(rule["id"])
            elif "id" in rule:
                left.discard(rule["id"])
        return len(left) * len(self.events)


def save_case(case: Case, message: str, folder: Path = CASES) -> Path:
    """Write a case to a file that is named after its content."""
    plain = {**asdict(case), "failed": message}
    text = json.dumps(_pack(plain), indent=1, ensure_ascii=False) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.check}-{digest}.json"
    path.write_text(text, "utf-8")
    return path


def load_case(path: Path) -> Case:
    """Read a case."""
    plain = _unpack(json.loads(path.read_text("utf-8")))
    plain.pop("failed", None)
    return Case(**plain)


def _pack(item: Any) -> Any:
    """Write what JSON lacks as objects with one key, ``$time``, ``$number`` or ``$decimal``."""
    if isinstance(item, dict):
        return {key: _pack(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_pack(value) for value in item]
    if isinstance(item, datetime):
        return {"$time": item.isoformat()}
    if isinstance(item, Decimal):
        return {"$decimal": str(item)}
    if isinstance(item, float) and not math.isfinite(item):
        return {"$number": str(item)}
    return item


def _unpack(item: Any) -> Any:
    if isinstance(item, list):
        return [_unpack(value) for value in item]
    match item:
        case {"$time": text}:
            return datetime.fromisoformat(text)
        case {"$decimal": text}:
            return Decimal(text)
        case {"$number": text}:
            return float(text)
        case dict():
            return {key: _unpack(value) for key, value in item.items()}
    return item


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Reduce a failing case: fewer events and rules, then smaller ones, as long as it fails."""
    trials = 0

    def still_fails(smaller: Case) -> bool:
        nonlocal trials
        trials += 1
        return trials <= _MOST_TRIALS and fails(smaller)

    before: Case | None = None
    while before != case:
        before = case
        events = _drop_items(case.events, lambda e, c=case: still_fails(replace(c, events=e)))  # type: ignore[misc]  # the case is bound here
        case = replace(case, events=events)
        rules = _drop_items(case.rules, lambda r, c=case: still_fails(replace(c, rules=r)))  # type: ignore[misc]  # the case is bound here
        case = replace(case, rules=rules)
        case = _take_first(case, _smaller_cases, still_fails)
    return case


def _drop_items(items: list[_T], fails: Callable[[list[_T]], bool]) -> list[_T]:
    """Delta debugging: drop runs of items, long ones first, while the rest fails."""
    length = len(items) // 2 or 1
    while length and len(items) > 1:
        start = 0
        while start < len(items):
            rest = items[:start] + items[start + length :]
            if rest and fails(rest):
                items = rest
            else:
                start += length
        length //= 2
    return items


def _take_first(
    case: Case, smaller: Callable[[Case], Iterator[Case]], fails: Callable[[Case], bool]
) -> Case:
    """Replace a case by its first smaller one that fails, until none does."""
    while True:
        found = next((other for other in smaller(case) if fails(other)), None)
        if found is None:
            return case
        case = found


def _smaller_cases(case: Case) -> Iterator[Case]:
    # Large cases first lose rules and events; their trees come when few are left.
    if len(case.rules) > 20 or len(case.events) > 20:
        return
    for place, rule in enumerate(case.rules):
        for smaller in _smaller_rules(rule):
            yield replace(case, rules=_replace_item(case.rules, place, smaller))
    for place, event in enumerate(case.events):
        for other in _smaller_events(event):
            yield replace(case, events=_replace_item(case.events, place, other))


def _replace_item(items: Sequence[_T], place: int, item: _T) -> list[_T]:
    return [*items[:place], item, *items[place + 1 :]]


def _smaller_rules(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in rule.keys() - {"id", "rule"}:
        yield {key: value for key, value in rule.items() if key != name}
    for form in _smaller_forms(rule.get("rule")):
        yield {**rule, "rule": form}


def _smaller_forms(form: Any) -> Iterator[Any]:
    """Rules with one part fewer, or one value fewer."""
    if not isinstance(form, dict):
        return
    for name in ("and", "or"):
        children = form.get(name, [])
        yield from children
        for place, child in enumerate(children):
            yield {name: children[:place] + children[place + 1 :]}
            for smaller in _smaller_forms(child):
                yield {name: _replace_item(children, place, smaller)}
    if "not" in form:
        yield form["not"]
        yield from ({"not": smaller} for smaller in _smaller_forms(form["not"]))
    for name in ("in", "not in"):
        values = form.get(name, [])
        if len(values) > 1:
            for place in range(len(values)):
                yield {**form, name: values[:place] + values[place + 1 :]}


def _smaller_events(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, item in event.items():
        yield {key: value for key, value in event.items() if key != name}
        if isinstance(item, list):
            for place in range(len(item)):
                yield {**event, name: item[:place] + item[place + 1 :]}
            if len(item) == 1:
                yield {**event, name: item[0]}
        elif isinstance(item, dict):
            yield from ({**event, name: smaller} for smaller in _smaller_events(item))
