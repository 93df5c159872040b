"""Conditional requests: ``If-Match`` and ``If-None-Match``, and the ETags they compare."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.server.operation import Call
from tamis.server.problems import ProblemError

if TYPE_CHECKING:
    from tamis.server.catalog import OpenCollection

__all__ = ["check_conditions", "check_revision", "make_etag", "tag_revision"]


def make_etag(fields: dict[str, Any]) -> str:
    """The ETag of a rule: the same wherever and whenever the rule is the same."""
    digest = blake2b(msgspec.json.encode(fields, order="sorted"), digest_size=12)
    return f'"{digest.hexdigest()}"'


def check_conditions(call: Call, current: str | None) -> None:
    """Check the conditions on a rule whose ETag is `current`; None if there is no such rule.

    Raises
    ------
    ProblemError
        A condition does not hold (412).
    """
    wanted, unwanted = call.header(b"if-match"), call.header(b"if-none-match")
    if wanted is not None and (current is None or not _includes(wanted, current)):
        _refuse("the rule is another one by now, or gone", current)
    if unwanted is not None and current is not None and _includes(unwanted, current):
        kind = "rule-exists" if unwanted.strip() == "*" else "condition-failed"
        _refuse("the id is taken", current, kind)


def tag_revision(collection: OpenCollection, revision: int) -> str:
    """The ETag of a collection."""
    return f'"{collection.mark(revision)}"'


def check_revision(call: Call, revision: int) -> None:
    """Check the condition on a collection.

    A number alone counts only where no other collection has had the name.

    Raises
    ------
    ProblemError
        The collection has another revision (412).
    """
    wanted = call.header(b"if-match")
    etag = tag_revision(call.collection, revision)
    etags = {etag} if call.collection.has_predecessor else {etag, f'"{revision}"'}
    if wanted is not None and not any(_includes(wanted, one) for one in etags):
        raise ProblemError(
            412,
            "condition-failed",
            f"the collection is at revision {revision} by now, whose ETag is {etag}",
            {"ETag": etag},
            revision=revision,
        )


def _includes(condition: str, etag: str) -> bool:
    listed = [one.strip() for one in condition.split(",")]
    return "*" in listed or etag in listed


def _refuse(detail: str, current: str | None, kind: str = "condition-failed") -> None:
    headers = {} if current is None else {"ETag": current}
    raise ProblemError(412, kind, detail, headers)
