"""Detection rules of Sigma."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import tamis
from tamis.expr.model import Expr
from tamis.importers import sigma

HEAD = {"title": "A rule", "logsource": {"product": "windows", "category": "process_creation"}}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, name: str, detection: dict[str, Any], **more: Any) -> None:
    (folder / name).write_text(yaml.safe_dump(HEAD | {"name": name, "detection": detection} | more))


def read_rule(folder: Path, detection: dict[str, Any]) -> Expr:
    """The rule with this detection."""
    write(folder, "r.yml", {"condition": "s"} | detection)
    imported = sigma.read(folder)
    assert not imported.refused
    return imported.rules[0].expr


@pytest.mark.parametrize(
    ("selection", "matching", "others"),
    [
        ({"Image|endswith": "\\CMD.exe"}, [{"Image": "c:\\cmd.EXE"}], [{"Image": "cmd.exe"}, {}]),
        ({"a": "10%_!*"}, [{"a": "10%_!x"}], [{"a": "10x_!"}]),
        ({"a": "b?d"}, [{"a": "BCD"}], [{"a": "bd"}]),
        ({"a": "*"}, [{"a": ""}, {"a": 3}], [{}]),
        ({"a": ""}, [{"a": ""}], [{}, {"a": "x"}]),
        ({"a": None}, [{}], [{"a": ""}]),
        ({"a|exists": True}, [{"a": 0}], [{}]),
        ({"a": 4688}, [{"a": 4688}, {"a": "4688"}], [{"a": "46880"}]),
        ({"a": "4688"}, [{"a": 4688}, {"a": "4688"}], [{"a": 4689}]),
        ({"a": True}, [{"a": True}, {"a": "True"}], [{"a": False}]),
        ({"a": ["x", "y"]}, [{"a": "Y"}], [{"a": "z"}]),
        ({"a|contains|all": ["x", "y"]}, [{"a": "yx"}], [{"a": "x"}]),
        ({"a|contains|cased": "x"}, [{"a": "axb"}], [{"a": "aXb"}]),
        ({"a|re": "^b.d$"}, [{"a": "bcd"}], [{"a": "BCD"}, {"a": "abcd"}]),
        ({"a|re|i": "^b.d$"}, [{"a": "BCD"}], [{"a": "abcd"}]),
        ({"a|base64": "foobar"}, [{"a": "Zm9vYmFy"}], [{"a": "foobar"}]),
        ({"a|base64offset|contains": "foobar"}, [{"a": "xxZvb2Jhcx"}], [{"a": "foobar"}]),
        ({"a|windash|contains": " -f"}, [{"a": "x /f"}], [{"a": "x f"}]),
        ({"a|gte": 5}, [{"a": 5}], [{"a": 4}, {}]),
        ({"a|cidr": "10.0.0.0/8"}, [{"a": "10.1.2.3"}], [{"a": "11.0.0.0"}, {"a": "x"}, {}]),
        ({"a|fieldref": "b"}, [{"a": "X", "b": "x"}], [{"a": "x", "b": "y"}, {"a": "x"}]),
        ({"a|neq": 5}, [{"a": 4}, {}], [{"a": 5}]),
        ([{"a": 1}, {"b": 2}], [{"b": 2}], [{"a": 2}]),
    ],
)
def test_selections_keep_their_meaning(
    rules: Path, selection: Any, matching: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    rule = read_rule(rules, {"s": selection})
    for event in matching:
        assert tamis.evaluate(rule, event, "weak"), event
    for event in others:
        assert not tamis.evaluate(rule, event, "weak"), event


def test_conditions_combine_selections(rules: Path) -> None:
    rule = read_rule(
        rules,
        {
            "a1": {"a": 1},
            "a2": {"a": 2},
            "filter": {"user": "root"},
            "condition": "1 of a* and not filter",
        },
    )
    assert tamis.evaluate(rule, {"a": 2}, "weak")
    assert not tamis.evaluate(rule, {"a": 2, "user": "ROOT"}, "weak")
    assert not tamis.evaluate(rule, {"a": 3}, "weak")


def test_payload_and_tags_describe_a_rule(rules: Path) -> None:
    write(
        rules,
        "r.yml",
        {"s": {"a": 1}, "condition": "s"},
        author="Ada",
        level="high",
        tags=["attack.t1059"],
    )
    (rule,) = sigma.read(rules / "r.yml").rules
    assert rule.payload == {
        "title": "A rule",
        "level": "high",
        "author": "Ada",
        "logsource": {"product": "windows", "category": "process_creation"},
    }
    assert rule.tags == {
        "attack.t1059",
        "level:high",
        "product:windows",
        "category:process_creation",
    }
    assert rule.logic == "weak"


@pytest.mark.parametrize(
    ("detection", "reason"),
    [
        ({"s": ["word"], "condition": "s"}, "keyword"),
        ({"s": {"a|expand": "%users%"}, "condition": "s"}, "%users%"),
        ({"s": {"a|re": "(?=x)"}, "condition": "s"}, "is invalid"),
        ({"s": {"a": 1}, "condition": "t"}, "'t' not defined"),
        ({"s": {"a|unheard": 1}, "condition": "s"}, "unheard"),
        ({"s": {"a|hour": 3}, "condition": "s"}, "part of the time"),
    ],
)
def test_unsupported_rules_are_refused(rules: Path, detection: Any, reason: str) -> None:
    write(rules, "r.yml", detection)
    (refused,) = sigma.read(rules).refused
    assert refused.id == "r.yml"
    assert refused.place == str(rules / "r.yml")
    assert reason in refused.reason


def test_other_documents_are_refused(rules: Path) -> None:
    (rules / "a.yml").write_text("a: [")
    (rules / "b.yaml").write_text("- 1")
    (rules / "c.yml").write_text("title: c\ncorrelation: {}\n---\ntitle: d\nfilter: {}")
    (rules / "d.yml").write_bytes(b"title: \xff")
    (rules / "e.txt").write_text("no rule")
    (rules / "f.yml").write_text("date: 2020-13-41")
    (rules / "g.yml").write_text("title: g\ndetection: 3")
    refused = sigma.read(rules).refused
    places = ["a.yml", "b.yaml", "c.yml", "c.yml", "d.yml", "f.yml", "g.yml"]
    assert [Path(each.place).name for each in refused] == places
    assert [each.id for each in refused] == [None, None, "c", "d", None, None, "g"]
    assert "\n" not in str(refused[0])


PIPELINE = """\
name: Sysmon
transformations:
  - type: field_name_mapping
    mapping: {Image: process.path}
  - type: add_condition
    conditions: {EventID: 1}
    rule_conditions:
      - {type: logsource, category: process_creation}
