"""The command ``tamis``.

Results go to standard output, everything else to standard error. Bad input is one line there and
exit code 1, wrong usage exit code 2. A progress bar is shown to people, never to a pipe.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer.core import TyperGroup

import tamis
from tamis.errors import RuleSyntaxError, StorageError, TamisError, UnknownRuleError
from tamis.expr.model import Op, Predicate, predicates
from tamis.expr.names import name_shown
from tamis.expr.shapes import Shapes
from tamis.files import (
    STDIN,
    Question,
    answers,
    expression_answer,
    load_rule,
    load_rules,
    open_output,
    read_event,
    save_rules,
)
from tamis.importers.command import import_rules
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId, Tagged, tagged
from tamis.workloads.registry import WORKLOADS, make_workload
from tamis.workloads.tables import PartedTable, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["app", "main"]

_Show = Callable[[str, int, float | None], None]
"""Shows what is going on: a title, how many things are done, and what part of all that is."""

_SHOWN = 10
"""How many of the most used attributes are shown."""


class Logic(StrEnum):
    """The logic of rules that do not name their own."""

    STRONG = "strong"
    WEAK = "weak"


class _Commands(TyperGroup):
    """The commands, which all report bad input alike."""

    def invoke(self, ctx: Any) -> Any:
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
    cls=_Commands,
    name="tamis",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command."""
    # Not every terminal has all the characters that explanations and messages use.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="tamis")


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


def _known_engine(name: str | None) -> str | None:
    known = ["auto", *tamis.engines()]
    if name is not None and name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


RulesFile = Annotated[str, typer.Argument(metavar="RULES", help="A file of rules.")]
RulesPlace = Annotated[
    str,
    typer.Argument(metavar="RULES", help="A file of rules, or a directory that build made."),
]
EventsFile = Annotated[
    str | None, typer.Argument(metavar="EVENTS", help="A file of events.", show_default=False)
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_known_engine,
        help=f"How to match: {', '.join(['auto', *tamis.engines()])}.",
    ),
]
LogicName = Annotated[
    Logic, typer.Option("--logic", help="The logic of rules that do not name their own.")
]
OtherEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_known_engine,
        help=f"How to match: {', '.join(['auto', *tamis.engines()])}.",
        show_default="auto, or the stored one",
    ),
]
OtherLogic = Annotated[
    Logic | None,
    typer.Option(
        "--logic",
        help="The logic of rules that do not name their own.",
        show_default="strong, or the stored one",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


SkipBadRules = Annotated[
    bool, typer.Option("--skip-bad-rules", help="Leave out rules that are refused, and say which.")
]
OnlyIds = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ID", help="Look at this rule only; may be repeated."),
]
OnlyTags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Look at rules with this tag only; may be repeated."),
]


@app.command("build")
def build_index(
    rules: RulesFile,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="INDEX", help="The directory to make."),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is stored there, at once.")
    ] = False,
    engine: EngineName = "auto",
    logic: LogicName = Logic.STRONG,
    skip_bad_rules: SkipBadRules = False,
) -> None:
    """Store rules in a directory, from where they are had again at once.

    Wherever a command takes a file of rules, it takes such a directory, too.
    """
    if not overwrite and Path(out).is_dir() and any(Path(out).iterdir()):
        raise StorageError("the directory is not empty; see --overwrite", path=out)
    matcher = Matcher(engine, logic)
    with _progress(True) as show:
        _load(matcher, rules, logic, skip_bad_rules, show)
        show("Writing", len(matcher), None)
        matcher.save(out, overwrite=overwrite)
    typer.echo(f"{len(matcher):,} rules in {out}")


@app.command("export")
def export_rules(
    rules: RulesPlace,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="A .jsonl file; - for the terminal."),
    ] = STDIN,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    logic: OtherLogic = None,
) -> None:
    """Write rules as JSON lines, with their weights, payloads and tags.

    Whatever takes a file of rules takes what it writes.
    """
    _refuse_if(bool(only and tag), "--only and --tag exclude each other.")
    with _progress(out != STDIN) as show:
        matcher = _matcher(rules, None, logic, False, show)
        count = save_rules(
            matcher,
            out,
            only=_chosen(matcher, only, tag),
            watch=lambda done, fraction: show("Writing rules", done, fraction),
        )
    if out != STDIN:
        typer.echo(f"{count:,} rules in {out}")


app.command("import")(import_rules)


