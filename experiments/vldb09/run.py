"""All figures and the page about them: docs/experiments/vldb09.md.

Usage: python experiments/vldb09/run.py [--quick] [--rules N] [--most N] [--events N]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import construction
import figure14
import figure15
import figure16
import figure17
import figure18
import figure19
from figure import PLOTS, RESULTS, add_sizes, finish, settings_of
from page import page

# What one of them leaves encoded or measured, the next one begins with.
ORDER = (figure15, figure16, figure14, figure17, construction, figure18, figure19)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see it run")
    add_sizes(parser)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="where the plots go")
    args = parser.parse_args()
    settings = settings_of(args)
    for module in ORDER:
        start = perf_counter()
        finish(module.make(settings), settings, args.results, args.plots)
        print(f"  took {perf_counter() - start:.0f} s", flush=True)
    target = args.plots.with_suffix(".md")
    target.write_text(page(args.results, args.plots.name))
    print(f"\nWritten to {target}")


if __name__ == "__main__":
    main()
