"""Mutants: which changes are made, and that tests are run on them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from attack import mutation
from attack.mutation import ROOMS, Room, find_mutants

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''
"""A module."""
LIMIT = 3

@kernel
def compiled(a):
    return a + 1

@other(1)
def tried(self, a: int = 7, *, b: bool = True) -> "1":
    "é"
    count: dict[1, 2] = {}
    self.sum = a * 4 if not b and a < 5 else None
    log("x")
    count["é"] += 1
    if a is None:
        raise ValueError(f"{a + 1}")
    return count
'''


def test_every_kind_of_place_has_a_mutant() -> None:
    found = [(mutant.old, mutant.new) for mutant in find_mutants(SOURCE, "m.py")]
    assert found == [
        ("self.sum = a * 4 if not b and a < 5 else None", "pass"),
        ("not b and a < 5", "(not b or a < 5)"),
        ("not b", "(b)"),
        ("a < 5", "(a <= 5)"),
        ("5", "(6)"),
        ("a * 4", "(a // 4)"),
        ("4", "(5)"),
        ('log("x")', "pass"),
        ('count["é"] += 1', "pass"),
        ("1", "(2)"),
        ("a is None", "(a is not None)"),
        ("return count", "return None"),
    ]


def test_mutant_changes_one_place() -> None:
    for mutant in find_mutants(SOURCE, "m.py"):
        changed = mutant.apply(SOURCE.encode()).decode()
        ast.parse(changed)
        assert len(changed) - len(SOURCE) == len(mutant.new) - len(mutant.old)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_have_files_and_tests(room: str) -> None:
    assert all(list(ROOT.glob(pattern)) for pattern in ROOMS[room].files)
    assert all((ROOT / path).exists() for path in ROOMS[room].tests)
    assert len(mutation._list_mutants(room)) > 100


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a function, of which a test sees one half."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sign.py").write_text(
        "def is_positive(x):\n    log(x > 9)\n    return x > 0\n\ndef log(_):\n    pass\n"
    )
    (tmp_path / "test_sign.py").write_text(
        "from sign import is_positive\n\ndef test():\n    assert not is_positive(0)\n"
    )
    monkeypatch.setitem(ROOMS, "sign", Room(("src/sign.py",), ("test_sign.py",)))
    return tmp_path


def test_mutants_are_seen_or_not(tree: Path) -> None:
    file = tree / "src" / "sign.py"
    before = file.read_text()
    assert mutation._time_tests(tree, "sign") > 30
    found = {
        mutant.old: mutation._is_seen(tree, "sign", mutant, 600)
        for mutant in find_mutants(before, "src/sign.py")
        if mutant.old in {"x > 0", "log(x > 9)"}
    }
    assert found == {"x > 0": True, "log(x > 9)": False}
    assert file.read_text() == before
