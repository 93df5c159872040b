"""The command: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import tamis
from tamis.cli import app

RULES = [
    {"id": "teens", "rule": "age BETWEEN 13 AND 19 AND country IN ('FR', 'BE')", "tags": ["eu"]},
    {"id": "not-ca", "rule": "state <> 'CA'"},
    {
        "id": "fans",
        "rule": "author = 'Smith' OR price > 10",
        "weights": [["author", "Smith", 2.0], ["price > 10", 0.5]],
    },
    {"id": 7, "rule": {"attr": "age", ">=": 18}},
]
EVENTS = [
    {"id": "e1", "age": 15, "country": "FR"},
    {"id": "e2", "state": "NY", "age": 40},
    {"id": "e3", "author": ["Smith", "Jones"], "price": 12},
    {"id": "e4"},
]
MATCHES = [["teens"], ["not-ca", 7], ["fans"], []]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in a folder of its own, with a file of rules and one of events."""
    monkeypatch.chdir(tmp_path)
    write("rules.jsonl", RULES)
    write("events.jsonl", EVENTS)


def write(name: str, lines: Sequence[Any]) -> None:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(*arguments: str, code: int = 0, stdin: str | None = None) -> str:
    """What the command prints; it must exit with `code`, and without an error be silent."""
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exit_code == code, result.output
    if code == 0:
        assert result.stderr == ""
    return result.stdout


