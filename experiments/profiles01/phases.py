"""The three cases of section 4.3.1: no index, joins first, and constants first.

A profile has constant predicates, on a topic and on the price, and one of j join predicates. With
1,000 topics a document needs few of the join predicates. With one, which all documents have, it
needs nearly all. *Estimated*
takes the order that the cost model estimates to be cheaper, document by document. Without any index
every profile is evaluated with every document: this is measured for 50 profiles and 50 documents,
and multiplied.

Usage: python -m experiments.profiles01.phases [--quick] [--rules N] [--most N] [--events N]
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import thread_time
from unittest.mock import patch

import numpy as np

import tamis
from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings, summarize
from experiments.profiles01.joins import draw_documents
from experiments.profiles01.page import PAPER
from tamis.matcher.join_predicates import CostModel

JOINS = (1, 4, 16, 64)
TOPICS = (1_000, 1)
DOCUMENTS = 10_000
SOME = 50
"""How many profiles and documents are evaluated without an index."""


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    size = min(settings.most, DOCUMENTS)
    for topics in TOPICS:
        for count in JOINS:
            rows += measure(settings, size, topics, count)
    times = {(row["topics"], row["joins"], row["engine"]): row["ms_median"] for row in rows}
    claims = []
    for topics in TOPICS:
        for count in (JOINS[0], JOINS[-1]):
            joins, constants, both = (
                times[topics, count, engine]
                for engine in ("joins-first", "constants-first", "estimated")
            )
            best = min(joins, constants)
            claims.append(
                Claim(
                    f"{topics:,} topics, j = {count}: constants first against joins first; "
                    "estimated against the better one",
                    "-",
                    f"{constants / joins:.2g} ×; {both / best:.2g} ×",
                )
            )
    worst = max(
        time / times[topics, count, "no-index"]
        for (topics, count, engine), time in times.items()
        if engine != "no-index"
    )
    claims.append(Claim("any order against no index, at worst", "less", f"{worst:.1g} ×"))
    return Figure(
        "phases",
        f"The order of the phases: {settings.rules:,} profiles, {size:,} documents",
        "joins",
        "distinct join predicates",
        [row for row in rows if row["engine"] != "no-index"],
        claims,
        panels="topics",
        log_x=True,
        y="ms_median",
        y_label="ms a document (median)",
        batch=1,
    )


def measure(settings: Settings, size: int, topics: int, count: int) -> list[Row]:
    """Measure all cases for one set of profiles."""
    texts = draw_profiles(settings.rules, topics, count)
    documents = list(draw_documents(size, 0))
    matcher = tamis.Matcher()
    matcher.add_many(texts)
    matcher.optimize()
    matcher.documents.add_many(documents)
    known = {"topics": topics, "joins": count}
    rows: list[Row] = []
    orders: dict[str, Callable[[CostModel, int, int], bool] | None] = {
        "joins-first": lambda *_: False,
        "constants-first": lambda *_: True,
        "estimated": None,
    }
    for engine, order in orders.items():
        if order is None:
            rows.append({**known, "engine": engine, **measure_matching(matcher, settings)})
            continue
        with patch.object(CostModel, "constants_first", order):
            rows.append({**known, "engine": engine, **measure_matching(matcher, settings)})
    rows.append({**known, "engine": "no-index", **measure_scan(texts, documents)})
    return rows


def draw_profiles(size: int, topics: int, count: int) -> list[tuple[int, str]]:
    random = Random(7)
    topic = "topic = 't{}'" if topics > 1 else "topic IS NOT NULL"
    texts = []
    for number in range(size):
        constants = (
            f"{topic.format(random.randrange(topics))} AND price < {random.randrange(1_000)}"
        )
        where = f"d.author = author AND d.year > {1_900 + number % count}"
        texts.append((number, f"{constants} AND EXISTS (SELECT 1 FROM seen d WHERE {where})"))
    return texts


def measure_matching(matcher: tamis.Matcher, settings: Settings) -> Row:
    """Measure the time to match a document."""
    taken = []
    for document in draw_documents(settings.events + settings.events // 4, -1):
        start = thread_time()
        matcher.match(document)
        taken.append(1e3 * (thread_time() - start))
    return summarize(np.array(taken[settings.events // 4 :]))


def measure_scan(texts: list[tuple[int, str]], documents: list[dict[str, object]]) -> Row:
    """Measure some profiles and documents without an index, and multiply the time."""
    rules = [tamis.parse(text) for _, text in texts[:SOME]]
    some = documents[:SOME]
    (event,) = draw_documents(1, -1)
    # Every profile reads every document, whatever its constants say.
    start = thread_time()
    for rule in rules:
        tamis.evaluate(rule, event, documents=some)
    taken = 1e3 * (thread_time() - start)
    share = len(rules) * len(some) / (len(texts) * len(documents))
    return summarize(np.array([taken / share]))


if __name__ == "__main__":
    run(make, PAPER)
