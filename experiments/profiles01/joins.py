"""Join predicates over up to a million documents, and the paper's example of them.

A profile has two constant predicates, on a topic and on the price, and a join predicate: *simple*
is a comparison with all or any documents, *conjunction* an equality and a comparison in one
quantifier. A time is that of `publish`, which also remembers the document.

Usage: python -m experiments.profiles01.joins [--quick] [--rules N] [--most N] [--events N]
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import thread_time
from typing import Any

import numpy as np

import tamis
from experiments.paper.figure import Claim, Figure, run
from experiments.paper.measure import Row, Settings, summarize
from experiments.profiles01.page import PAPER

SHARES = (0.001, 0.01, 0.1, 1.0)
KINDS = {
    "none": None,
    "simple": "price < ALL (SELECT d.price FROM seen d)",
    "conjunction": "EXISTS (SELECT 1 FROM seen d WHERE d.author = author AND d.price < price)",
}
EXAMPLE = (
    "price < ANY (SELECT d.price FROM seen d)",
    "year > ALL (SELECT d.year FROM seen d)",
    "EXISTS (SELECT 1 FROM seen d WHERE d.author = author)",
)
AT_ONCE = 10_000


def make(settings: Settings) -> Figure:
    rows: list[Row] = []
    for kind, join in KINDS.items():
        matcher = build_matcher(settings.rules, join)
        present = 0
        for share in SHARES:
            size = max(1, round(share * settings.most))
            for first in range(present, size, AT_ONCE):
                count = min(AT_ONCE, size - first)
                matcher.documents.add_many(list(draw_documents(count, first)))
            present = size
            rows.append(
                {"documents": size, "engine": kind, **measure_publishing(matcher, settings)}
            )
    times = {(row["engine"], row["documents"]): row["ms"] for row in rows}
    fewest, most = rows[0]["documents"], rows[len(SHARES) - 1]["documents"]
    added = times["simple", most] - times["none", most]
    return Figure(
        "joins",
        f"Join predicates: {settings.rules:,} profiles",
        "documents",
        "documents seen before",
        rows,
        [
            Claim("Example 5", "011", run_example()),
            Claim(
                f"simple, growth of the time from {fewest:,} to {most:,} documents",
                "log D",
                f"{times['simple', most] / times['simple', fewest]:.2g} ×",
            ),
            Claim(
                f"conjunction, growth from {fewest:,} to {most:,} documents",
                "-",
                f"{times['conjunction', most] / times['conjunction', fewest]:.2g} ×",
            ),
            Claim(f"what a simple one adds with {most:,} documents", "-", f"{1000 * added:.0f} µs"),
        ],
        log_x=True,
        y_label="ms a document",
        batch=1,
    )


def run_example() -> str:
    """Run the paper's example; each bit says whether a profile matches."""
    matcher = tamis.Matcher()
    matcher.add_many(enumerate(EXAMPLE))
    matcher.documents.add({"price": 10, "year": 2000, "author": "Smith"})
    matcher.documents.add({"price": 25, "year": 1999})
    found = matcher.match({"price": 30, "year": 2001, "author": "Smith"})
    return "".join("01"[number in found] for number in range(len(EXAMPLE)))


def build_matcher(size: int, join: str | None) -> tamis.Matcher:
    random = Random(7)
    matcher = tamis.Matcher()
    texts = []
    for number in range(size):
        constants = f"topic = 't{random.randrange(1_000)}' AND price < {random.randrange(1_000)}"
        texts.append((number, constants if join is None else f"{constants} AND {join}"))
    matcher.add_many(texts)
    matcher.optimize()
    return matcher


def draw_documents(count: int, seed: int) -> Iterator[dict[str, Any]]:
    random = Random(seed)
    for _ in range(count):
        yield {
            "topic": f"t{random.randrange(1_000)}",
            "price": random.randrange(100_000) / 100,
            "year": random.randrange(1_900, 2_030),
            "author": f"author {random.randrange(100_000)}",
        }


def measure_publishing(matcher: tamis.Matcher, settings: Settings) -> Row:
    """Measure the time to publish a document."""
    taken = []
    for document in draw_documents(settings.events, -1):
        start = thread_time()
        matcher.publish(document)
        taken.append(1e3 * (thread_time() - start))
    return summarize(np.array(taken))


if __name__ == "__main__":
    run(make, PAPER)