def complaint(*arguments: str, stdin: str | None = None) -> str:
    """The one line on standard error of a command that meets bad input."""
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("tamis: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    return result.stderr.removeprefix("tamis: ").rstrip("\n")


def process(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command as a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-W", "error", "-m", "tamis", *arguments], **options)


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# match ----------------------------------------------------------------------------------------


def test_match_prints_a_line_for_each_event() -> None:
    expected = [{"event": n, "rules": rules} for n, rules in enumerate(MATCHES)]
    assert lines_of(run("match", "rules.jsonl", "events.jsonl")) == expected


@pytest.mark.parametrize("engine", ["auto", *tamis.engines()])
def test_every_engine_matches_the_same(engine: str) -> None:
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--engine", engine))
    assert [line["rules"] for line in found] == MATCHES


def test_events_may_be_remembered_for_those_to_come() -> None:
    write("lows.jsonl", [{"id": "low", "rule": "x < ALL (SELECT d.x FROM seen d)"}])
    write("first.jsonl", [{"x": 5}, {"x": 7}, {"x": 3}])
    write("more.jsonl", [{"x": 4}, {"x": 2}])
    found = lines_of(run("match", "lows.jsonl", "first.jsonl", "--publish"))
    assert [line["rules"] for line in found] == [["low"], [], ["low"]]
    found = lines_of(run("match", "lows.jsonl", "first.jsonl"))
    assert [line["rules"] for line in found] == [["low"]] * 3
    run("build", "lows.jsonl", "-o", "index")
    run("match", "index", "first.jsonl", "--publish")
    found = lines_of(run("match", "index", "more.jsonl", "--publish", "--event-id", "x"))
    assert found == [{"event": 4, "rules": []}, {"event": 2, "rules": ["low"]}]
    run("match", "lows.jsonl", "more.jsonl", "--publish", "--count", code=2)


def test_an_event_may_be_known_by_an_attribute() -> None:
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--event-id", "id"))
    assert [line["event"] for line in found] == ["e1", "e2", "e3", "e4"]


def test_count_and_top() -> None:
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--count"))
    assert [line["matches"] for line in found] == [1, 2, 1, 0]
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--top", "1"))
    assert found[1]["top"] == [{"rule": 7, "score": 1.0}]
    assert found[2]["top"] == [{"rule": "fans", "score": 2.0}]


def test_only_some_rules() -> None:
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--only", "7", "--only", "fans"))
    assert [line["rules"] for line in found] == [[], [7], ["fans"], []]
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--tag", "eu", "--tag", "none"))
    assert [line["rules"] for line in found] == [["teens"], [], [], []]


def test_an_event_may_be_an_expression() -> None:
    asked = ["match", "rules.jsonl", "--expression"]
    assert run(*asked, "age BETWEEN 19 AND 30 AND country = 'FR'") == (
        '{"event":0,"rules":["teens",7]}\n'
    )
    assert run(*asked, "age < 15", "--logic", "weak") == '{"event":0,"rules":["not-ca"]}\n'
    assert run(*asked, "age > 15", "-o", "out.csv", "--only", "7") == ""
    assert Path("out.csv").read_text() == "event,rule\n0,7\n"
    assert "at character 6" in complaint(*asked, "age >")
    assert "= or IN" in complaint(*asked, "country LIKE '%R'")


def test_the_logic_of_rules_without_one() -> None:
    found = lines_of(run("match", "rules.jsonl", "events.jsonl", "--logic", "weak"))
    assert [line["rules"] for line in found][3] == ["not-ca"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_output_goes_to_a_file(name: str) -> None:
    assert run("match", "rules.jsonl", "events.jsonl", "-o", name, "--count") == ""
    if name.endswith("jsonl"):
        assert Path(name).read_text() == run("match", "rules.jsonl", "events.jsonl", "--count")
    elif name.endswith("csv"):
        assert Path(name).read_text() == "event,matches\n0,1\n1,2\n2,1\n3,0\n"
    else:
        assert pq.read_table(name).to_pydict() == {"event": [0, 1, 2, 3], "matches": [1, 2, 1, 0]}


def test_rules_or_events_come_from_standard_input() -> None:
    expected = run("match", "rules.jsonl", "events.jsonl")
    events, rules = Path("events.jsonl").read_text(), Path("rules.jsonl").read_text()
    assert run("match", "rules.jsonl", "-", stdin=events) == expected
    assert run("match", "-", "events.jsonl", stdin=rules) == expected


def test_bad_rules_are_skipped_if_asked_and_named() -> None:
    write("rules.jsonl", [*RULES, {"id": "bad", "rule": "a = "}, {"rule": "TRUE"}])
    result = CliRunner().invoke(app, ["match", "rules.jsonl", "events.jsonl", "--skip-bad-rules"])
    assert result.exit_code == 0
    assert [line["rules"] for line in lines_of(result.stdout)] == MATCHES
    first, second, last = result.stderr.splitlines()
    assert first.startswith("tamis: skipped: rules.jsonl:5: rule 'bad': ")
    assert second == "tamis: skipped: rules.jsonl:6: the rule has no 'id'"
    assert last == "tamis: 2 rules were skipped"


# explain, stats and the others ----------------------------------------------------------------


def test_explain_prints_a_tree() -> None:
    assert run("explain", "rules.jsonl", "teens", '{"age": 15}').splitlines() == [
        "teens does not match:",
        "? AND   [unknown]",
        "  ✓ age BETWEEN 13 AND 19   [age = 15: held]",
        "  ∅ country IN ('FR', 'BE')   [country is absent: absent]",
        "it would match with:",
        "  country IN ('FR', 'BE')   [country is absent]",
    ]
    assert run("explain", "rules.jsonl", "fans", "events.jsonl:2").startswith("fans matches:\n✓ OR")
    pretty = '{\n  "state": "NY"\n}\n'
    assert run("explain", "rules.jsonl", "not-ca", "-", stdin=pretty).startswith("not-ca matches")
    assert run("explain", "rules.jsonl", "not-ca", "{}", "--logic", "weak").startswith("not-ca mat")


def test_explain_prints_json() -> None:
    (found,) = lines_of(run("explain", "rules.jsonl", "7", "events.jsonl:1", "--json"))
    assert found["rule"] == 7
    assert found["matches"] is True
    assert found["explanation"]["values"] == [40]
    assert found["changes"] == []
    (found,) = lines_of(run("explain", "rules.jsonl", "7", '{"age": 2}', "--json"))
    assert [change["values"] for change in found["changes"]] == [[2]]


def test_export_writes_what_the_other_commands_read() -> None:
    printed = lines_of(run("export", "rules.jsonl"))
    assert [line["id"] for line in printed] == ["teens", "not-ca", "fans", 7]
    run("build", "rules.jsonl", "-o", "index")
    assert run("export", "index", "-o", "again.jsonl.gz") == "4 rules in again.jsonl.gz\n"
    assert lines_of(run("export", "again.jsonl.gz")) == printed
    assert lines_of(run("export", "index", "--only", "7", "--only", "fans")) == [
        printed[3],
        printed[2],
    ]
    assert "only JSON lines" in complaint("export", "rules.jsonl", "-o", "rules.csv")


def test_stats_count_rules_and_what_they_use() -> None:
    write("many.jsonl", [{"id": n, "rule": f"a = {n} AND b <> 'x'"} for n in range(1_000)])
    (found,) = lines_of(run("stats", "many.jsonl", "--json"))
    assert (found["rules"], found["atoms"], found["conjunctions"]) == (1_000, 1_001, 1_000)
    assert found["bytes"] > 0
    assert found["attribute_uses"] == {"a": 1_000, "b": 1_000}
    assert found["operator_uses"] == {"=": 1_000, "<>": 1_000}
    shown = run("stats", "many.jsonl")
    assert "1,001" in shown
    assert "attribute" in shown


def test_version() -> None:
    assert run("--version") == f"tamis {tamis.__version__}\n"


@pytest.mark.parametrize(
    "command", [[], *([name] for name in "match explain stats lint ratify similar demo".split())]
)
def test_help_fits_in_80_columns(command: list[str]) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_warmup_names_the_engines_that_it_compiled() -> None:
    for options, engines in (
        ([], ["tiles"]),
        (["--engine", "sift", "--engine", "scan"], ["sift", "scan"]),
    ):
        lines = run("warmup", *options).splitlines()
        assert [line.split()[0] for line in lines] == engines
    assert "unknown engine 'steam'" in complaint("warmup", "--engine", "steam")


USES = """
import pyarrow as pa
import tamis
from numba.core import event

rules = [(n, f"a = {n} AND b <> 'x' AND c > {n}") for n in range(100)]
nested = " AND ".join(f"(a = {i} OR b LIKE '{i}%' OR c < {i})" for i in range(12))
with event.install_recorder("numba:compile") as compiled:
    for engine in tamis.engines():
        m = tamis.Matcher(engine)
        m.add_many([*rules, ("nested", nested)])
        one = {"a": [1, 2], "b": "y", "c": 1.5}
        flat = {"a": 1, "b": "y", "c": 2}
        m.match(one), m.match(one, only=[1, "nested"]), m.top(one)
        for many in ([one, {}], pa.Table.from_pylist([one, {}]), pa.Table.from_pylist([flat])):
            m.match_many(many), m.count_many(many), m.top_many(many)
        m.add_many([(f"new {n}", f"a = {n} OR b LIKE '%{n}'") for n in range(50)])
        m.remove(5)
        m.optimize()
        m.match(one), m.match_many([one])
        m.save(f"index-{engine}")
        with tamis.open(f"index-{engine}") as m:
            m.match(one), m.match_many([one]), m.top(one)
print(len(compiled.buffer))
"""


@pytest.mark.slow
def test_after_warmup_nothing_is_left_to_compile(tmp_path: Path) -> None:
    """In a cache of its own: what other tests compiled must not help."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    engines = ["tiles", "scan"]
    warm = f"from tamis.warmup import warmup; warmup({engines})"
    for script, compiled in [(warm, ""), (USES.replace("tamis.engines()", str(engines)), "0\n")]:
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert done.stdout == compiled


def test_demo_takes_its_options() -> None:
    shown = run("demo", "--rules", "50", "--flights", "500", "--seed", "3")
    assert "500" in shown


# Usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["match", "rules.jsonl"],
        ["match", "rules.jsonl", "events.jsonl", "--expression", "age = 3"],
        ["match", "rules.jsonl", "--expression", "age = 3", "--count"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "0"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "many"],
        ["match", "rules.jsonl", "events.jsonl", "--top", "3", "--count"],
        ["match", "rules.jsonl", "events.jsonl", "--only", "7", "--tag", "eu"],
        ["match", "rules.jsonl", "events.jsonl", "--engine", "steam"],
        ["match", "rules.jsonl", "events.jsonl", "--logic", "fuzzy"],
        ["match", "-", "-"],
        ["export", "rules.jsonl", "--only", "7", "--tag", "x"],
        ["explain", "-", "7", "-"],
        ["explain", "rules.jsonl", "7"],
        ["demo", "--rules", "0"],
        ["demo", "--flights", "0"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments, code=2) == ""


# Bad input ------------------------------------------------------------------------------------

BAD_RULES = {
    "unparsable": ({"id": "x", "rule": "a = = 1"}, "rule 'x': "),
    "unknown function": ({"id": "x", "rule": "foo(a) = 1"}, "foo"),
    "NULL literal": ({"id": "x", "rule": "a = NULL"}, "IS NULL"),
    "number too large": ({"id": "x", "rule": "a = 99999999999999999999"}, "too large"),
    "duplicate id": ({"id": "teens", "rule": "TRUE"}, "rule 'teens': the id is taken by line 1"),
    "10,000 deep": ({"id": "x", "rule": "(" * 10_000 + "a = 1" + ")" * 10_000}, "nested"),
    "10,000 NOTs": ({"id": "x", "rule": "NOT " * 10_000 + "a = 1"}, "nested"),
    "invalid expression": ({"id": "x", "rule": "a RLIKE '(b'"}, "invalid pattern"),
    "enormous expression": ({"id": "x", "rule": "a RLIKE '((a{1000}){1000}){1000}'"}, "pattern"),
    "newline in the message": ({"id": "x\ny", "rule": "a = "}, r"rule 'x\ny': "),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_a_bad_rule_is_one_line_with_file_and_line(case: str) -> None:
    rule, message = BAD_RULES[case]
    write("rules.jsonl", [*RULES, rule])
    line = complaint("match", "rules.jsonl", "events.jsonl")
    assert line.startswith("rules.jsonl:5: ")
    assert message in line
    assert len(line) < 300


@pytest.mark.slow
def test_a_rule_with_a_million_nodes_is_one_line_too() -> None:
    write("rules.jsonl", [{"id": "x", "rule": " OR ".join(["a = 1 AND b = 2"] * 350_000)}])
    line = complaint("match", "rules.jsonl", "events.jsonl")
    assert line.startswith("rules.jsonl:1: rule 'x': the rule has more than")


BAD_EVENTS = {
    "not a mapping": (b'{"age": 1}\n[1, 2]\n', "events.jsonl:2: expected a JSON object"),
    "unsupported value": (b'{"age": 99999999999999999999}', "events.jsonl:1: attribute 'age'"),
    "not UTF-8": (b'{"age": 1}\n\n{"state": "\xff"}\n', "events.jsonl:3: not UTF-8"),
    "truncated": (b'{"age": 1}\n{"state": "N', "events.jsonl:2: not valid JSON"),
    "empty": (b"", "events.jsonl: the file is empty"),
}


@pytest.mark.parametrize("case", BAD_EVENTS)
def test_bad_events_are_one_line_with_file_and_line(case: str) -> None:
    data, message = BAD_EVENTS[case]
    Path("events.jsonl").write_bytes(data)
    assert complaint("match", "rules.jsonl", "events.jsonl").startswith(message)


def test_other_bad_input_is_one_line_too() -> None:
    Path("out.csv").mkdir()
    for arguments, message in {
        ("match", "no.jsonl", "events.jsonl"): "no.jsonl: there is no such file",
        ("match", "rules.jsonl", "no.csv"): "no.csv: there is no such file",
        ("match", "rules.jsonl", "."): ".: this is a directory; name a file",
        ("match", "rules.jsonl", "events.jsonl", "--only", "x"): "there is no rule 'x'",
        ("match", "rules.jsonl", "events.jsonl", "-o", "out.txt"): "out.txt: unknown extension",
        ("match", "rules.jsonl", "events.jsonl", "-o", "out.csv"): "out.csv: cannot be written",
        (
            "match",
            "rules.jsonl",
            "events.jsonl",
            "-o",
            "rules.jsonl/a.csv",
        ): "rules.jsonl/a.csv: can",
        ("match", "rules.jsonl", "events.jsonl", "--event-id", "x"): "events.jsonl: the id 'x' of",
        ("explain", "rules.jsonl", "x", "{}"): "rules.jsonl: there is no rule 'x'",
        ("explain", "rules.jsonl", "7", "{"): "EVENT: not valid JSON",
        ("explain", "rules.jsonl", "7", "[]"): "EVENT: expected a JSON object",
        ("explain", "rules.jsonl", "7", "events.jsonl:9"): "events.jsonl: there is no event 9",
        ("stats", "no.jsonl"): "no.jsonl: there is no such file",
    }.items():
        assert complaint(*arguments).startswith(message)
    assert complaint("match", "rules.jsonl", "-", stdin="") == "<stdin>: the file is empty"
    assert complaint("match", "rules.jsonl", "-", stdin="{}\n{").startswith("<stdin>:2: ")


# As a process ---------------------------------------------------------------------------------


def test_a_pipe_gets_results_and_nothing_else() -> None:
    command = process("match", "rules.jsonl", "-", stdin=subprocess.PIPE)
    out, err = command.communicate(Path("events.jsonl").read_bytes())
    assert command.returncode == 0
    assert err == b""
    assert [line["rules"] for line in lines_of(out.decode())] == MATCHES


def test_results_do_not_wait_for_the_end_of_a_pipe() -> None:
    with process("match", "rules.jsonl", "-", stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        for n in (0, 1):
            command.stdin.write(b'{"age": 30}\n')
            command.stdin.flush()
            assert json.loads(command.stdout.readline()) == {"event": n, "rules": [7]}


def test_bad_input_is_exit_code_1_without_a_traceback() -> None:
    Path("events.jsonl").write_bytes(b'{"age": 15, "country": "FR"}\n' * 3 + b"{")
    command = process("match", "rules.jsonl", "events.jsonl", "-o", "out.parquet")
    out, err = command.communicate()
    assert command.returncode == 1
    assert out == b""
    assert err == b"tamis: events.jsonl:4: not valid JSON: input data was truncated\n"
    assert not list(Path().glob("*out*"))


def test_a_reader_that_has_enough_ends_the_command_in_silence() -> None:
    write("events.jsonl", [{"age": 15, "country": "FR"}] * 200_000)
    with process("match", "rules.jsonl", "events.jsonl") as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert json.loads(command.stdout.readline())["event"] == 0
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        command = process("match", "rules.jsonl", "events.jsonl", stdout=full)
        _, err = command.communicate()
    assert command.returncode == 1
    assert err == b"tamis: [Errno 28] No space left on device\n"


def test_an_interrupt_ends_the_command_in_silence() -> None:
    with process("match", "rules.jsonl", "-", "-o", "out.csv", stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stderr is not None
        # The file aside is made when the command has begun.
        while not list(Path().glob(".out.csv*")):
            assert command.poll() is None
            time.sleep(0.05)
        command.send_signal(signal.SIGINT)
        assert command.stderr.read() == b""
    assert command.returncode == 130
    assert not list(Path().glob(".out.csv*"))


def test_a_terminal_gets_a_progress_bar() -> None:
    ours, theirs = pty.openpty()
    command = process(
        "match", "rules.jsonl", "events.jsonl", "-o", "out.csv", stdout=theirs, stderr=theirs
    )
    command.wait()
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode()
    os.close(ours)
    assert command.returncode == 0
    assert "Matching events" in shown
    assert Path("out.csv").exists()


def test_no_progress_bar_gets_between_results_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = process("match", "rules.jsonl", "events.jsonl", stdout=theirs, stderr=theirs)
    command.wait()
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode()
    os.close(ours)
    assert [line["rules"] for line in lines_of(shown)] == MATCHES


def test_explain_does_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = process("explain", "rules.jsonl", "7", '{"age": 18}', env=environment)
    out, err = command.communicate()
    assert command.returncode == 0, err
    assert b"age >= 18" in out


# The documentation ----------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "command.md"


def steps_of(page: Path) -> list[tuple[str, str]]:
    """Every command of the page's console blocks, and what the page says it prints."""
    steps = []
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "fence" and token.info == "console":
            for step in token.content.removeprefix("$ ").split("\n$ "):
                command, _, shown = step.partition("\n")
                steps.append((command, shown))
    return steps


def test_the_page_shows_what_the_command_prints() -> None:
    """Files that the page shows with cat are there because it shows them."""
    for name in ("rules.jsonl", "events.jsonl"):
        Path(name).unlink()
    for command, shown in steps_of(PAGE):
        read = command.removeprefix("cat ")
        if read != command and not Path(read).exists():
            Path(read).write_text(shown)
        script = f'tamis() {{ "{sys.executable}" -m tamis "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.stdout.rstrip("\n") == shown.rstrip("\n"), command


# --- Rules in a directory ---------------------------------------------------------------


def test_a_directory_of_rules() -> None:
    assert run("build", "rules.jsonl", "-o", "index", "--engine", "scan") == "4 rules in index\n"
    expected = run("match", "rules.jsonl", "events.jsonl")
    for extra in ((), ("--engine", "keyed"), ("--logic", "strong")):
        assert run("match", "index", "events.jsonl", *extra) == expected
    assert "teens" in run("match", "index", "events.jsonl", "--tag", "eu")
    assert run("explain", "index", "7", '{"age": 20}').startswith("7 matches")
    assert run("explain", "index", "teens", "{}").startswith("teens does not match")
    assert "no rule 'nobody'" in complaint("explain", "index", "nobody", "{}")
    assert "logic is 'strong'" in complaint("match", "index", "events.jsonl", "--logic", "weak")
    Path("empty").mkdir()
    assert "empty" in complaint("match", "empty", "events.jsonl")


def test_what_a_directory_comes_to() -> None:
    run("build", "rules.jsonl", "-o", "index")
    shown = run("stats", "index", "--verify")
    for words in ("rules", "segments", "segment bytes", "log bytes", "engine"):
        assert words in shown
    stats = json.loads(run("stats", "index", "--json"))
    assert (stats["rules"], stats["segments"]) == (4, 1)
    assert stats["stored_bytes"]["segment"] > 0
    segment = next(Path("index").glob("segment-*"))
    data = bytearray(segment.read_bytes())
    data[data.rindex(b"Smith")] ^= 1
    segment.write_bytes(data)
    assert segment.name in complaint("stats", "index", "--verify")
    run("stats", "rules.jsonl", "--verify", code=2)


def test_building_over_something() -> None:
    write("some.jsonl", [*RULES, {"id": "bad", "rule": "x ="}])
    assert "bad" in complaint("build", "some.jsonl", "-o", "index")
    assert not Path("index").exists()
    result = CliRunner().invoke(app, ["build", "some.jsonl", "-o", "index", "--skip-bad-rules"])
    assert (result.exit_code, result.stdout) == (0, "4 rules in index\n")
    assert "1 rules were skipped" in result.stderr
    assert "--overwrite" in complaint("build", "rules.jsonl", "-o", "index")
    assert run("build", "rules.jsonl", "-o", "index", "--overwrite") == "4 rules in index\n"
    run("build", "rules.jsonl", code=2)


def test_generate_writes_rules_and_events_that_match_reads() -> None:
    made = ["--seed", "3", "--set", "dimensions=20", "--set", "rule_size=2"]
    assert run("generate", "begen", "--rules", "500", "-o", "r.parquet", *made).startswith(
        "500 rules"
    )
    run("generate", "begen", "--events", "40", "-o", "deep/e.parquet", *made)
    assert pq.read_table("deep/e.parquet")["event_id"].to_pylist() == list(range(40))
    counted = lines_of(run("match", "r.parquet", "deep/e.parquet", "--count"))
    assert sum(line["matches"] for line in counted) > 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["begen", "-o", "x"], "one of --rules and --events"),
        (["begen", "--rules", "1", "--events", "1", "-o", "x"], "one of --rules and --events"),
        (["beegen", "--rules", "1", "-o", "x"], "is not one of ads, begen, nested, qgrams"),
        (["ads", "--rules", "1", "-o", "x", "--set", "dimensions"], "NAME=VALUE"),
        (["ads", "--rules", "1", "-o", "x", "--set", "colour=1"], "has no parameter 'colour'"),
        (["ads", "--rules", "1", "-o", "x", "--set", "months=13"], "months lies between 1 and 12"),
        (["ads", "--rules", "1", "-o", "x", "--master", "local"], "--master is for --spark"),
        (["qgrams", "--rules", "99999", "-o", "x"], "texts, and 99,999 are asked for"),
        (["qgrams", "--events", "1", "-o", "x", "--set", "texts=none"], "or a file with a text"),
    ],
)
def test_generate_refuses_what_it_cannot_make(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["generate", *arguments], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("x").exists()


def test_a_time_may_be_given() -> None:
    write(
        "timed.jsonl",
        [{"id": "r", "rule": "a = 1", "valid_from": "2026-05-01T12:00:00Z", "priority": 2}],
    )
    write("one.jsonl", [{"a": 1}])
    for at, expected in (
        ("2026-05-01", []),
        ("2026-05-01T12:00:00", ["r"]),
        ("2026-05-01T13:59:00+0200", []),
    ):
        (found,) = lines_of(run("match", "timed.jsonl", "one.jsonl", "--at", at))
        assert found["rules"] == expected
        shown = run("explain", "timed.jsonl", "r", '{"a": 1}', "--at", at)
        assert shown.startswith("r matches" if expected else "r does not match")
    assert "only from 2026-05-01" in run(
        "explain", "timed.jsonl", "r", '{"a": 1}', "--at", "2026-05-01"
    )
    (printed,) = lines_of(run("export", "timed.jsonl"))
    assert (printed["priority"], printed["valid_from"]) == (2, "2026-05-01T12:00:00+00:00")


def test_lint_tells_which_rules_are_idle() -> None:
    assert run("lint", "rules.jsonl") == "0 findings in 4 rules\n"
    write(
        "odd.jsonl",
        [
            {"id": "wide", "rule": "a IN (1, 2)"},
            {"id": "part", "rule": "a = 1"},
            {"id": "never", "rule": "x > 5 AND x < 3"},
        ],
    )
    assert run("lint", "odd.jsonl", code=1).splitlines() == [
        "subsumed   'part' matches only where 'wide' does",
        "never      'never' matches only events with several values of 'x'",
        "2 findings in 3 rules",
    ]
    found = json.loads(run("lint", "odd.jsonl", "--single-valued", "--json", code=1))
    assert [(one["kind"], one["rule"], one["other"]) for one in found] == [
        ("subsumed", "part", "wide"),
        ("never", "never", None),
    ]


def test_ratify_compares_an_index_with_its_rules() -> None:
    run("build", "rules.jsonl", "-o", "index")
    assert run("ratify", "index", "--seconds", "0").startswith("4 rules, 8 events, ")
    found = json.loads(run("ratify", "rules.jsonl", "--seconds", "0", "--sample", "2", "--json"))
    assert (found["rules"], found["differences"]) == (2, [])


def test_similar_takes_an_id_or_a_rule() -> None:
    write("some.jsonl", [{"id": "wide", "rule": "a >= 1"}, {"id": 5, "rule": "a >= 2"}])
    assert run("similar", "some.jsonl", "5").endswith("%  wide wider\n")
    assert run("similar", "some.jsonl", "NOT a < 2 AND a IS NOT NULL", "-n", "1").endswith("  5\n")
    (found,) = json.loads(run("similar", "some.jsonl", "wide", "--json"))
    assert (found["id"], found["implies"], found["implied"]) == (5, True, False)
    assert complaint("similar", "some.jsonl", "7") == "there is no rule '7'"