@app.command("match")
def match_events(
    rules: RulesPlace,
    events: EventsFile = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--expression",
            metavar="TEXT",
            help="In place of EVENTS: what is known of one, such as 'price > 9 AND kind = 2'.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the matches to this file: .jsonl, .ndjson, .csv or .parquet.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help="The N best rules only, and their scores."),
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="How many rules match, not which ones.")
    ] = False,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--event-id",
            metavar="NAME",
            help="The attribute that names an event, in place of its number in the file.",
        ),
    ] = None,
    engine: OtherEngine = None,
    logic: OtherLogic = None,
    skip_bad_rules: SkipBadRules = False,
) -> None:
    """Find the rules that each event satisfies.

    Prints a line of JSON for each event: {"event": 0, "rules": ["r1", "r7"]},
    where an event is known by its number in the file, from 0.
    """
    _refuse_if((events is None) == (expression is None), "Give one of EVENTS and --expression.")
    of_events = top is not None or count or event_id is not None
    _refuse_if(of_events and events is None, "--top, --count and --event-id are for EVENTS.")
    _refuse_if(top is not None and count, "--top and --count exclude each other.")
    _refuse_if(bool(only and tag), "--only and --tag exclude each other.")
    _refuse_if(rules == events == STDIN, "RULES and EVENTS cannot both be standard input.")
    with open_output(out) as output, _progress(out is not None) as show:
        matcher = _matcher(rules, engine, logic, skip_bad_rules, show)
        question = Question(
            kind="count" if count else "match" if top is None else "top",
            n=top or 0,
            only=_chosen(matcher, only, tag),
            event_id=event_id,
        )
        if expression is not None:
            output.write(expression_answer(matcher, expression, question))
            return
        assert events is not None
        done = 0
        show("Matching events", done, None)
        for answer in answers(matcher, events, question):
            output.write(answer)
            done += len(answer.keys)
            show("Matching events", done, answer.fraction)


@app.command("explain")
def explain_rule(
    rules: RulesPlace,
    rule_id: Annotated[str, typer.Argument(metavar="RULE-ID", help="The rule's id.")],
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="A JSON object, FILE:NUMBER, or - for a JSON object on standard input.",
        ),
    ],
    logic: OtherLogic = None,
    as_json: AsJson = False,
) -> None:
    """Show why a rule matches an event, or why it does not."""
    _refuse_if(rules == event == STDIN, "RULES and EVENT cannot both be standard input.")
    if _is_stored(rules):
        matcher = tamis.open(rules, read_only=True, logic=logic)
        rule = matcher.rule(_rule_id(matcher, rule_id))
    else:
        matcher = Matcher(logic=logic or Logic.STRONG)
        rule = load_rule(matcher, rules, rule_id, logic=logic or Logic.STRONG)
    known = read_event(event)
    explanation, obstacles = matcher.explain(rule.id, known), matcher.why_not(rule.id, known)
    if as_json:
        answer = {"rule": rule.id, "matches": explanation.held}
        _print_json(answer | {"explanation": explanation.to_json()} | obstacles.to_json())
        return
    typer.echo(f"{rule.id} {'matches' if explanation.held else 'does not match'}:")
    typer.echo(str(explanation))
    if not explanation.held:
        typer.echo(str(obstacles))


@app.command("stats")
def show_stats(
    rules: RulesPlace,
    engine: OtherEngine = None,
    logic: OtherLogic = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare all files of a directory with their checksums."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what rules come to, and what those of a file look at."""
    _refuse_if(verify and not _is_stored(rules), "--verify is for a directory that build made.")
    if _is_stored(rules):
        with tamis.open(
            rules, read_only=True, engine=engine, logic=logic, verify=verify
        ) as matcher:
            _show_stored(matcher.stats(), as_json)
        return
    matcher = Matcher(engine or "auto", logic or Logic.STRONG)
    with _progress(True) as show:
        loaded = _load(matcher, rules, logic or Logic.STRONG, False, show)
        attributes, operators = _uses(loaded, show)
    stats = matcher.stats()
    if as_json:
        _print_json({**stats, "attribute_uses": dict(attributes), "operator_uses": dict(operators)})
        return
    console = Console(highlight=False)
    console.print(
        _table(
            ["", ""],
            [(name.replace("_", " "), value) for name, value in stats.items()],
            header=False,
        )
    )
    console.print()
    console.print(_table(["attribute", "predicates"], attributes.most_common(_SHOWN)))
    console.print()
    console.print(_table(["operator", "predicates"], operators.most_common()))


@app.command("warmup")
def compile_kernels(
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An engine; may be repeated. The default one without."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All engines.")] = False,
) -> None:
    """Compile and cache the kernels of the engine, once after installing."""
    from tamis.warmup import warmup

    with _progress(True) as show:
        show("Compiling kernels", 0, None)
        seconds = warmup(tamis.engines() if everything else engine or ["auto"])
    for name, taken in seconds.items():
        typer.echo(f"{name:<12} {taken:6.1f} s")


