"""Writing rules as JSON lines."""

from __future__ import annotations

from tests.cli.command import parse_lines, run, run_failing


def test_other_commands_read_what_export_writes() -> None:
    printed = parse_lines(run("export", "rules.jsonl"))
    assert [line["id"] for line in printed] == ["teens", "not-ca", "fans", 7]
    run("build", "rules.jsonl", "-o", "index")
    assert run("export", "index", "-o", "again.jsonl.gz") == "4 rules in again.jsonl.gz\n"
    assert parse_lines(run("export", "again.jsonl.gz")) == printed
    assert parse_lines(run("export", "index", "--only", "7", "--only", "fans")) == [
        printed[3],
        printed[2],
    ]
    assert "only JSON lines" in run_failing("export", "rules.jsonl", "-o", "rules.csv")
