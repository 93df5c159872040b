"""Names that an unknown name may stand for."""

from __future__ import annotations

import pytest

from tamis.matcher.analysis.near_names import find_near, list_near

KNOWN = ["age", "country", "user_id", "address.city", "list_price", "id"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aeg", ("age",)),
        ("contry", ("country",)),
        ("Country", ("country",)),
        ("userId", ("user_id",)),
        ("city", ("address.city",)),
        ("user.address.city", ("address.city",)),
        ("list_prise", ("list_price",)),
        ("FR", ()),
        ("xy", ()),
        ("", ()),
    ],
)
def test_near_names_differ_in_spelling_case_or_path(name: str, near: tuple[str, ...]) -> None:
    assert find_near(name, KNOWN) == near


def test_the_nearest_names_come_first_and_are_few() -> None:
    known = ["gold1x", "Gold1", "gold2", "gold3", "gold1"]
    assert find_near("gold1", known) == ("Gold1", "gold1x", "gold2")
    assert list_near(("a", "b")) == "; did you mean 'a' or 'b'?"
    assert list_near(()) == ""
