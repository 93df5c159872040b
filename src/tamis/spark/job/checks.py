"""Check what no single key of a pipeline's file shows: that its keys go together."""

from __future__ import annotations

from pathlib import Path

from tamis.spark.job.settings import (
    FILE_FORMATS,
    Config,
    EventsSource,
    Place,
    RulesSource,
    is_address,
)

__all__ = ["check_config"]


def check_config(config: Config) -> None:
    """Check that the keys of a file go together, and that its sources exist.

    Raises
    ------
    InputFileError
        They do not.
    """
    pipeline, output = config.pipeline, config.pipeline.output
    outputs = [output.matches, output.counts, output.top, output.report]
    if pipeline.rules is None and pipeline.events is None:
        raise config.error("rules", "there are neither rules to build nor events to match")
    if pipeline.events is None and any(outputs):
        raise config.error("events", "the key is missing; output needs events")
    if pipeline.events is not None and not any(outputs):
        raise config.error("output", "name an output: matches, counts, top or report")
    if pipeline.mode == "stream":
        _check_stream(config)
    elif pipeline.stream is not None:
        raise config.error("stream", 'is for mode = "stream"')
    if output.top is not None and output.top.n < 1:
        raise config.error("output.top.n", f"is at least 1, not {output.top.n}")
    if pipeline.index.keep is not None and pipeline.index.keep < 1:
        raise config.error("index.keep", f"is at least 1, not {pipeline.index.keep}")
    _check_places(config)
    if pipeline.rules is not None:
        _check_rules(config, pipeline.rules)
    if pipeline.events is not None:
        _check_events(config, pipeline.events)


def _check_stream(config: Config) -> None:
    pipeline = config.pipeline
    if pipeline.stream is None:
        raise config.error("stream.checkpoint", 'the key is missing; mode = "stream" needs it')
    if pipeline.events is None:
        raise config.error("events", 'the key is missing; mode = "stream" needs it')
    for key in ("counts", "top", "report"):
        if getattr(pipeline.output, key) is not None:
            raise config.error(f"output.{key}", "a stream writes matches only")


def _check_places(config: Config) -> None:
    output = config.pipeline.output
    for key in ("matches", "counts", "top", "dead_letters"):
        place = getattr(output, key)
        if isinstance(place, Place):
            _check_place(config, f"output.{key}", place)
    if output.report is None:
        return
    if output.matches is None:
        raise config.error("output.report", "a report needs matches; name output.matches, too")
    if isinstance(output.matches, Place) and output.matches.topic is not None:
        raise config.error("output.report", "a report needs matches in a folder or a table")


def _check_place(config: Config, key: str, place: Place) -> None:
    named = [name for name in ("path", "table", "topic") if getattr(place, name) is not None]
    if len(named) != 1:
        raise config.error(key, "name one of path, table and topic")
    if named == ["topic"] and key in ("output.counts", "output.top"):
        raise config.error(f"{key}.topic", "only matches and dead_letters go to a topic")
    if named == ["topic"] and place.servers is None:
        raise config.error(f"{key}.servers", "the key is missing; a topic needs it")


def _check_rules(config: Config, source: RulesSource) -> None:
    if (source.path is None) == (source.table is None):
        raise config.error("rules.path", "the key is missing; or name a table, not both")
    if source.jdbc is not None and source.table is None:
        raise config.error("rules.table", "the key is missing; jdbc needs it")
    if source.follow and source.jdbc is not None:
        raise config.error("rules.follow", "is for Delta tables, not for jdbc")
    _check_path(config, "rules", source)


def _check_events(config: Config, source: EventsSource) -> None:
    if source.topic is not None and source.servers is None:
        raise config.error("events.servers", "the key is missing; a topic needs it")
    named = [name for name in ("path", "table", "topic") if getattr(source, name) is not None]
    if len(named) > 1:
        raise config.error(f"events.{named[1]}", f"there is events.{named[0]}, too; name one")
    if not named and config.format_of("events", source) in FILE_FORMATS:
        raise config.error("events.path", "the key is missing; or name a table or a topic")
    _check_path(config, "events", source)


def _check_path(config: Config, key: str, source: RulesSource | EventsSource) -> None:
    """Check that a source exists, if this machine can see it, and that its format is known."""
    if source.path is None:
        return
    config.format_of(key, source)
    if is_address(source.path) or "*" in source.path:
        return
    if not Path(config.resolve_path(source.path)).exists():
        raise config.error(f"{key}.path", f"there is no {config.resolve_path(source.path)}")
