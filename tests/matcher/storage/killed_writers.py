"""Writers that are killed at random moments; run by `test_crash.py` in a process of its own.

Each round forks a writer, kills it a random time after a random number of changes, and forks a
reader that compares what it finds in the directory with what the writer said was done. This process
itself opens nothing, so that it has no threads when it forks.

Usage: python killed_writers.py FOLDER ROUNDS SEED
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import tamis
from tamis.matcher.storage import store

Rules = dict[str, str]


def apply(rules: Rules, op: list[Any]) -> Rules:
    """The rules after an operation."""
    kind, *arguments = op
    if kind == "add":
        return {**{i: t for i, t in rules.items() if i not in arguments[0]}, **arguments[0]}
    if kind == "remove":
        return {id: text for id, text in rules.items() if id not in arguments[0]}
    return dict(arguments[0])


def run(matcher: tamis.Matcher, op: list[Any]) -> None:
    kind, what = op
    if kind == "remove":
        matcher.remove_many(what) if len(what) > 1 else matcher.remove(what[0])
    elif kind == "replace_all":
        matcher.replace_all(what)
    elif len(what) == 1:
        ((id, text),) = what.items()
        matcher.add(id, text, replace=True)
    else:
        matcher.add_many(what, replace=True)


def next_op(random: Random, rules: Rules, number: int) -> list[Any]:
    choice = random.random()
    if choice < 0.5 or len(rules) < 5:
        return ["add", {f"r{number}": f"x = {number}"}]
    if choice < 0.6:
        return ["add", {random.choice(list(rules)): f"x = {number} OR y = 1"}]
    if choice < 0.75:
        count = random.choice([3, 20, 60])
        return ["add", {f"r{number}.{i}": f"x = {number}" for i in range(count)}]
    if choice < 0.97:
        return ["remove", random.sample(list(rules), random.choice([1, 1, 3]))]
    return ["replace_all", {f"n{number}.{i}": f"x = {i}" for i in range(random.choice([1, 30]))}]


def write(folder: Path, notes: Path, seed: int, rules: Rules, number: int) -> None:
    """Change rules for ever, noting each change before and after."""
    random = Random(seed)
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def note(*words: Any) -> None:
        os.write(fd, json.dumps(words).encode() + b"\n")

    matcher = tamis.open(folder, engine="scan")
    note("open")
    while True:
        number += 1
        op = next_op(random, rules, number)
        note("begin", op)
        run(matcher, op)
        note("done")
        rules = apply(rules, op)


def wait_for_changes(notes: Path, count: int) -> None:
    """Wait until the writer has made so many changes, however busy the machine is."""
    deadline = time.monotonic() + 60
    while notes.read_bytes().count(b"done") < count and time.monotonic() < deadline:
        time.sleep(0.002)


def found_in(folder: Path) -> Rules:
    with tamis.open(folder, read_only=True, verify=True) as matcher:
        rules = {str(id): matcher.rule(id).text for id in matcher}
        assert len(matcher.match_many([{"x": n} for n in range(40)])) >= 0
        return rules


def check(folder: Path, notes: Path, before: Rules, out: Path) -> None:
    """Compare the directory with the notes, and write down what is there."""
    possible = [before]
    for line in notes.read_text().splitlines():
        words = json.loads(line)
        if words[0] == "begin":
            possible.append(apply(possible[-1], words[1]))
        elif words[0] == "done":
            possible = possible[-1:]
    found = found_in(folder)
    assert list(found.items()) in [list(rules.items()) for rules in possible], (
        f"{len(found)} rules are there, and {[len(rules) for rules in possible]} were to be"
    )
    out.write_text(json.dumps(found))


def forked(function: Any, *arguments: Any) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        function(*arguments)
        status = 0
    except BaseException as error:  # reported on standard error and by the exit status
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(status)


def main() -> None:
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    store._CHECKPOINT_BYTES = 3_000
    warm = tamis.Matcher(engine="scan")
    warm.add_many([(n, f"x = {n}") for n in range(50)])
    warm.match({"x": 1})
    warm.match_many([{"x": 1}])
    random = Random(seed)
    notes, out = folder.with_suffix(".notes"), folder.with_suffix(".found")
    rules: Rules = {}
    changes = 0
    for number in range(rounds):
        notes.write_bytes(b"")
        writer = forked(write, folder, notes, random.random(), rules, 10_000 * number)
        wait_for_changes(notes, random.choice([0, 0, 1, 2, 4, 8, 16]))
        time.sleep(random.uniform(0, 0.05))
        os.kill(writer, signal.SIGKILL)
        status = os.waitpid(writer, 0)[1]
        assert os.WIFSIGNALED(status), "the writer ended by itself"
        if not folder.exists():
            continue
        changes += notes.read_text().count("done")
        reader = forked(check, folder, notes, rules, out)
        assert os.waitpid(reader, 0)[1] == 0, f"round {number}"
        rules = json.loads(out.read_text())
    sys.stdout.write(f"{changes} changes\n")


if __name__ == "__main__":
    main()
