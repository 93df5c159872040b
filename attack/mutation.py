"""Mutation testing: small changes of the sources, each of which some test has to see.

A mutant differs in one place: a comparison, an operator, a constant, a statement that is missing, a
value that is not returned. The tests of its room run on a copy of the tree with the mutant in it.
Some mutants mean the same as the original, so not all can be seen. Kernels are left out: each
mutant of one would be compiled, and they are tried as plain Python elsewhere.

``make attack PART=mutation SECONDS=3600`` tries mutants of all rooms in turn, and names those that
no test saw. `attack.mutants` has faults that were thought up by hand.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from attack.campaign import Budget, Report

__all__ = ["ROOMS", "Mutant", "Room", "find_mutants", "run"]

_ROOT: Final = Path(__file__).resolve().parent.parent
_COPIED: Final = ("src", "tests", "attack", "scripts", "pyproject.toml", "README.md")
_PATIENCE: Final = 3.0
"""A mutant that takes so many times as long as the original is seen: something noticed."""


class Room(NamedTuple):
    """A part of the sources, and the tests that have to notice its mutants."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


_EXPR: Final = ("evaluate", "json", "model", "normalize", "value_order")

ROOMS: Final = {
    "expr": Room(
        tuple(f"src/tamis/expr/{name}.py" for name in _EXPR),
        tuple(f"tests/expr/test_{name}.py" for name in _EXPR),
    ),
    "text of rules": Room(("src/tamis/expr/text/*.py",), ("tests/expr/text",)),
    "encode": Room(
        ("src/tamis/encode/*.py",), ("tests/encode", "tests/matcher/test_random_operations.py")
    ),
    "storage": Room(
        ("src/tamis/matcher/storage/*.py",),
        (
            *("tests/matcher/storage/test_store.py", "tests/matcher/storage/test_documents.py"),
            *("tests/matcher/storage/test_lock.py", "tests/matcher/storage/test_lost_records.py"),
            "tests/matcher/storage/test_corruption.py",
        ),
    ),
    "pubsub": Room(
        ("src/tamis/pubsub/**/*.py",),
        (
            *("tests/pubsub/test_collection.py", "tests/pubsub/test_addresses.py"),
            *("tests/pubsub/test_columns.py", "tests/pubsub/test_webhooks.py"),
        ),
    ),
}

_IGNORED: Final = ("tests/encode/compiler", "tests/encode/test_kernel.py")
"""They are about compiling, and take longer than all others."""


class Mutant(NamedTuple):
    """A change of one place in a file."""

    file: str
    line: int
    old: str
    new: str
    start: int
    """The first byte that is replaced."""
    end: int

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.file}:{self.line}: {old}  →  {new}"

    def apply(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


# --- Mutants of a source ---

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_LEFT_OUT: Final = (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments)
_KERNELS: Final = {"kernel", "event_kernel", "brief_kernel", "part", "intrinsic", "overload"}


def find_mutants(source: str, file: str) -> Iterator[Mutant]:
    """All mutants of a source, in its order."""
    raw = source.encode()
    offsets = [0]
    for line in raw.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    for node in _walk(ast.parse(source)):
        new = _change(node)
        if new is None:
            continue
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        yield Mutant(file, node.lineno, raw[start:end].decode(), new, start, end)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside functions that are tried: no kernels, annotations, or texts of errors."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            names = {ast.unparse(each).partition("(")[0] for each in child.decorator_list}
            if not names & _KERNELS:
                for statement in child.body:
                    yield statement
                    yield from _walk(statement)
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child)
        elif isinstance(node, ast.Module) or isinstance(child, _LEFT_OUT):
            continue
        elif not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield child
            yield from _walk(child)


def _change(node: ast.AST) -> str | None:
    """The text in the place of a node; None if it stays."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            changed: ast.AST = ast.Compare(left, [_COMPARISONS[type(op)]()], [right])
        case ast.BoolOp(op=op, values=values):
            changed = ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            changed = operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            changed = ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value)):
            return f"({value + 1})"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            return "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            return "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return "pass"
        case _:
            return None
    return f"({ast.unparse(changed)})"


# --- Trying them ---


def run(budget: Budget) -> Report:
    """Try mutants of all rooms in turn, drawn from the seed."""
    report = Report("mutation")
    with TemporaryDirectory(prefix="attack-") as folder:
        tree = _copy_tree(Path(folder))
        limits: dict[str, float] = {}
        for number, random in budget.start_rounds("mutation"):
            room = list(ROOMS)[number % len(ROOMS)]
            if room not in limits:
                limits[room] = _time_tests(tree, room)
            mutant = random.choice(_list_mutants(room))
            report.tried[f"{room}, mutants"] += 1
            is_seen = _is_seen(tree, room, mutant, limits[room])
            report.tried[f"{room}, seen"] += is_seen
            print("seen    " if is_seen else "NOT SEEN", mutant, flush=True)
            if not is_seen:
                report.notes.append(f"not seen: {mutant}")
    return report


@cache
def _list_mutants(room: str) -> list[Mutant]:
    return [
        mutant
        for pattern in ROOMS[room].files
        for path in sorted(_ROOT.glob(pattern))
        for mutant in find_mutants(path.read_text("utf-8"), str(path.relative_to(_ROOT)))
    ]


def _copy_tree(folder: Path) -> Path:
    without = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in _COPIED:
        if (_ROOT / name).is_dir():
            shutil.copytree(_ROOT / name, folder / name, ignore=without)
        else:
            shutil.copy(_ROOT / name, folder / name)
    return folder


def _time_tests(tree: Path, room: str) -> float:
    """Seconds after which a mutant of a room has gone wrong."""
    begin = time.monotonic()
    code = _run_tests(tree, room, None)
    if code != 0:
        raise RuntimeError(f"the tests of {room} fail without a mutant, with code {code}")
    return 30.0 + _PATIENCE * (time.monotonic() - begin)


def _is_seen(tree: Path, room: str, mutant: Mutant, seconds: float) -> bool:
    file = tree / mutant.file
    before = file.read_bytes()
    file.write_bytes(mutant.apply(before))
    try:
        return _run_tests(tree, room, seconds) != 0
    finally:
        file.write_bytes(before)


def _run_tests(tree: Path, room: str, seconds: float | None) -> int | None:
    """The exit code of the tests of a room; None if they do not end."""
    # No file of bytecode: two mutants may have the same size and time.
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ("-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow")
    ignored = [f"--ignore={path}" for path in _IGNORED]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *ignored, *ROOMS[room].tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # What a mutant has started may hang as well.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
