"""Write an object of a bucket only if nobody else has written it meanwhile.

Two builders may publish at the same time. An object store has no locks that a dead process would
release, but some can refuse a write: S3 creates an object only if there is none
(``If-None-Match``), or replaces it only if it is the one that was read (``If-Match``). PyArrow
does not offer this, so `ConditionalWrites` asks S3 itself, through botocore.

`ClaimedWrites` does the same with plain reads, writes and lists, for stores and installations
without conditions; docs/decisions/0046-conditional-writes.md says what holds where.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from tamis.errors import LockedError, StorageError
from tamis.matcher.published.address import Address
from tamis.matcher.storage.atomic import storage_errors

__all__ = [
    "ClaimedWrites",
    "ConditionalWrites",
    "Content",
    "ExclusiveWrites",
    "choose_writes",
    "connect_to_s3",
]

_CLAIMS: Final = "CLAIMS"
"""Where builders say that they are about to write, if the store has no conditions."""

_STALE: Final = timedelta(minutes=10)
"""After this time the claim of a builder that has died is ignored; writing takes milliseconds."""

_PATIENCE: Final = 30.0
"""Seconds to wait for the claims of others."""


class Content(NamedTuple):
    """An object as it was read."""

    data: bytes | None
    """None if there is no such object."""
    tag: str | None
    """What tells this content from any other."""


class ExclusiveWrites(Protocol):
    """Writes that fail if somebody else was faster."""

    def read(self, place: Address) -> Content:
        """Read an object, to replace it later."""
        ...

    def create(self, place: Address, data: bytes) -> bool:
        """Create an object; False if there is one, which stays as it is."""
        ...

    def replace(self, place: Address, data: bytes, seen: Content) -> bool:
        """Replace an object, or create it; False if it is not as it was `seen`."""
        ...


class ConditionalWrites:
    """Conditional writes of S3, and of stores that speak its language."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def read(self, place: Address) -> Content:
        """Read an object and its ETag."""
        with self._errors(place):
            try:
                found = self._client.get_object(**_name(place))
                return Content(found["Body"].read(), found["ETag"])
            except self._client.exceptions.NoSuchKey:
                return Content(None, None)
        raise AssertionError("it returns or raises")

    def create(self, place: Address, data: bytes) -> bool:
        """Create an object, if there is none."""
        return self._put(place, data, IfNoneMatch="*")

    def replace(self, place: Address, data: bytes, seen: Content) -> bool:
        """Replace an object, if it is the one that was seen."""
        if seen.tag is None:
            return self.create(place, data)
        return self._put(place, data, IfMatch=seen.tag)

    def _put(self, place: Address, data: bytes, **condition: str) -> bool:
        with self._errors(place):
            try:
                self._client.put_object(**_name(place), Body=data, **condition)
            except self._client.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                    raise
                # If an answer is lost the client sends the object again, and is refused then.
                return self.read(place).data == data
        return True

    @contextmanager
    def _errors(self, place: Address) -> Iterator[None]:
        exceptions: Any = import_module("botocore.exceptions")
        try:
            yield
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise StorageError(f"S3 refuses it: {error}", path=str(place)) from error


class ClaimedWrites:
    """Exclusive writes by plain ones: a builder claims the index, and looks for other claims.

    Whoever writes has written a claim before, and has listed no other after that. Of two builders
    the one that lists later sees both claims, so they never write at the same time, if a list
    shows what was written before it.
    """

    def __init__(self, root: Address) -> None:
        self._claims = root / _CLAIMS

    def read(self, place: Address) -> Content:
        """Read an object; its content is its tag."""
        with storage_errors(place):
            try:
                data = place.read_bytes()
            except FileNotFoundError:
                return Content(None, None)
        return Content(data, data.hex())

    def create(self, place: Address, data: bytes) -> bool:
        """Create an object, if there is none."""
        return self.replace(place, data, Content(None, None))

    def replace(self, place: Address, data: bytes, seen: Content) -> bool:
        """Replace an object, if it is the one that was seen."""
        with self._claim(), storage_errors(place):
            if self.read(place) != seen:
                return False
            place.write_bytes(data)
        return True

    @contextmanager
    def _claim(self) -> Iterator[None]:
        claim = self._claims / uuid4().hex
        ends = time.monotonic() + _PATIENCE
        try:
            while True:
                with storage_errors(claim):
                    claim.write_bytes(b"claimed")
                    others = self._list_others(claim)
                    if not others:
                        break
                    claim.unlink(missing_ok=True)
                if time.monotonic() > ends:
                    raise LockedError(
                        f"another builder has claimed the index for {_PATIENCE:.0f} seconds; try "
                        f"again later, or remove {others[0].name} if it has died",
                        path=str(self._claims),
                    )
                # Both may have withdrawn their claims: one has to come back earlier.
                time.sleep(random.uniform(0.05, 0.5))
            yield
        finally:
            with suppress(OSError):
                claim.unlink(missing_ok=True)

    def _list_others(self, claim: Address) -> list[Address]:
        now, others = claim.written(), []
        for other in self._claims.iterdir():
            if other == claim or other.name.startswith("probe-"):
                continue
            with suppress(FileNotFoundError):
                if now - other.written() < _STALE:
                    others.append(other)
        return others


def choose_writes(root: Address) -> ExclusiveWrites:
    """The best that the store of an index offers: conditions on S3 with botocore, else claims."""
    conditional = connect_to_s3(root)
    if conditional is None or not _keeps_conditions(conditional, root):
        return ClaimedWrites(root)
    return conditional


def connect_to_s3(root: Address) -> ConditionalWrites | None:
    """Conditional writes to the store of an index; None if it is not S3, or without botocore."""
    text = os.fspath(root)
    if not text.startswith("s3:"):
        return None
    try:
        session: Any = import_module("botocore.session")
    except ModuleNotFoundError:
        return None
    return ConditionalWrites(session.get_session().create_client("s3", **_client_options(text)))


def _keeps_conditions(writes: ConditionalWrites, root: Address) -> bool:
    """Whether the store refuses to create an object twice; some ignore the condition."""
    probe = root / _CLAIMS / f"probe-{uuid4().hex}"
    try:
        return writes.create(probe, b"1") and not writes.create(probe, b"2")
    except StorageError:
        # A store that does not know conditions may also say so.
        return False
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _client_options(text: str) -> dict[str, Any]:
    """What the address says about the endpoint and the credentials; else the environment does."""
    parts = urlsplit(text)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    options: dict[str, Any] = {}
    if endpoint := query.get("endpoint_override"):
        scheme = query.get("scheme", "https")
        options["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := query.get("region"):
        options["region_name"] = region
    if parts.username:
        options["aws_access_key_id"] = unquote(parts.username)
        options["aws_secret_access_key"] = unquote(parts.password or "")
    return options


def _name(place: Address) -> dict[str, str]:
    parts = urlsplit(os.fspath(place))
    return {"Bucket": parts.netloc.rpartition("@")[2], "Key": parts.path.lstrip("/")}
