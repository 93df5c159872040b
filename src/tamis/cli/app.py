"""The Typer app: every command in the order of ``tamis --help``, and how errors are reported."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import tamis
from tamis.cli.commands.backtest import backtest_rules
from tamis.cli.commands.build import build_index
from tamis.cli.commands.check import check_rules
from tamis.cli.commands.demo import run_demo
from tamis.cli.commands.doctor import examine_machine
from tamis.cli.commands.explain import explain_rule
from tamis.cli.commands.export import export_rules
from tamis.cli.commands.generate import generate_workload
from tamis.cli.commands.import_ import import_rules
from tamis.cli.commands.keys import keys_app
from tamis.cli.commands.lint import lint_rules
from tamis.cli.commands.match import match_events
from tamis.cli.commands.pipeline import pipeline_app
from tamis.cli.commands.play import play_with_files
from tamis.cli.commands.publish import publish_events
from tamis.cli.commands.ratify import ratify_rules
from tamis.cli.commands.serve import serve_collections
from tamis.cli.commands.similar import find_similar
from tamis.cli.commands.stats import show_stats
from tamis.cli.commands.subscribe import receive_messages
from tamis.cli.commands.test import run_rule_tests
from tamis.cli.commands.warmup import compile_kernels
from tamis.cli.console import print_error
from tamis.encode.compiler.background import call_when_started
from tamis.errors import RuleSyntaxError, TamisError

__all__ = ["app"]

_PANELS: Final[dict[str, dict[str, Callable[..., None] | typer.Typer]]] = {
    "Match events": {"match": match_events, "explain": explain_rule},
    "Store and convert rules": {
        "build": build_index,
        "export": export_rules,
        "import": import_rules,
        "stats": show_stats,
    },
    "Check rules": {
        "backtest": backtest_rules,
        "test": run_rule_tests,
        "check": check_rules,
        "lint": lint_rules,
        "similar": find_similar,
        "ratify": ratify_rules,
    },
    "Serve": {
        "play": play_with_files,
        "serve": serve_collections,
        "keys": keys_app,
        "publish": publish_events,
        "subscribe": receive_messages,
    },
    "Run on Spark": {"pipeline": pipeline_app, "demo": run_demo},
    "Prepare": {
        "doctor": examine_machine,
        "generate": generate_workload,
        "warmup": compile_kernels,
    },
}
"""The commands by name, under the headings that ``tamis --help`` shows."""


class _Commands(TyperGroup):
    """Runs a command, and reports bad input in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        call_when_started(_say_that_kernels_are_compiled)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TamisError as error:
            print_error(error.summary if isinstance(error, RuleSyntaxError) else str(error))
            raise typer.Exit(1) from None
        except BrokenPipeError:
            # The reader of the results has closed the pipe, as `head` does.
            _discard_output()
            raise typer.Exit(0) from None
        except OSError as error:
            _discard_output()
            is_closed = error.errno == errno.EBADF
            print_error("standard output is closed" if is_closed else str(error))
            raise typer.Exit(1) from None
        except MemoryError as error:
            print_error(f"there is not enough memory: {error}".removesuffix(": "))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return result


def _say_that_kernels_are_compiled() -> None:
    print_error("kernels are being compiled; until then answers take longer (see tamis warmup)")


def _discard_output() -> None:
    """Discard buffered output, so that Python does not fail to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tamis {tamis.__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    name="tamis",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def show_version(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Find the rules that events satisfy.

    Files are JSON lines, JSON, CSV or Parquet, by their extension, also with
    .gz or .zst; a folder stands for its files; - is standard input, as JSON
    lines. Begin with: tamis match RULES EVENTS
    """


for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_command)
