"""A real S3 server for tests, moto's, and the faults that a network or a store may have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

import tamis
from tamis.matcher.published.shard_files import hash_shard
from tamis.spark.index.layout import Draft, Place, Shard, Version
from tamis.spark.index.places import new_folder
from tamis.spark.index.publish import publish
from tamis.spark.index.quarantine import gather_quarantine


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server with a bucket of its own; the address of a new index in it.

    Workers of a running session have its environment, so the address holds the credentials.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    import logging

    from pyarrow.fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    try:
        _, port = server.get_host_and_port()
        filesystem = S3FileSystem(
            access_key="test", secret_key="test", endpoint_override=f"127.0.0.1:{port}",
            scheme="http", region="us-east-1", allow_bucket_creation=True,
        )  # fmt: skip
        filesystem.create_dir("rules")
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        yield f"s3://test:test@rules/{uuid4().hex[:8]}/index?{options}"
    finally:
        server.stop()


def publish_rules(path: str, rules: list[Any], shards: int = 1) -> Version:
    """Publish rules at an address, without Spark."""

    def write(place: Place, _: Version | None) -> Draft:
        saved = []
        for number in range(shards):
            matcher = tamis.Matcher()
            matcher.add_many(rules[number::shards])
            name = place / f"shard-{number:04d}-{uuid4().hex[:8]}"
            with new_folder(name) as folder:
                matcher.save(folder)
                saved.append(Shard(name, len(matcher), *hash_shard(folder)))
        id_type = "long" if rules and isinstance(rules[0][0], int) else "string"
        gather_quarantine(place, id_type, {}, {})
        return Draft(tuple(saved), 0, "strong", "tiles", {}, id_type)

    return publish(path, write)
