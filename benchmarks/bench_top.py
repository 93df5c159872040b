"""Measures `top` beside `match_array` on every workload, with and without weights.

Both take turns on the same matcher and the same events, so a busy machine slows both alike; what
counts is their ratio. With `--cpu` a time is the least CPU time of three calls in a row, which a
busy machine hardly changes; `top` does not profit from what `match_array` has read then. Weights
come in four ways: none; *events*, where the caller weighs each value
of an event; *rules*, where every positive predicate, and every value of an IN, has a weight of its
own; and *both*. All weights are drawn evenly from 0 to 1. The advertising workloads weigh as the
k-index paper does: by the rarity of a key.

*top 5* is the median of `top(event, 5)`, *match_array* that of `match_array`, in microseconds;
*first* is the first `top` of a matcher, which prepares bounds where rules or events have weights.
*many* compares `top_many` with `match_many`, in microseconds per event. *checked* is how many
answers were compared with those of SCAN, which scores everything that matches: a difference ends
the run.

Usage: python -m benchmarks.bench_top [--quick] [--cpu] [--scenarios NAME …] [--weights WAY …]
       [--rules N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tamis
from benchmarks.bench_engines import (
    FEWEST,
    QUICK_RULES,
    RULES,
    encode_rules,
    run_in_fork,
    run_in_new_process,
    skip_encoding,
)
from benchmarks.report import RESULTS, Row, save, show
from benchmarks.scenarios import SCENARIOS, DataMissing, Events, Load
from tamis.encode.arrays import NEGATED, SET
from tamis.encode.dictionary import Dictionary
from tamis.encode.events import EventEncoder
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.engines.scan import Scan
from tamis.expr.event import flatten
from tamis.expr.model import Logic
from tamis.expr.weights import EventWeights
from tamis.workloads.ads import Workload as Ads

WAYS = ("none", "events", "rules", "both")
BEST = 5
BATCH = 512
SECONDS, QUICK_SECONDS = 3.0, 0.02
CALLS = 3
"""How many calls are timed by `--cpu`; the least time counts."""
CHECKED = 20
"""How many answers are compared with those of SCAN."""
RARE = ("ads", "ads-cnf")
"""The scenarios whose weights follow the rarity of keys."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--cpu", action="store_true", help="the CPU time of repeated calls")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--weights", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rules", type=int, help=f"how many; {RULES:,} by default")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    args = parser.parse_args()
    size = args.rules or (QUICK_RULES if args.quick else RULES)
    seconds = QUICK_SECONDS if args.quick else SECONDS
    rows: list[Row] = []
    for name in args.scenarios:
        try:
            found = run_in_new_process(
                measure_scenario, name, size, args.weights, seconds, args.cpu
            )
        except DataMissing as reason:
            print(f"\n{SCENARIOS[name].title}: left out, {reason}", flush=True)
            continue
        title = f"{SCENARIOS[name].title}: {found[0]['rules']:,} rules; µs/event"
        show(title, [{key: row[key] for key in row if key != "scenario"} for row in found])
        rows += found
    save("bench_top", {"cpu": args.cpu, "rows": rows}, args.results)


def measure_scenario(
    name: str, size: int, ways: Sequence[str], seconds: float, cpu: bool
) -> list[Row]:
    scenario = SCENARIOS[name]
    load = scenario.load(size)
    encoded = encode_rules(load.rules["rule"].to_pylist(), scenario.logic)
    is_rare = name in RARE
    rows = []
    for is_weighed in (False, True):
        wanted = [way for way in ways if (way in ("rules", "both")) == is_weighed]
        if not wanted:
            continue
        rules = weigh_rules(encoded, is_rare) if is_weighed else encoded
        for way in wanted:
            row = run_in_fork(measure_way, way, load, rules, scenario.logic, seconds, cpu)
            rows.append({"scenario": name, "weights": way, "rules": encoded.size} | row)
    return rows


def weigh_rules(rules: EncodedRules, is_rare: bool) -> EncodedRules:
    """Give every positive atom of every rule its weights, one for each value of an IN."""
    scores = expand_scores(rules.forms, rules.scores)
    table = rules.atoms.table
    sizes = np.where((table[:, 1] & 3) == SET, table[:, 3] - table[:, 2], 1)
    sizes[(table[:, 1] & NEGATED) != 0] = 0
    of_place = np.where(scores.code >= 0, sizes[scores.code], 0)
    first = np.cumsum(of_place) - of_place
    weights = np.where(of_place > 0, first, -1).astype(np.int32)
    random = np.random.default_rng(1)
    weight = random.random(int(of_place.sum()))
    if is_rare:
        places = np.repeat(np.arange(len(of_place)), of_place)
        within = np.arange(len(places)) - first[places]
        atom = scores.code[places]
        code = rules.atoms.codes[np.where(sizes[atom] > 1, table[atom, 2] + within, 0)]
        code = np.where((table[atom, 1] & 3) == SET, code, table[atom, 2])
        bound = rarity(rules.dictionary)[rules.dictionary.base[table[atom, 0]] + code]
        weight = bound * np.minimum(0.8 + 0.05 * random.standard_normal(len(bound)), 1)
    return rules._replace(scores=scores._replace(weights=weights, weight=weight))


