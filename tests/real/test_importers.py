"""Other systems' own rules and recorded answers, through the importers."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tamis
from tamis.expr.model import Expr, all_of
from tamis.importers import Imported, mongo, paths_of, sigma, widened
from tests.real.neutral import (
    Tree,
    build_sigma_rule,
    convert_sigma_event,
    group_by_event,
    read_lines,
)

GROWTHBOOK_REFUSED = {
    "$regex invalid - pass": "invalid pattern",
    "$regex invalid - fail": "invalid pattern",
}


def test_answers_are_those_of_growthbook(shared_data: Path) -> None:
    cases = json.loads((shared_data / "growthbook_cases.json").read_text())
    different, refused = set(), {}
    for name, condition, event, expected, *groups in cases:
        imported = mongo.read({name: condition}, groups=groups[0] if groups else None)
        if imported.refused:
            refused[name] = imported.refused[0].reason
            continue
        known = widened(event, paths_of(imported.rules))
        if tamis.evaluate(imported.rules[0].expr, known, "weak") is not expected:
            different.add(name)
    assert len(cases) == 155
    assert different == set()
    assert refused.keys() == GROWTHBOOK_REFUSED.keys()
    assert all(reason in refused[name] for name, reason in GROWTHBOOK_REFUSED.items())


class Sigma(NamedTuple):
    imported: Imported
    trees: dict[str, Tree]
    """Independently parsed trees of the Windows rules, with conditions for their log sources."""


@pytest.fixture(scope="module")
def corpus(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Sigma:
    folder = tmp_path_factory.mktemp("sigma")
    with tarfile.open(shared_data / "sigma_rules.tar.gz") as archive:
        # Early releases of Python 3.11 have no filters, and 3.12 warns without one.
        options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **options)
    with gzip.open(shared_data / "sigma_windows_rules.json.gz", "rt", encoding="utf-8") as file:
        trees = {rule["id"]: rule["ast"] for rule in json.load(file)}
    return Sigma(sigma.read(folder), trees)


def test_nearly_all_sigma_rules_are_imported(corpus: Sigma) -> None:
    accepted, refused = len(corpus.imported.rules), len(corpus.imported.refused)
    assert accepted + refused == 3_754
    assert accepted / (accepted + refused) > 0.96
    for rule in corpus.imported.refused:
        assert any(word in rule.reason for word in ("keyword", "placeholder", "comparing an end"))


def test_every_event_raises_exactly_the_known_sigma_alerts(
    corpus: Sigma, shared_data: Path
) -> None:
    """All rules that raise an alert, and every fifth of those that must not."""
    hits = dict(read_lines(shared_data / "windows_hits.jsonl.gz"))
    alerting = set().union(*hits.values())
    imported = {str(rule.id): rule.expr for rule in corpus.imported.rules}
    quiet = sorted(corpus.trees.keys() & imported.keys() - alerting)
    chosen = (alerting & imported.keys()) | set(quiet[::5])
    matcher = tamis.Matcher(logic="weak")
    matcher.add_many((id, _add_log_source(corpus.trees[id], imported[id])) for id in chosen)
    events = list(map(convert_sigma_event, read_lines(shared_data / "windows_events.jsonl.gz")))
    expected = {event: sorted(chosen & set(found)) for event, found in hits.items()}
    found = group_by_event(matcher.match_many(events))
    assert sum(map(len, expected.values())) > 900
    assert {event: sorted(names) for event, names in found.items()} == {
        event: names for event, names in expected.items() if names
    }


def _add_log_source(tree: Tree, imported: Expr) -> Expr:
    """An imported rule with the conditions of its log source: all but the last part of the tree."""
    parts = tree[1:-1] if tree[0] == "and" else []
    return all_of(*map(build_sigma_rule, parts), imported)
