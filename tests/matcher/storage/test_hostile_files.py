"""Files with right checksums and hostile contents: an error or answers, and never a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import tamis
from tamis import CorruptFileError, Matcher
from tamis.matcher.storage import segment_file
from tamis.matcher.storage.array_file import map_sections, write_sections

SCRIPT = Path(__file__).with_name("hostile_segments.py")
CASES_PER_ARRAY = 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_hostile_arrays_do_not_crash(tmp_path: Path, seed: int) -> None:
    """The script changes some 180 arrays of three segments, in several ways each."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(CASES_PER_ARRAY), str(seed)]
    environment = {**os.environ, "TAMIS_KERNELS": "wait"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'refused'" in done.stdout, "no case was refused"


def change(folder: Path, **arrays: Any) -> None:
    """Replace arrays of the only segment of a directory, with right checksums."""
    (path,) = folder.glob("segment-*")
    sections = map_sections(path, "segment")
    named = {name.replace("__", "."): array for name, array in arrays.items()}
    assert set(named) <= set(sections.arrays)
    write_sections(path, "segment", sections.about, {**sections.arrays, **named})


@pytest.fixture
def index(tmp_path: Path) -> Path:
    matcher = Matcher()
    matcher.add_many([(n, f"x = {n} AND y > {n % 7}") for n in range(100)])
    matcher.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("rules__size", np.array([1 << 62]), "'size' is 4,611,686,018,427,387,904, not 100"),
        ("rules__forms__conjunction_atom", np.full(200, 1 << 30, np.int32), "outside of 0 to"),
        (
            "rules__forms__conjunction_start",
            np.arange(100, -1, -1, dtype=np.int32),
            "into lists",
        ),
        # As older formats have it, and with numbers that 32 bits would make right.
        ("rules__forms__conjunction_start", np.arange(101)[::-1].copy(), "into lists"),
        (
            "rules__forms__conjunction_start",
            2 * np.arange(101) + (np.arange(101) == 50) * (1 << 32),
            "into lists",
        ),
        ("rules__forms__conjunction_start", np.zeros((2, 2), np.int64), "the shape"),
        ("engine__bound", np.full(100, 255, np.uint8), "'bound' has numbers outside of 0 to"),
        ("rules__atoms__table", np.zeros((5, 3), np.int32), r"has the type int32 and the shape"),
        ("records__key_place", np.zeros(100, np.int32), "has a number twice"),
        ("records__sources_data", np.zeros(7, np.uint8), "into lists"),
        ("order", np.full(100, -1, np.int32), "outside of 0 to 99"),
    ],
)
def test_an_array_that_does_not_fit(index: Path, name: str, array: Any, message: str) -> None:
    change(index, **{name: array})
    with pytest.raises(CorruptFileError, match=message):
        tamis.open(index)


def test_segment_without_an_array_is_refused(index: Path) -> None:
    (path,) = index.glob("segment-*")
    sections = map_sections(path, "segment")
    # The engine is built anew without its arrays, and format 2 has no subscriptions.
    optional = ("engine.", "records.subscription", "rules.dictionary.long_")
    for name in [name for name in sections.arrays if not name.startswith(optional)]:
        rest = {key: array for key, array in sections.arrays.items() if key != name}
        write_sections(path, "segment", sections.about, rest)
        with pytest.raises(CorruptFileError, match=f"{name.split('.')[-1]}' is missing"):
            tamis.open(index)


def test_validities_that_are_not_three_numbers_each_are_refused(index: Path) -> None:
    change(index, records__lives=np.zeros(301, np.int64))
    with pytest.raises(CorruptFileError, match="'lives' has 301 entries, not three"):
        tamis.open(index)


def test_segment_of_an_unnamed_engine_is_built_anew(index: Path) -> None:
    (path,) = index.glob("segment-*")
    sections = map_sections(path, "segment")
    write_sections(path, "segment", {}, sections.arrays)
    with tamis.open(index) as opened:
        assert opened.match({"x": 7, "y": 9}) == [7]


@pytest.mark.parametrize(
    ("field", "value"), [("at", -64), ("shape", [-1]), ("dtype", "|O"), ("dtype", "bogus")]
)
def test_directory_with_a_hostile_entry_is_refused(
    index: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: Any
) -> None:
    (path,) = index.glob("segment-*")
    sections = map_sections(path, "segment")
    real: Callable[[Any], bytes] = msgspec.json.encode

    def encode(directory: Any) -> bytes:
        content = msgspec.to_builtins(directory)
        content["sections"]["order"][field] = value
        return real(content)

    with monkeypatch.context() as patch:
        patch.setattr(msgspec.json, "encode", encode)
        write_sections(path, "segment", sections.about, sections.arrays)
    with pytest.raises(CorruptFileError, match=r"its part 'order' (lies outside|has the type)"):
        tamis.open(index)


@pytest.mark.parametrize("error", [IndexError, TypeError, KeyError, AttributeError, ValueError])
def test_defect_in_a_check_is_not_a_damaged_file(
    index: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*arguments: Any) -> None:
        raise error("a defect")

    monkeypatch.setattr(segment_file, "check_order", fail)
    with pytest.raises(error, match="a defect"):
        tamis.open(index)


def test_weight_of_an_operator_is_refused(tmp_path: Path) -> None:
    matcher = Matcher()
    for number in range(50):
        matcher.add(number, "x = 1 AND y = 2", weights={("x", 1): 2.0})
    matcher.save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("segment-*")
    arrays = map_sections(path, "segment").arrays
    weights = arrays["rules.scores.weights"].copy()
    weights[arrays["rules.scores.code"] < 0] = 0
    change(tmp_path / "index", rules__scores__weights=weights)
    with pytest.raises(CorruptFileError):
        tamis.open(tmp_path / "index")


def test_texts_that_are_not_utf8(index: Path) -> None:
    (path,) = index.glob("segment-*")
    data = map_sections(path, "segment").arrays["records.sources_data"].copy()
    data[0] = 0xFF
    change(index, records__sources_data=data)
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        tamis.open(index)


def test_an_engine_without_a_check_is_built_anew(tmp_path: Path) -> None:
    matcher = Matcher("kindex")
    matcher.add_many([(n, f"x = {n}") for n in range(50)])
    matcher.save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("segment-*")
    arrays = map_sections(path, "segment").group("engine")
    change(
        tmp_path / "index", **{f"engine__{n}".replace(".", "__"): a * 0 for n, a in arrays.items()}
    )
    with tamis.open(tmp_path / "index") as opened:
        assert opened.match({"x": 7}) == [7]
