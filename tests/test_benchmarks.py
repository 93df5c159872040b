"""The benchmarks run and save their figures. The figures themselves are not checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tamis

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"


def run(name: str, results: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Run a benchmark on tiny sizes; return what it prints and what it saves."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--results", str(results)]
    # Real rules have no tiny size, so they are hidden.
    without_data = {**os.environ, "TAMIS_DATA": str(results / "nowhere")}
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=without_data,
    )
    assert done.returncode == 0, done.stderr
    (saved,) = results.glob("*.json")
    return done.stdout, json.loads(saved.read_text())


MEASURED = """
    build_s encode_s matcher_s index_mb bytes_per_conjunction rss_mb
    us_kernel_p50 us_mean us_p50 us_p99 us_list us_top5 us_ids events
    us_count_many count_many_rows us_match_many match_many_rows times_scan times_sift
""".split()


LARGE = {"cluster", "interval", "hybrid", "segment", "interval-tree", "naive", "lazy"}
USUAL = [engine for engine in tamis.engines() if engine not in LARGE]


def test_engines_are_measured_side_by_side(tmp_path: Path) -> None:
    names = ["begen-1", "ads", "ads-cnf", "nested", "debian"]
    printed, saved = run("bench_engines", tmp_path, "--scenarios", *names)
    assert list(saved["skipped"]) == ["debian"]
    assert "left out" in printed
    rows = saved["rows"]
    assert [(row["scenario"], row["engine"]) for row in rows] == [
        (name, engine) for name in names[:-1] for engine in USUAL
    ]
    for row in rows:
        assert all(row[name] > 0 for name in MEASURED)
        assert row["engine"] in printed
        if row["scenario"] == "begen-1":
            assert row["matches"] == pytest.approx(0.01 * row["rules"], rel=0.5)
    assert "µs/event" in printed


def test_ranking_is_measured_beside_matching(tmp_path: Path) -> None:
    names = ["begen-9", "ads", "ads-cnf", "debian"]
    printed, saved = run("bench_top", tmp_path, "--scenarios", *names)
    rows = saved["rows"]
    assert [(row["scenario"], row["weights"]) for row in rows] == [
        (name, way) for name in names[:-1] for way in ("none", "events", "rules", "both")
    ]
    assert all(row["ratio"] == row["top 5"] / row["match_array"] for row in rows)
    assert all(row["top_many"] > 0 for row in rows if row["weights"] in ("none", "rules"))
    assert "left out" in printed
    assert "top 5" in printed


def test_growth_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_engines", tmp_path, "--growth")
    assert {row["engine"] for row in saved["rows"]} == set(USUAL) - {"scan", "sift"}
    assert sorted({row["rules"] for row in saved["rows"]}) == [500, 1_000]
    assert all(row["us_kernel_p50"] > 0 and row["rss_mb"] > 0 for row in saved["rows"])
    assert "Growth" in printed


def test_encoding_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_encode", tmp_path)
    assert [row["method"] for row in saved["rules"]] == [
        "parsed in full",
        "through Shapes",
        "encoded one by one",
        "encoded by kernels",
        "into a Matcher",
    ]
    assert all(row["rules/s"] > 0 for row in saved["rules"])
    assert all(row["rows/s"] > 0 for row in saved["events"])
    assert {"plain", "an object", "plain, with a schema"} <= {
        row["shape"] for row in saved["shapes"]
    }
    assert all(row["µs"] > 0 for row in saved["shapes"])
    assert "15 columns" in printed


def test_matching_while_rules_change_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_live", tmp_path)
    assert [row["when"] for row in saved["reader"]] == [
        "before",
        "beside a counter",
        "meanwhile",
        "after",
    ]
    assert all(row["max"] >= row["p50"] > 0 for row in saved["reader"])
    assert all(row["mean µs"] > 0 for row in saved["changes"])
    assert all(row[f"{form} match"] > 0 for form in ("plain", "tree") for row in saved["tail"])
    assert [row["rules"] for row in saved["inserts"]] == [1_000]
    assert {row["beside"] for row in saved["trickle"]} == {"alone", "a reader"}
    assert all(row["max"] >= row["p50"] > 0 for row in saved["trickle"])
    assert all(row["seconds"] > 0 for row in saved["stored"])
    assert "open, trusting the disk" in printed


def test_publishing_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_pubsub", tmp_path)
    assert [row["threads"] for row in saved["publish"]] == [1, 8, 32]
    assert saved["backtest"]["columns_s"] > 0
    assert "Backtest" in printed


def test_the_server_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_server", tmp_path)
    parts = {row["part"]: row for row in saved["parts"]}
    assert {"bare starlette", "match", "batch", "publish", "try"} <= parts.keys()
    assert all(row["failures"] == 0 and row["events / s"] > 0 for row in saved["parts"])
    assert "rules a second added" in printed


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium")
def test_the_page_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_page", tmp_path)
    assert [row["pause ms"] for row in saved["parts"]] == [0, 60, 150]
    assert all(row["keys"] == 10 and 0 < row["p50 ms"] <= row["p95 ms"] for row in saved["parts"])
    assert "a key in Try" in printed


def test_joins_are_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_joins", tmp_path)
    assert [(row["joins"], row["distinct"]) for row in saved["rows"]] == [
        ("simple", 2),
        ("simple", 4),
        ("simple", 8),
        ("conjunctions", 4),
        ("constants of documents", 8),
        ("windows", 6),
    ]
    for row in saved["rows"]:
        assert all(row[name] > 0 for name in ("constants", "match", "publish", "forget"))
        assert 0 < row["evaluated"] <= 1.2 * row["distinct"]
    assert "1,000 rules with join predicates" in printed


def test_the_be_tree_is_measured_beside_its_rivals(tmp_path: Path) -> None:
    printed, saved = run("bench_betree", tmp_path)
    for distribution in ("uniform", "zipf"):
        rows = [row for row in saved["matching"] if row["rules"] == distribution]
        assert {"betree", "betree-batch", "kindex", "scan", "tiles"} < {r["engine"] for r in rows}
        assert len({row["matches"] for row in rows}) == 1
        assert all(row["us"] > 0 and row["times"] > 0 for row in rows)
    assert all(row["seconds"] > 0 and row["compacted_mb"] > 0 for row in saved["insertions"])
    trees = {row["tree"]: row for row in saved["adaptation"]}
    assert {"uniform, adapted", "uniform, fresh", "zipf, adapted", "zipf, observed"} < set(trees)
    assert all(row["us"] > 0 and row["nodes"] > 0 for row in trees.values())
    assert "Inserting 500 rules" in printed


@pytest.mark.slow
def test_spark_is_measured_beside_one_process_and_rivals(tmp_path: Path) -> None:
    printed, saved = run("bench_spark", tmp_path)
    inputs = {(row["input"], row["ask"]) for row in saved["inputs"]}
    assert {
        ("maps", "match"),
        ("files of columns", "counts"),
        ("in process, maps", "match"),
    } <= inputs
    assert all(row["events/s"] > 0 and row["times"] > 0 for row in saved["inputs"])
    assert len(saved["rivals"]) == 4
    assert len({row["matches"] for row in saved["rivals"][:3]}) == 1
    assert "one access predicate" in printed


def test_rules_of_many_kinds_are_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_kinds", tmp_path)
    assert [row["method"] for row in saved["criteria"]] == [
        "match",
        "match_many of mappings",
        "match_many of columns",
    ]
    assert all(row["searches/s"] > 0 for row in saved["criteria"])
    assert len({row["kind"] for row in saved["kinds"]}) == 12
    assert all(row["us_match"] > 0 and row["us_match_many"] > 0 for row in saved["kinds"])
    assert "Criteria of 26 attributes with 100 values" in printed


def test_two_trees_are_compared(tmp_path: Path) -> None:
    printed, saved = run("compare", tmp_path, str(ROOT))
    names = [row["what"] for row in saved["rows"]]
    assert {"match 1%", "count_many 9%", "add", "open", "build from a table"} < set(names)
    assert {"import", "first match of a wheel", "match_array CNF", "texts, peak"} < set(names)
    assert all(row["base"] is not None and row["ratio"] is not None for row in saved["rows"])
    by_name = {row["what"]: row for row in saved["rows"]}
    assert by_name["index 1%"]["ratio"] == 1, "the same tree takes the same bytes"
    assert by_name["match_array 0.01%, times as fast as sift"]["aim at 1M"] == "≥ 20"
    assert by_name["match 1%"]["aim at 1M"] == "ratio ≤ 0.25"
    assert all(name in printed for name in names)


def test_two_trees_are_compared_on_shared_predicates(tmp_path: Path) -> None:
    printed, saved = run("compare_sharing", tmp_path, str(ROOT), "--scenarios", "ads", "ads-cnf")
    rows = saved["rows"]
    assert {row["scenario"] for row in rows} == {"ads", "ads-cnf"}
    sizes = [row["ratio"] for row in rows if row["what"] == "bytes_per_rule"]
    assert sizes == [1, 1], "the same tree takes the same bytes"
    assert all(row["base"] > 0 for row in rows)
    assert "match_array" in printed


def test_every_benchmark_is_run_here() -> None:
    assert {path.name for path in BENCHMARKS.glob("bench_*.py")} == {
        "bench_betree.py",
        "bench_encode.py",
        "bench_engines.py",
        "bench_expressions.py",
        "bench_joins.py",
        "bench_kinds.py",
        "bench_live.py",
        "bench_page.py",
        "bench_pubsub.py",
        "bench_server.py",
        "bench_shards.py",
        "bench_sizing.py",
        "bench_spark.py",
        "bench_top.py",
    }


def test_shards_are_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_shards", tmp_path)
    rows = saved["shards"]
    assert [row["shards"] for row in rows] == [1, 2, 4, 8]
    assert len({row["matches"] for row in rows}) == 1
    assert all(row["us_match"] > 0 and row["us_encode"] > 0 for row in rows)
    assert "Matching 2,000 rules in shards" in printed


def test_a_job_in_shards_is_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_shards", tmp_path, "--job")
    assert [row["step"] for row in saved["steps"]] == ["generate", "build", "match"]
    assert all(0 < row["own_mb"] < row["with_files_mb"] for row in saved["steps"])
    (index,) = saved["index"]
    assert (index["rules"], index["shards"]) == (2_000, 1)
    assert index["matches"] > 0
    assert "2,000 rules and 500 events on Spark" in printed


def test_event_expressions_are_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_expressions", tmp_path)
    assert [row["event"] for row in saved["rows"]][:2] == ["mapping", "="]
    assert saved["rows"][0]["matches"] == saved["rows"][1]["matches"]
    assert all(row["us_alone"] > 0 and row["us_batch"] > 0 for row in saved["rows"])
    assert "times_match" in printed


@pytest.mark.slow
def test_costs_are_measured(tmp_path: Path) -> None:
    printed, saved = run("bench_sizing", tmp_path)
    assert [(row["what"], row["shards"]) for row in saved["rows"]] == [
        ("read an event", 0),
        *((what, n) for n in (1, 4) for what in ("build a rule", "open a rule", "match an event")),
        ("write a match", 0),
    ]
    assert all(row["µs each"] >= 0 for row in saved["rows"])
    assert "build a rule" in printed
