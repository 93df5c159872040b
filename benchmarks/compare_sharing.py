"""Compares this tree with another checkout on rules that share their predicates, and on functions.

Each tree gets a process of its own, and both are measured in turn, as ``benchmarks.compare`` does:

- *ads*, *ads-cnf*: the k-index paper's advertising rules in DNF, and in CNF with six months;
- *kinds*: rules of eleven kinds of functions in turn; see ``benchmarks/bench_kinds.py``;
- *criteria*: rules like those of the Mustang library, in ORs of ANDs and ANDs of ORs;
- *begen*: the BE-Tree paper's conjunctions, which share little.

For each: the seconds of `add_many`, the bytes of the index per rule, the microseconds of
`match_array`, `match` and `top`. Times are medians of CPU time, which a busy machine changes less
than others.

``--engines`` measures `tiles` and `shared` of this tree instead, which is how `shares_atoms` was
placed.

Usage: python -m benchmarks.compare_sharing BASE [--rules N] [--rounds N] [--scenarios NAME …]
       [--engines] [--quick] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import process_time, thread_time
from typing import Any

import tamis
from benchmarks.bench_kinds import COUNTRIES, KINDS, draw_criterion
from benchmarks.bench_kinds import draw_event as draw_kinds_event
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads import ads, begen

ROOT = Path(__file__).resolve().parent.parent
EVENTS = 100
SINGLE = ("match_array", "match", "top")

Event = dict[str, Any]
Load = tuple[list[tuple[int, str]], list[Event]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, nargs="?", default=ROOT, help="the other checkout")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is measured")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--engines", action="store_true", help="compare two engines of this tree")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    parser.add_argument("--work", nargs=2, metavar=("SCENARIO", "ENGINE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    rules, rounds = (500, 1) if args.quick else (args.rules, args.rounds)
    if args.work:
        work(args.work[0], rules, args.work[1])
        return
    rows: list[Row] = []
    for name in args.scenarios:
        sides = [(args.base.resolve(), "auto"), (ROOT, "auto")]
        if args.engines:
            sides = [(ROOT, "tiles-only"), (ROOT, "shared")]
        rows += compare(name, rules, rounds, sides)
    show(f"{rules:,} rules, medians of {rounds} rounds", rows)
    save("compare_sharing", {"rules": rules, "rounds": rounds, "rows": rows}, args.results)


def compare(name: str, rules: int, rounds: int, sides: list[tuple[Path, str]]) -> list[Row]:
    workers = [start_worker(tree, name, rules, engine) for tree, engine in sides]
    built = [ask(worker, "built") for worker in workers]
    figures: list[dict[str, list[float]]] = [{}, {}]
    for number in range(rounds):
        for what in SINGLE:
            # Neither side is always the first.
            for at in (0, 1) if number % 2 == 0 else (1, 0):
                figures[at].setdefault(what, []).append(ask(workers[at], what)["us"])
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    if built[0]["found"] != built[1]["found"]:
        raise SystemExit(f"the two sides find other rules: {built}")
    rows = [
        {"scenario": name, "what": what, "base": built[0][what], "this": built[1][what]}
        for what in ("add_s", "bytes_per_rule")
    ]
    rows += [
        {
            "scenario": name,
            "what": f"{what}, µs",
            "base": median(figures[0][what]),
            "this": median(figures[1][what]),
        }
        for what in SINGLE
    ]
    return [row | {"ratio": row["base"] / row["this"]} for row in rows]


def start_worker(tree: Path, name: str, rules: int, engine: str) -> subprocess.Popen[str]:
    command = ["-m", "benchmarks.compare_sharing", "--rules", str(rules), "--work", name, engine]
    return subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"},
    )


def ask(worker: subprocess.Popen[str], what: str) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(what + "\n")
    worker.stdin.flush()
    answer: dict[str, Any] = json.loads(worker.stdout.readline())
    return answer


def work(name: str, size: int, engine: str) -> None:
    """Measure one side: answer the questions of the input, a line each."""
    logic, load = SCENARIOS[name]
    rules, events = load(size)
    if engine == "tiles-only":
        from tamis.engines.tiles import Tiles

        Tiles.choose = classmethod(lambda cls, _: cls)  # type: ignore[method-assign, assignment]
        engine = "tiles"
    matcher = tamis.Matcher(engine=engine, logic=logic)
    began = process_time()
    matcher.add_many(rules)
    added = process_time() - began
    calls: dict[str, Callable[[Event], Any]] = {
        "match_array": matcher.match_array,
        "match": matcher.match,
        "top": lambda event: matcher.top(event, 10),
    }
    for what in sys.stdin:
        if what.strip() == "built":
            found = sum(len(matcher.match_array(event)) for event in events)
            for call in calls.values():
                call(events[0])
            size_of_index = matcher.stats()["bytes"] / max(len(rules), 1)
            answer = {"add_s": added, "bytes_per_rule": size_of_index, "found": found}
        else:
            answer = {"us": 1e6 * median(seconds(calls[what.strip()], e) for e in events)}
        print(json.dumps(answer), flush=True)


def seconds(call: Callable[[Event], Any], event: Event) -> float:
    began = thread_time()
    call(event)
    return thread_time() - began


def load_ads(form: ads.Form, months: int) -> Callable[[int], Load]:
    def load(size: int) -> Load:
        workload = ads.Workload(size, form=form, months=months)
        texts = workload.rules_table()["rule"].to_pylist()
        return list(enumerate(texts)), list(workload.events(EVENTS))

    return load


def load_begen(size: int) -> Load:
    workload = begen.Workload(size)
    return list(workload.rules()), list(workload.events(EVENTS))


def load_kinds(size: int) -> Load:
    random = Random(3)
    kinds = list(KINDS.values())
    texts = [
        (i, f"country = 'C{random.randrange(COUNTRIES)}' AND {kinds[i % len(kinds)](random)}")
        for i in range(size)
    ]
    return texts, [draw_kinds_event(random) for _ in range(EVENTS)]


def load_criteria(size: int) -> Load:
    random = Random(1)
    names = [chr(ord("a") + i) for i in range(26)]
    texts = [(i, draw_criterion(random)) for i in range(size)]
    return texts, [{name: random.randrange(100) for name in names} for _ in range(EVENTS)]


SCENARIOS: dict[str, tuple[str, Callable[[int], Load]]] = {
    "ads": ("weak", load_ads("dnf", 1)),
    "ads-cnf": ("weak", load_ads("cnf", 6)),
    "kinds": ("strong", load_kinds),
    "criteria": ("strong", load_criteria),
    "begen": ("strong", load_begen),
}


if __name__ == "__main__":
    main()