"""


def test_a_pipeline_maps_log_sources_and_fields(rules: Path) -> None:
    write(rules, "r.yml", {"s": {"Image": "cmd"}, "condition": "s"})
    pipeline = rules / "pipeline.txt"
    pipeline.write_text(PIPELINE)
    (rule,) = sigma.read(rules, pipeline=pipeline).rules
    assert tamis.evaluate(rule.expr, {"EventID": 1, "process": {"path": "cmd"}}, "weak")
    assert not tamis.evaluate(rule.expr, {"EventID": 2, "process": {"path": "cmd"}}, "weak")


def test_missing_rules_and_bad_pipelines_are_named(rules: Path) -> None:
    with pytest.raises(tamis.InputFileError, match="no such file"):
        sigma.read(rules / "nowhere.yml")
    with pytest.raises(tamis.InputFileError, match=r"no \.yml"):
        sigma.read(rules)
    write(rules, "r.yml", {"s": {"a": 1}, "condition": "s"})
    (rules / "pipeline.txt").write_text("transformations: [{type: unheard}]")
    with pytest.raises(tamis.InputFileError, match="pipeline"):
        sigma.read(rules, pipeline=rules / "pipeline.txt")


def test_a_missing_library_is_named(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigma.rule", None)
    with pytest.raises(tamis.MissingExtraError, match=r"tamis\[sigma\]"):
        sigma.read(rules)


def test_the_importer_never_loads_diskcache(tmp_path: Path) -> None:
    # CVE-2025-69872: its files can run code if others may write to them.
    (tmp_path / "rule.yml").write_text(
        "title: t\nlogsource: {product: windows}\ntags: [attack.t1059]\n"
        "detection: {selection: {a|contains: b}, condition: selection}\n"
    )
    (tmp_path / "pipeline.yaml").write_text("name: p\npriority: 1\ntransformations: []\n")
    program = (
        "import sys\n"
        "from tamis.importers import sigma\n"
        "assert len(sigma.read(sys.argv[1], pipeline=sys.argv[2]).rules) == 1\n"
        "assert 'diskcache' not in sys.modules\n"
    )
    paths = [str(tmp_path / name) for name in ("rule.yml", "pipeline.yaml")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True)


FAILED = """\
title: Failed logon
name: failed
logsource: {product: windows}
detection:
    selection: {EventID: 4625}
    noise: {User|endswith: "$"}
    condition: selection and not noise
"""
CHANGED = """\
title: Password changed
name: changed
logsource: {product: windows}
detection:
    selection: {EventID: [4723, 4724]}
    condition: selection
