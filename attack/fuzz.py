"""Coverage-guided fuzzing of everything that reads bytes, with atheris where it is installed.

Without atheris (``pip install --group attack``) bytes are changed at random: the same targets, with
less reach. Atheris runs each target in a process of its own (`attack.fuzz_process`).
"""

from __future__ import annotations

import base64
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import tamis
from attack.campaign import Budget, Report
from attack.case import Case
from attack.fuzz_targets import SEEDS, TARGETS, make_parquet

__all__ = ["find_fault", "run"]

_HINT: Final = (
    "atheris is not installed, so bytes are changed at random, without regard to coverage: "
    "pip install --group attack"
)
_ROUND_SECONDS: Final = 20
_BLIND: Final = 300
"""Inputs of a round without atheris."""


def find_fault(target: str, data: bytes) -> str | None:
    """Give bytes to a target; what is wrong, or None."""
    try:
        TARGETS[target](data)
    except tamis.TamisError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def check_case(case: Case) -> str | None:
    """Replay a stored input."""
    return find_fault(case.options["target"], base64.b64decode(case.options["data"]))


def run(budget: Budget, targets: Sequence[str] = tuple(TARGETS)) -> Report:
    """Fuzz one target after another."""
    report = Report("fuzz")
    has_atheris = importlib.util.find_spec("atheris") is not None and budget.size >= 1
    if importlib.util.find_spec("atheris") is None:
        report.notes.append(_HINT)
    for number, random in budget.start_rounds("fuzz"):
        target = targets[number % len(targets)]
        fuzz = _fuzz_with_atheris if has_atheris else _fuzz_blindly
        fuzz(target, random, budget, report)
        if report.is_done:
            break
    return report


def _seeds(target: str) -> list[bytes]:
    return [make_parquet()] if target == "parquet events" else list(SEEDS[target])


def _fuzz_blindly(target: str, random: Random, budget: Budget, report: Report) -> None:
    seeds = _seeds(target)
    for _ in range(max(10, int(_BLIND * budget.size))):
        data = mutate(random, seeds)
        report.tried[f"{target}, random changes"] += 1
        message = find_fault(target, data)
        if message is not None:
            _add_failure(target, data, message, budget, report)
            return


def mutate(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Change some bytes of one of the seeds: drop, repeat, swap with others, or draw anew."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        start = random.randint(0, len(data))
        end = min(len(data), start + random.choice((1, 1, 2, 8, 40)))
        match random.randint(0, 4):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = data[start:end] * random.choice((1, 3, 200))
            case 2:
                data[start:end] = random.randbytes(end - start)
            case 3:
                other = random.choice(seeds)
                cut = random.randint(0, len(other))
                data[start:end] = other[cut : cut + random.randint(1, 30)]
            case _:
                data[start:start] = random.choice((b"(", b"'", b"\xff", b"NOT ", b"[[", b"1e999"))
    return bytes(data)


def _fuzz_with_atheris(target: str, random: Random, budget: Budget, report: Report) -> None:
    """Run atheris in a process, which leaves an input where it failed."""
    with TemporaryDirectory(prefix="attack-") as folder:
        seeds, crash = Path(folder) / "seeds", Path(folder) / "crash"
        seeds.mkdir()
        for number, data in enumerate(_seeds(target)):
            (seeds / str(number)).write_bytes(data)
        options = [f"-seed={random.randrange(1, 2**31)}", "-rss_limit_mb=4096", "-timeout=60"]
        options += [f"-max_total_time={_ROUND_SECONDS}", f"-artifact_prefix={crash}"]
        command = [sys.executable, "-m", "attack.fuzz_process", target, *options, str(seeds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(Path(folder).glob("crash*"))
        report.tried[f"{target}, guided"] += _count_runs(done.stderr)
        if not found and done.returncode:
            report.failures.append(f"{target}: {done.stderr[-500:]}")
        for path in found:
            data = path.read_bytes()
            message = find_fault(target, data) or "fails in the fuzzer's process only"
            _add_failure(target, data, message, budget, report)


def _count_runs(output: str) -> int:
    """The number of inputs, from the last line in which the fuzzer reports it."""
    for line in reversed(output.splitlines()):
        if line.startswith(("#", "Done ")):
            return int("".join(c for c in line.split()[0 if line[0] == "#" else 1] if c.isdigit()))
    return 0


def _add_failure(target: str, data: bytes, message: str, budget: Budget, report: Report) -> None:
    small = shrink_bytes(data, lambda smaller: find_fault(target, smaller) is not None)
    options = {"target": target, "data": base64.b64encode(small).decode()}
    case = Case("fuzz", [], [], options)
    report.add_case(case, f"{target}: {message}", lambda _: False, budget.cases)


def shrink_bytes(data: bytes, fails: Callable[[bytes], bool], seconds: float = 30) -> bytes:
    """Drop runs of bytes, long ones first, as long as the rest fails."""
    end = time.monotonic() + seconds
    length = len(data) // 2
    while length and time.monotonic() < end:
        start = 0
        while start < len(data) and time.monotonic() < end:
            rest = data[:start] + data[start + length :]
            if fails(rest):
                data = rest
            else:
                start += length
        length //= 2
    return data
