"""Collections: create, look at, drop, reload."""

from __future__ import annotations

from typing import Any

from tamis.server.catalog import OpenCollection
from tamis.server.conditions import tag_revision
from tamis.server.operation import Call, Operation, Reply
from tamis.wire.messages import CollectionInfo, CollectionList, CollectionSettings, Revision

__all__ = ["OPERATIONS"]


def list_collections(call: Call) -> CollectionList:
    """List the collections that the key may read."""
    shown = [
        _describe(collection, {})
        for collection in call.server.catalog.list()
        if call.key is None or call.key.allows("read", collection.name)
    ]
    return CollectionList(shown)


def create_collection(call: Call) -> Reply:
    """Create an empty collection."""
    settings: CollectionSettings = call.body
    created = call.server.catalog.create(call.names[0], settings.logic, settings.types)
    return _reply(created, 201)


def show_collection(call: Call) -> Reply:
    """Show the size and the revision of a collection."""
    return _reply(call.server.catalog.find(call.names[0]), 200)


def drop_collection(call: Call) -> Reply:
    """Remove a collection with everything in it."""
    call.server.catalog.drop(call.names[0])
    return Reply(status=204)


def show_stats(call: Call) -> CollectionInfo:
    """Show figures about the rules and the index."""
    return _describe(call.collection, _without_paths(call.collection.pubsub.stats()))


def reload_collection(call: Call) -> Revision:
    """Load what another process has written; only a read-only server has something to load."""
    call.collection.refresh()
    return Revision(call.collection.matcher.revision)


def _reply(collection: OpenCollection, status: int) -> Reply:
    info = _describe(collection, {})
    return Reply(info, status, {"ETag": tag_revision(collection, info.revision)})


def _describe(collection: OpenCollection, stats: dict[str, Any]) -> CollectionInfo:
    matcher = collection.matcher
    revision = matcher.revision
    return CollectionInfo(collection.name, len(matcher), revision, stats, collection.mark(revision))


def _without_paths(stats: dict[str, Any]) -> dict[str, Any]:
    """Where the files are is the operator's business."""
    return {name: value for name, value in stats.items() if name != "path"}


_ONE = "/v1/collections/{collection}"
_GONE = {404: "There is no such collection."}

OPERATIONS = (
    Operation(
        "GET",
        "/v1/collections",
        "List the collections",
        list_collections,
        "read",
        answer=CollectionList,
    ),
    Operation(
        "PUT",
        _ONE,
        "Create a collection",
        create_collection,
        "admin",
        answer=CollectionInfo,
        body=CollectionSettings,
        status=201,
        writes=True,
        answer_headers=("ETag",),
        more_statuses={409: "There is one of that name.", 422: "That is not a name or a schema."},
    ),
    Operation(
        "GET",
        _ONE,
        "Show a collection",
        show_collection,
        "read",
        answer=CollectionInfo,
        answer_headers=("ETag",),
        more_statuses=_GONE,
    ),
    Operation(
        "DELETE",
        _ONE,
        "Remove a collection and everything in it",
        drop_collection,
        "admin",
        status=204,
        writes=True,
        more_statuses=_GONE,
    ),
    Operation(
        "GET",
        f"{_ONE}/stats",
        "Show figures about the rules and the index",
        show_stats,
        "read",
        answer=CollectionInfo,
    ),
    Operation(
        "POST",
        f"{_ONE}/reload",
        "Load what another process has written",
        reload_collection,
        "admin",
        answer=Revision,
    ),
)