"""


def read_correlation(rules: Path, correlation: str, **more: Any) -> tamis.Matcher:
    """A matcher with the rule of a correlation; both rules above are there."""
    texts = [FAILED, CHANGED, f"title: c\nname: c\nlevel: high\ncorrelation: {correlation}\n"]
    (rules / "all.yml").write_text("---\n".join(texts))
    imported = sigma.read(rules, **more)
    assert imported.refused == []
    matcher = tamis.Matcher(schema={"@timestamp": "timestamp"})
    matcher.add_many(imported.rules)
    return matcher


def publish(matcher: tamis.Matcher, seconds: int, event: dict[str, Any]) -> list[Any]:
    moment = f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}"
    return matcher.publish({"@timestamp": moment, **event})


def test_a_correlation_counts_events(rules: Path) -> None:
    m = read_correlation(
        rules,
        "{type: event_count, rules: [failed], group-by: [User], timespan: 1m, condition: {gte: 3}}",
    )
    assert list(m) == ["changed", "c"]  # the rule that it refers to raises no alert by itself
    assert m.rule("c").tags == {"level:high"}
    found = [
        publish(m, seconds, {"EventID": 4625, "User": user})
        for seconds, user in [
            (0, "ann"),
            (10, "bob"),
            (20, "ann"),
            (30, "HOST$"),
            (61, "ann"),
            (62, "ann"),
            (63, "bob"),
            (64, "bob"),
        ]
    ]
    assert [bool(ids) for ids in found] == [False, False, False, False, False, True, False, True]
    assert publish(m, 65, {"EventID": 1, "User": "ann"}) == []


def test_a_correlation_counts_values(rules: Path) -> None:
    m = read_correlation(
        rules,
        "{type: value_count, rules: failed, group-by: [Ip], timespan: 1h, generate: true, "
        "condition: {field: User, gt: 2}}",
    )
    assert list(m) == ["failed", "changed", "c"]
    users = ["a", "a", "b", "b", "c", "c", None]
    found = [publish(m, 1, {"EventID": 4625, "Ip": 1, "User": user}) for user in users]
    assert ["c" in ids for ids in found] == [False, False, False, False, True, True, True]
    assert "c" not in publish(m, 2, {"EventID": 4625, "Ip": 2, "User": "d"})


def test_a_temporal_correlation_needs_all_rules(rules: Path) -> None:
    m = read_correlation(
        rules,
        "{type: temporal, rules: [failed, changed], group-by: [who], timespan: 5m, "
        "aliases: {who: {failed: User, changed: Target}}}",
    )
    assert publish(m, 0, {"EventID": 4625, "User": "ann"}) == []
    assert publish(m, 60, {"EventID": 4724, "Target": "bob"}) == []
    assert publish(m, 70, {"EventID": 4723, "Target": "ann"}) == ["c"]
    assert publish(m, 80, {"EventID": 4625, "User": "bob"}) == ["c"]
    assert publish(m, 300 + 300, {"EventID": 4625, "User": "bob"}) == []


@pytest.mark.parametrize(
    ("correlation", "reason"),
    [
        (
            "{type: temporal_ordered, rules: [a.yml], timespan: 5m}",
            "temporal_ordered is not supported",
        ),
        ("{type: event_count, rules: [x], timespan: 5m, condition: {gte: 2}}", "no rule 'x'"),
        ("{type: event_count, rules: [c], timespan: 5m, condition: {gte: 2}}", "correlation 'c'"),
        (
            "{type: event_count, rules: [net.yml], timespan: 5m, condition: {gte: 2}}",
            "address(a)",
        ),
        ("{type: event_count, rules: [net.yml], timespan: 5x, condition: {gte: 2}}", "invalid"),
        ("{type: temporal, rules: [a.yml], timespan: 5m, condition: a or b}", "ondition"),
    ],
)
def test_correlations_that_are_refused(rules: Path, correlation: str, reason: str) -> None:
    write(rules, "a.yml", {"s": {"a": 1}, "condition": "s"})
    write(rules, "net.yml", {"s": {"a|cidr": "10.0.0.0/8"}, "condition": "s"})
    (rules / "z.yml").write_text(f"title: z\nname: z\ncorrelation: {correlation}\n")
    plain = "{type: event_count, rules: [a.yml], timespan: 5m, condition: {gte: 2}}"
    (rules / "c.yml").write_text(f"title: c\nname: c\ncorrelation: {plain}\n")
    refused = {str(each.id): each.reason for each in sigma.read(rules).refused}
    assert reason in refused["z"]