def rarity(dictionary: Dictionary) -> NDArray[np.float64]:
    """The upper bound of each code of each attribute, as the advertising workload has them."""
    workload = Ads(1)
    bounds = np.ones(int(dictionary.base[-1]))
    for place, name in enumerate(workload._names):
        if name in dictionary.attributes:
            number = dictionary.attributes[name]
            axis = dictionary.axes[number]
            for value, bound in enumerate(workload._upper_bounds[place].tolist()):
                bounds[dictionary.base[number] + axis.code(value)] = bound
    return bounds


def measure_way(
    way: str, load: Load, rules: EncodedRules, logic: Logic, seconds: float, cpu: bool
) -> Row:
    with skip_encoding(rules):
        matcher = tamis.Matcher(logic=logic)
        matcher.add_many(load.rules)
    weights = weigh_events(load.events, way in ("events", "both"))
    matcher.match_array(load.events[0])
    start = perf_counter()
    matcher.top(load.events[0], BEST, weights=weights[0])
    first = 1e6 * (perf_counter() - start)
    array, top, matches = time_both(matcher, load.events, weights, seconds, cpu)
    row = {
        "match %": 100 * matches / rules.size,
        "match_array": array,
        "top 5": top,
        "ratio": top / array,
        "first": first,
    }
    row["checked"] = check_answers(matcher, load, rules, weights)
    return row | measure_batch(matcher, load, seconds, way)


def check_answers(
    matcher: tamis.Matcher, load: Load, rules: EncodedRules, weights: list[Any]
) -> int:
    """Compare the best rules of some events with SCAN's, to the last bit; returns how many."""
    scan, encoder = Scan(rules), EventEncoder(rules)
    ids = load.rules["id"]
    pairs = list(zip(load.events, weights, strict=True))[:CHECKED]
    for event, own in pairs:
        encoded = encoder.encode_weighted(flatten(event), EventWeights.of(own))
        best, scores = scan.top_one(encoded, BEST)
        expected = list(zip(ids.take(best).to_pylist(), scores.tolist(), strict=True))
        found = matcher.top(event, BEST, weights=own)
        if found != expected:
            raise RuntimeError(f"the best rules of {event} are {expected}, not {found}")
    return len(pairs)


def time_both(
    matcher: tamis.Matcher, events: Events, weights: list[Any], seconds: float, cpu: bool
) -> tuple[float, float, float]:
    """The medians of `match_array` and `top`, which take turns, and the mean number of matches."""
    clock, calls = (thread_time, CALLS) if cpu else (perf_counter, 1)

    def time_least(call: Callable[[], Any]) -> float:
        least = np.inf
        for _ in range(calls):
            start = clock()
            call()
            least = min(least, clock() - start)
        return float(least)

    taken: tuple[list[float], list[float]] = ([], [])
    matches = []
    for _ in range(3):
        matcher.match_array(events[0])
        matcher.top(events[0], BEST, weights=weights[0])
    begin = perf_counter()
    for event, own in zip(events, weights, strict=True):
        taken[0].append(time_least(partial(matcher.match_array, event)))
        taken[1].append(time_least(partial(matcher.top, event, BEST, weights=own)))
        matches.append(len(matcher.match_array(event)))
        if perf_counter() - begin > seconds and len(matches) >= FEWEST:
            break
    array, top = (1e6 * float(np.median(each)) for each in taken)
    return array, top, float(np.mean(matches))


def weigh_events(events: Events, is_weighed: bool) -> list[Any]:
    """Weights for each value of each event, or None for each event."""
    if not is_weighed:
        return [None] * len(events)
    random = np.random.default_rng(2)
    return [
        {
            (name, value): float(random.random())
            for name, value in event.items()
            if isinstance(value, int | str | float | bool)
        }
        for event in events
    ]


def measure_batch(matcher: tamis.Matcher, load: Load, seconds: float, way: str) -> Row:
    """`top_many` beside `match_many`, which take no weights of events."""
    if way in ("events", "both"):
        return {"match_many": None, "top_many": None, "of many": None}
    rows = load.batch[: 8 if seconds < 1 else BATCH]
    match = time_call(matcher.match_many, rows)
    top = time_call(lambda batch: matcher.top_many(batch, BEST), rows)
    scale = 1e6 / len(rows)
    return {"match_many": match * scale, "top_many": top * scale, "of many": top / match}


def time_call(call: Callable[[Any], Any], argument: Any) -> float:
    """The seconds of the faster of two calls."""
    taken = []
    for _ in range(2):
        start = perf_counter()
        call(argument)
        taken.append(perf_counter() - start)
    return min(taken)


if __name__ == "__main__":
    main()
