"""The package stays small enough to hold in one's head: `budget.toml` says how small."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.repo.code_lines import count_file, count_package, count_rooms

BUDGET = tomllib.loads(Path(__file__).with_name("budget.toml").read_text("utf-8"))


def test_no_room_has_more_lines_than_its_budget() -> None:
    rooms = count_rooms(count_package())
    over = {room: n for room, n in rooms.items() if n > BUDGET["rooms"].get(room, 0)}
    assert not over, f"more lines than tests/repo/budget.toml allows: {over}"


def test_the_package_keeps_its_budget() -> None:
    counts = count_package().values()
    lines = sum(count.code for count in counts)
    header = sum(count.header for count in counts)
    allowed = BUDGET["package"]
    assert lines <= allowed["lines"]
    assert len(counts) <= allowed["files"]
    assert round(header / lines, 3) <= allowed["header"]


def test_the_budget_leaves_no_room_to_grow_unnoticed() -> None:
    """A budget far above the code would not notice what comes back."""
    rooms = count_rooms(count_package())
    loose = {room: most for room, most in BUDGET["rooms"].items() if most > rooms[room] * 1.02 + 20}
    assert not loose, f"lower these in tests/repo/budget.toml: {loose}"


def test_code_lines_leave_out_comments_and_docstrings() -> None:
    text = (
        '"""One."""\n\nimport a  # two\n\n\ndef f():\n'
        '    """Three.\n\n    Four."""\n    return """5\n6"""\n'
    )
    count = count_file(text)
    assert (count.code, count.header) == (4, 1)
