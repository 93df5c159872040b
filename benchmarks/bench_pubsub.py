"""Measures publishing and backtests.

- *publish*: events a second that 1, 8 and 32 threads publish durably into a collection with rules
  of which each event satisfies some, and the microseconds of the CPU that one takes. *disk* is what
  the disk allows: threads that wait for one `fsync` after another;
- *deliver*: messages a second that one subscriber reads and acknowledges;
- *backtest*: seconds in which a draft is compared with the saved rule over the log, from columns
  and from rows; and those of the CPU.

Usage: python -m benchmarks.bench_pubsub [--quick] [--rules N] [--events N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from pathlib import Path
from random import Random
from time import perf_counter, process_time, sleep

from benchmarks.report import RESULTS, Row, save, show
from tamis.pubsub import Collection

DRAFT, SAVED = "price BETWEEN 10 AND 30 AND kind = 'k1'", "price < 20"


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="the number of rules")
    parser.add_argument("--events", type=int, default=1_000_000, help="the number of past events")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to save the figures")
    options = parser.parse_args()
    rules, events, seconds = options.rules, options.events, 5.0
    if options.quick:
        rules, events, seconds = 1_000, 2_000, 0.1
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as name:
        publish, deliver = measure_publishing(Path(name), rules, seconds)
        backtest = measure_backtest(Path(name), events)
    show(f"Publishing, {rules:,} rules, 100 subscriptions", publish)
    show("Delivering", [deliver])
    show("Backtest", [backtest])
    figures = {"rules": rules, "publish": publish, "deliver": deliver, "backtest": backtest}
    save("pubsub", figures, options.results)


def make_event(random: Random) -> dict[str, object]:
    """An event of a shop."""
    return {
        "price": random.randrange(1000) if random.random() < 0.7 else random.random() * 1000,
        "kind": f"k{random.randrange(10_000)}",
        "user": f"u{random.randrange(100_000)}",
        "quantity": random.randrange(10),
    }


def measure_publishing(folder: Path, rules: int, seconds: float) -> tuple[list[Row], Row]:
    """Publish from several threads, then deliver what was published."""
    rows: list[Row] = []
    with Collection.open(folder / "publish") as c:
        c.matcher.add_many(
            (n, f"kind = 'k{n % 10_000}' AND price >= {n % 1000}") for n in range(rules)
        )
        c.matcher.optimize()
        for n in range(100):
            c.subscriptions.put(f"s{n}", rules=range(n, rules, 1000), window=100_000)
        for threads in (1, 8, 32):
            before, cpu = c.log.latest, process_time()
            run_threads(threads, seconds, lambda random: c.publish(make_event(random)))
            count = c.log.latest - before
            rows.append(
                {
                    "threads": threads,
                    "per_s": count / seconds,
                    "cpu_us": (process_time() - cpu) / max(1, count) * 1e6,
                    "disk_per_s": measure_disk(folder, threads, seconds),
                }
            )
        begin, received, after = perf_counter(), 0, None
        for subscription in c.subscriptions:
            after = None
            while found := c.read(subscription, after, limit=100):
                received, after = received + len(found), found[-1].sequence
                c.acknowledge(subscription, after)
        deliver = {"messages": received, "per_s": received / (perf_counter() - begin)}
    return rows, deliver


def measure_disk(folder: Path, threads: int, seconds: float) -> float:
    """Commits a second if each took one `fsync`, which all threads share."""
    fd = os.open(folder / "disk", os.O_WRONLY | os.O_CREAT)
    try:
        begin, count = perf_counter(), 0
        while perf_counter() < begin + seconds / 2:
            os.write(fd, b"x" * 200 * threads)
            os.fsync(fd)
            count += threads
        return count / (perf_counter() - begin)
    finally:
        os.close(fd)


def run_threads(threads: int, seconds: float, call: object) -> None:
    """Have threads call a function for some time."""
    end = perf_counter() + seconds

    def work(seed: int) -> None:
        random = Random(seed)
        while perf_counter() < end:
            call(random)  # type: ignore[operator]

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def measure_backtest(folder: Path, events: int) -> Row:
    """Compare a draft with the saved rule over a log."""
    random = Random(1)
    with Collection.open(folder / "backtest", sync=False) as c:
        c.matcher.add("r", SAVED)
        for start in range(0, events, 10_000):
            count = min(10_000, events - start)
            c.publish_many([make_event(random) for _ in range(count)])
        sides = [file.path.with_name(file.path.name + ".arrow") for file in c.log.files[:-1]]
        while not all(side.exists() for side in sides):
            sleep(0.1)
        row: Row = {"events": events}
        for form in ("columns", "rows"):
            if form == "rows":
                for side in sides:
                    side.unlink()
            c.matcher.backtest(DRAFT, c.log, id="r")
            begin, cpu = perf_counter(), process_time()
            c.matcher.backtest(DRAFT, c.log, id="r")
            row[f"{form}_s"] = perf_counter() - begin
            row[f"{form}_cpu_s"] = process_time() - cpu
        return row


if __name__ == "__main__":
    main()