@app.command("generate")
def generate_workload(
    workload: Annotated[
        str,
        typer.Argument(metavar="WORKLOAD", help=f"What to generate: {', '.join(WORKLOADS)}."),
    ],
    out: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PATH", help="The Parquet file; with --spark, the folder."
        ),
    ],
    rules: Annotated[
        int | None, typer.Option("--rules", min=0, metavar="N", help="Write this many rules.")
    ] = None,
    events: Annotated[
        int | None, typer.Option("--events", min=0, metavar="N", help="Write this many events.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same rows.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter of the workload; may be repeated."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Write with Spark, on all cores or a cluster.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="The Spark cluster.", show_default="this machine"
        ),
    ] = None,
) -> None:
    """Write the rules or the events of a workload that papers measure on, as Parquet.

    Rules have the columns id and rule; events have event_id and a column for
    each attribute. With and without Spark the rows are the same.
    """
    _refuse_if((rules is None) == (events is None), "Give one of --rules and --events.")
    _refuse_if(master is not None and not spark, "--master is for --spark.")
    pairs = dict(_setting(text) for text in settings or [])
    if rules is not None:
        pairs["size"] = str(rules)
    try:
        made = make_workload(workload, {**pairs, "seed": str(seed)})
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None
    table = PartedTable(made, events)
    what = "rules" if events is None else "events"
    with _progress(True) as show:
        if spark:
            rows = _generate_on_spark(table, out, master, f"Writing {what}", show)
        else:
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            rows = write_parquet(
                table, Path(out), watch=lambda done, part: show(f"Writing {what}", done, part)
            )
    typer.echo(f"{rows:,} {what} in {out}")


pipeline_app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    help="Run whole jobs on Spark: rules in, a published index, matches out.",
)
app.add_typer(pipeline_app, name="pipeline")

ConfigFile = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A description of the job: .toml, .yaml or .yml.")
]


@pipeline_app.command("run")
def run_job(config: ConfigFile) -> None:
    """Build an index, match events with it, and write what CONFIG asks for."""
    from tamis.spark.config import read_config

    read = read_config(config)
    with _progress(True) as show:
        show("Starting Spark", 0, None)
        from tamis.spark.pipeline import run_pipeline

        outcome = run_pipeline(read, stage=lambda name, spark: _stage(name, spark, show))
    version = outcome.version
    rows = {
        "index": f"version {version.number}: {version.rules:,} rules, {version.bad:,} refused",
        **{name: f"{seconds:,.1f} s" for name, seconds in outcome.seconds.items()},
        **({} if outcome.batches is None else {"batches": f"{outcome.batches:,}"}),
        **{f"{what} in": place for what, place in outcome.written.items()},
    }
    for name, value in rows.items():
        typer.echo(f"{name:<12} {value}")


@pipeline_app.command("check")
def check_job(config: ConfigFile) -> None:
    """Say what is wrong with CONFIG, or what it would do, without starting Spark."""
    from tamis.spark.config import read_config

    pipeline = read_config(config).pipeline
    steps = []
    if pipeline.rules is not None:
        steps.append(f"build {pipeline.index.path} from {pipeline.rules.path}")
    if pipeline.events is not None:
        source = pipeline.events.path or pipeline.events.format
        kind = "the stream" if pipeline.mode == "stream" else "the events"
        steps.append(f"match {kind} of {source} with {pipeline.index.path}")
    output = pipeline.output
    places = {
        "matches": output.matches,
        "counts": output.counts,
        "best rules": output.top and output.top.path,
        "report": output.report,
    }
    steps += [f"write {what} to {place}" for what, place in places.items() if place]
    for step in steps:
        typer.echo(step)


@contextmanager
def _stage(name: str, spark: SparkSession, show: _Show) -> Iterator[None]:
    """A stage of a pipeline on the progress bar."""
    from tamis.spark.progress import watched

    title = name.capitalize()
    show(title, 0, None)
    with watched(spark, lambda done, tasks: show(title, done, done / tasks)):
        yield


@app.command("demo")
def run_demo(
    rules: Annotated[
        int, typer.Option("--rules", min=1, metavar="N", help="How many rules to generate.")
    ] = 100_000,
    flights: Annotated[
        int | None,
        typer.Option(
            "--flights", min=1, metavar="N", help="How many flights to match.", show_default="all"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The same seed gives the same rules.")
    ] = 1,
    out: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where everything is written."),
    ] = "tamis-demo",
) -> None:
    """Match a year of flights out of New York against alert rules, on Spark."""
    from tamis import demo

    demo.run(rules, seed, flights=flights, folder=out)


