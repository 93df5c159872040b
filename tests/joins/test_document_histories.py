"""Random histories of documents give the answers of a model, whatever comes, goes and expires."""

from __future__ import annotations

from random import Random

import pytest

from attack.differential.documents import check_documents, draw_documents


@pytest.mark.parametrize("seed", range(16))
def test_histories_agree_with_the_model(seed: int) -> None:
    assert check_documents(draw_documents(Random(seed), 0.1)) is None


def test_histories_draw_every_way_to_forget() -> None:
    cases = [draw_documents(Random(seed), 0.1) for seed in range(100)]
    ways = {tuple(sorted(case.options["retention"])) for case in cases}
    assert {(), ("count",), ("age", "clock"), ("age", "by"), ("age", "by", "clock")} <= ways
    assert {case.options["stored"] for case in cases} == {False, True}
    steps = {step["do"] for case in cases for step in case.events}
    assert {"publish", "add", "remove", "clear", "clock", "reopen", "rule", "optimize"} <= steps
