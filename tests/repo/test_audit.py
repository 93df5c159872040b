"""The check of dependencies says what it found, and what it could not find out."""

from __future__ import annotations

from scripts.audit import ACCEPTED, judge


def package(name: str, *advisories: str) -> dict[str, object]:
    return {"name": name, "version": "1.0", "vulns": [{"id": a, "aliases": []} for a in advisories]}


def test_an_advisory_is_a_failure_unless_it_is_accepted() -> None:
    assert judge([package("good")]) == (["1 of 1 packages were audited"], True)
    lines, is_clean = judge([package("good"), package("bad", "CVE-2000-1")])
    assert not is_clean
    assert "ADVISORY: bad 1.0: CVE-2000-1" in lines
    lines, is_clean = judge([package("diskcache", *ACCEPTED)])
    assert is_clean
    assert lines[0].startswith("accepted: diskcache 1.0")


def test_silence_is_not_safety() -> None:
    lines, is_clean = judge([{"name": "unknown", "skip_reason": "not found"}])
    assert not is_clean
    assert "0 of 1 packages were audited" in lines
    assert "no data on advisories for unknown" in lines[-1]
