"""Measures the workbench in a real browser: from a keystroke in *Try* to the answer on the page.

A server holds BEGen rules, of which an event satisfies 0.01 %. Chromium shows *Try* with an event;
keys are pressed one after the other within one of its values, as a person types: each changes the
event, is sent, matched against all rules, and its answer rendered. The time is that of the browser:
from the key event to the moment at which the new answer is part of the page. The aim is 100 ms at
the 95th percentile with a million rules.

Usage: python -m benchmarks.bench_page [--quick] [--rules N] [--keys N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench_server import COLLECTION, build, running, serve, use_core
from benchmarks.report import RESULTS, Row, save, show
from tamis.workloads.begen import Workload

PAUSES_MS = (0, 60, 150)
"""How long after an answer the next key is pressed: at once, in a hurry, as most people type."""

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

LISTEN = """() => {
  window.pressed = [];
  addEventListener("keydown", (event) => pressed.push(event.timeStamp), true);
}"""

ANSWERED = "(n) => performance.getEntriesByName('tamis-answer').length >= n"
TIMES = """() => [
  pressed, performance.getEntriesByName("tamis-answer").map((mark) => mark.startTime),
]"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a trial run")
    parser.add_argument("--rules", type=int, default=1_000_000, help="the number of rules")
    parser.add_argument("--keys", type=int, default=200, help="how many keys to press each time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    parser.add_argument("--folder", type=Path, help="use the collections in this folder")
    args = parser.parse_args()
    size, keys = (2_000, 10) if args.quick else (args.rules, args.keys)
    workload = Workload(size=size, match_probability=0.01 if args.quick else 0.0001, seed=1)
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as temporary:
        folder = args.folder or Path(temporary)
        if args.folder is None:
            build(folder / COLLECTION, workload)
        use_core(1)
        rows = measure_page(folder, workload, keys)
    show(f"{size:,} rules, a key in Try to its answer on the page", rows)
    save("bench_page", {"rules": size, "keys": keys, "parts": rows}, args.results)


def measure_page(folder: Path, workload: Workload, keys: int) -> list[Row]:
    """Press keys with several pauses between them."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    rows: list[Row] = []
    with running(serve(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page()
        page.set_default_timeout(120_000)
        started = time.perf_counter()
        event = {**workload.events(1)[0], "note": ""}
        address = f"http://127.0.0.1:{server.port}/#/try?c={COLLECTION}&event="
        page.goto(address + quote(json.dumps(event, indent=2)))
        page.locator(".summary").wait_for()
        opened = time.perf_counter() - started
        page.evaluate(LISTEN)
        # Within the text of the last value, so that every key leaves an event.
        page.get_by_label("Event as JSON").click()
        page.keyboard.press("Control+End")
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        for pause in PAUSES_MS:
            times = press_keys(page, keys, pause)
            rows.append(
                {
                    "pause ms": pause,
                    "keys": len(times),
                    "p50 ms": float(np.percentile(times, 50)),
                    "p95 ms": float(np.percentile(times, 95)),
                    "p99 ms": float(np.percentile(times, 99)),
                    "max ms": float(times.max()),
                    "page opens in s": opened,
                }
            )
        browser.close()
    return rows


def press_keys(page: Any, keys: int, pause: float) -> NDArray[np.float64]:
    """How many milliseconds the answer to each key took."""
    page.evaluate("() => { pressed.length = 0; performance.clearMarks('tamis-answer'); }")
    for number in range(keys):
        page.keyboard.press("abcdefghij"[number % 10])
        page.wait_for_function(ANSWERED, arg=number + 1, polling=10)
        page.wait_for_timeout(pause)
    pressed, answered = page.evaluate(TIMES)
    return np.array(answered, np.float64) - np.array(pressed, np.float64)


if __name__ == "__main__":
    main()