@contextmanager
def _progress(wanted: bool) -> Iterator[_Show]:
    """A progress bar on standard error, for people only.

    Results on the terminal are progress enough, and would get in its way: `wanted` is false if
    results go to standard output as they come.
    """
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not wanted):
        yield lambda title, done, fraction: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def show(title: str, done: int, fraction: float | None) -> None:
            total = None if fraction is None else 1.0
            if not progress.tasks or progress.tasks[0].description != title:
                for old in progress.task_ids:
                    progress.remove_task(old)
                progress.add_task(title, total=total, done=done)
            task = progress.task_ids[0]
            progress.update(task, total=total, completed=fraction or 0.0, done=done)

        yield show


def _load(matcher: Matcher, path: str, logic: Logic, skip_bad: bool, show: _Show) -> list[Rule]:
    """Add a file's rules, and say which were skipped."""

    def watch(count: int, fraction: float | None) -> None:
        show("Adding rules" if fraction is None else "Reading rules", count, fraction)

    report = load_rules(matcher, path, logic=logic, skip_bad=skip_bad, watch=watch)
    for error in report.bad:
        typer.echo(f"tamis: skipped: {_one_line(str(error))}", err=True)
    if report.bad:
        typer.echo(f"tamis: {len(report.bad):,} rules were skipped", err=True)
    return [rule for rule in report.rules if rule.id in matcher]


def _setting(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair."""
    name, equals, value = text.partition("=")
    _refuse_if(not equals or not name, f"{text!r} is not of the form NAME=VALUE.")
    return name, value


def _generate_on_spark(
    table: PartedTable, out: str, master: str | None, title: str, show: _Show
) -> int:
    from tamis import spark as ts
    from tamis.spark.generate import generate
    from tamis.spark.progress import watched

    show("Starting Spark", 0, None)
    conf: dict[str, Any] = {} if master is None else {"spark.master": master}
    session = ts.local_session(**conf)
    with watched(session, lambda done, all_tasks: show(title, done, done / all_tasks)):
        return generate(session, table, out)


def _is_stored(rules: str) -> bool:
    """Whether `rules` names a directory, and not a file."""
    return rules != STDIN and Path(rules).is_dir()


def _matcher(
    rules: str, engine: str | None, logic: Logic | None, skip_bad: bool, show: _Show
) -> Matcher:
    """The rules of a file or a directory."""
    if _is_stored(rules):
        return tamis.open(rules, read_only=True, engine=engine, logic=logic)
    matcher = Matcher(engine or "auto", logic or Logic.STRONG)
    _load(matcher, rules, logic or Logic.STRONG, skip_bad, show)
    return matcher


def _show_stored(stats: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print_json(stats)
        return
    flat = {k: v for k, v in stats.items() if not isinstance(v, dict)}
    flat |= {f"{kind} bytes": size for kind, size in stats["stored_bytes"].items()}
    rows = [(name.replace("_", " "), value) for name, value in flat.items()]
    Console(highlight=False).print(_table(["", ""], rows, header=False))


def _chosen(
    matcher: Matcher, only: list[str] | None, tags: list[str] | None
) -> Tagged | list[RuleId] | None:
    if tags:
        return tagged(*tags)
    return [_rule_id(matcher, text) for text in only] if only else None


def _rule_id(matcher: Matcher, text: str) -> RuleId:
    """The id that `text` stands for: that string, or else that integer."""
    if text in matcher:
        return text
    if text.removeprefix("-").isdecimal() and int(text) in matcher:
        return int(text)
    raise UnknownRuleError(f"there is no rule {text!r}")


def _uses(rules: list[Rule], show: _Show) -> tuple[Counter[str], Counter[str]]:
    """How many predicates there are on each attribute, and with each operator."""
    attributes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    shapes = Shapes()
    for i, rule in enumerate(rules):
        expr = shapes.parse(rule.source) if isinstance(rule.source, str) else rule.source
        for predicate in predicates(expr):
            attributes[name_shown(predicate.attribute)] += 1
            operators[_operator(predicate)] += 1
        if i % 10_000 == 0:
            show("Counting predicates", i, i / len(rules))
    return attributes, operators


def _operator(predicate: Predicate) -> str:
    if not predicate.negated:
        return predicate.op
    return {Op.EQ: "<>", Op.PRESENT: "IS NULL"}.get(predicate.op, f"NOT {predicate.op}")


def _table(titles: list[str], rows: list[tuple[str, Any]], header: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=header, header_style="bold")
    table.add_column(titles[0], overflow="fold")
    table.add_column(titles[1], justify="right")
    for name, value in rows:
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return table


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def _refuse_if(wrong: bool, message: str) -> None:
    if wrong:
        raise typer.BadParameter(message)


def _drop_output() -> None:
    """Send what is still to be written nowhere, or Python complains about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: TamisError | OSError) -> None:
    message = error.summary if isinstance(error, RuleSyntaxError) else str(error)
    typer.echo(f"tamis: {_one_line(message)}", err=True)


def _one_line(text: str) -> str:
    """`text` on one line, whatever a file's name or a rule's text holds."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
