"""The command itself, to which the other modules add what it can do."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import tamis
from tamis.cli.console import one_line
from tamis.errors import RuleSyntaxError, TamisError

__all__ = ["Commands", "app"]


class Commands(TyperGroup):
    """The commands, which all report bad input alike."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TamisError as error:
            _complain(error)
            raise typer.Exit(1) from None
        except BrokenPipeError:
            # Whoever read the results has enough.
            _drop_output()
            raise typer.Exit(0) from None
        except OSError as error:
            _drop_output()
            _complain(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return result


app = typer.Typer(
    cls=Commands,
    name="tamis",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tamis {tamis.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Find the rules that events satisfy.

    Files are JSON lines, CSV or Parquet, told by their names; - is standard
    input, as JSON lines.
    """


def _drop_output() -> None:
    """Send what is still to be written nowhere, or Python complains about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: TamisError | OSError) -> None:
    message = error.summary if isinstance(error, RuleSyntaxError) else str(error)
    typer.echo(f"tamis: {one_line(message)}", err=True)
