"""`python -m tamis.samples flights` prints sample events as JSON lines, at once or at a pace."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tamis.samples import flights

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Print the sample that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tamis.samples", description=main.__doc__)
    parser.add_argument("name", choices=["flights"], help="the sample")
    parser.add_argument("--count", type=int, metavar="N", help="print the first N events only")
    parser.add_argument("--pace", type=float, metavar="N", help="print N events a second")
    given = parser.parse_args(arguments)
    for event in flights()[: given.count]:
        sys.stdout.write(json.dumps(event, ensure_ascii=False) + "\n")
        if given.pace:
            sys.stdout.flush()
            time.sleep(1 / given.pace)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()  # the reader has enough; the interpreter must not complain
