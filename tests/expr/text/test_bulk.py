"""The reader that threads share, whose memory is bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tamis.expr.normalize import nnf
from tamis.expr.text import bulk
from tamis.expr.text.bulk import SharedReader
from tamis.expr.text.grammar import parse


def test_a_reader_that_starts_anew_frees_what_it_knew_rule_by_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "_REMEMBERED", 100)
    monkeypatch.setattr(bulk, "_FREED_AT_ONCE", 30)
    reader = SharedReader()
    sizes = []
    for number in range(300):
        text = f"a = {number} AND b < {number % 7}"
        assert reader.read_tree(text, "strong") == nnf(parse(text), "strong")
        sizes.append(sum(map(len, reader._outdated)))
        assert len(reader._reader.atoms.atoms) <= 102
    most = sizes.index(max(sizes))
    assert sizes[most] > 200
    freed = [size - following for size, following in pairwise(sizes[most:])]
    assert freed[0] == 30
    assert max(freed) == 30
    assert 0 in sizes[most:]
