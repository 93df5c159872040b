"""What someone without rights, or with bad intentions, may try.

docs/reference/server.md lists it.
"""

from __future__ import annotations

import gzip
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets.sync.client as websockets
from websockets.exceptions import InvalidStatus

from tamis.errors import CorruptFileError, LockedError, StorageError
from tamis.server.keys import KEYS_FILE, KeyFile, Right
from tamis.server.routes import OPERATIONS
from tamis.server.run import ServerError, make_runner
from tamis.server.settings import ServerLimits, ServerSettings
from tests.server.servers import JSON_LINES, Served, serving
from tests.waiting import wait_until

GUARDED = [operation for operation in OPERATIONS if operation.right is not None]
SMALL = ServerLimits(
    body=10_000, bulk_body=50_000, header=4_000, batch=10, rule=200, arrival=0.5, pause=0.3
)


class Keys:
    """Keys of a server, by what they allow."""

    def __init__(self, folder: Path) -> None:
        self.file = KeyFile(folder)
        self.admin = self.make("admin")
        self.other = self.make("admin", collections=["other"])
        rights: list[Right] = ["read", "publish", "write"]
        self.single = {right: self.make(right, ["mine"]) for right in rights}
        self.expired = self.make("admin", expires=datetime.now(UTC) - timedelta(seconds=1))

    def make(
        self, right: Right, collections: list[str] | None = None, expires: datetime | None = None
    ) -> dict[str, str]:
        _, token = self.file.create("", [right], collections or ["*"], expires)
        return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="module")
def guarded(keys: Keys) -> Iterator[Served]:
    with serving(keys.file.path.parent, keys=True, limits=SMALL) as running:
        made = running.http.put("/mine", json={}, headers=keys.admin)
        assert made.status_code == 201
        yield running


def send(served: Served, operation: Any, headers: dict[str, str]) -> httpx2.Response:
    path = operation.path.format(collection="mine", id="r1", name="ann")
    media = "application/jsonl" if operation.bulk else "application/json"
    return served.http.request(
        operation.method,
        f"{served.url}{path}",
        content=b"{}" if operation.body is not None or operation.bulk else None,
        headers={"content-type": media, **headers},
    )


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.name)
def test_every_route_needs_a_key_that_fits(guarded: Served, keys: Keys, operation: Any) -> None:
    for bad in ({}, {"authorization": "Bearer tamis_x"}, keys.expired):
        refused = send(guarded, operation, bad)
        assert refused.status_code == 401, refused.text
        assert refused.headers["www-authenticate"].startswith("Bearer")
    if operation.name == "list_collections":
        assert send(guarded, operation, keys.other).json() == {"collections": []}
        return
    assert send(guarded, operation, keys.other).status_code == 403
    for right, key in keys.single.items():
        if right != operation.right:
            assert send(guarded, operation, key).status_code == 403, right


def test_a_key_learns_nothing_about_other_collections(guarded: Served, keys: Keys) -> None:
    there = guarded.http.get("/mine", headers=keys.other)
    absent = guarded.http.get("/absent", headers=keys.other)
    assert there.status_code == absent.status_code == 403


def test_a_websocket_needs_a_key_too(guarded: Served, keys: Keys) -> None:
    address = f"{guarded.url.replace('http', 'ws')}/v1/collections/mine/socket?subscription=ann"
    for headers, status in (({}, 401), (keys.expired, 401), (keys.other, 403), (keys.admin, 404)):
        with pytest.raises(InvalidStatus) as caught:
            websockets.connect(address, additional_headers=headers)
        assert caught.value.response.status_code == status


def test_a_revoked_key_ends(guarded: Served, keys: Keys) -> None:
    key = keys.make("read")
    wait_until(lambda: guarded.http.get("/mine", headers=key).status_code == 200)
    keys.file.revoke(key["authorization"].split("_")[1])
    wait_until(lambda: guarded.http.get("/mine", headers=key).status_code == 401)


def test_keys_are_stored_as_hashes_that_only_the_owner_reads(keys: Keys) -> None:
    path = keys.file.path
    assert path.name == KEYS_FILE
    assert path.stat().st_mode & 0o077 == 0
    token = keys.admin["authorization"].split()[1]
    assert token.rpartition("_")[2] not in path.read_text()


def test_every_token_takes_the_same_steps(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash and one comparison of equal lengths, in constant time, whatever is right of it."""
    compared: list[tuple[int, int]] = []

    def compare(given: str, stored: str) -> bool:
        compared.append((len(given), len(stored)))
        return given == stored

    monkeypatch.setattr("tamis.server.keys.hmac.compare_digest", compare)
    right = keys.admin["authorization"].split()[1]
    near = right[:-1] + ("A" if right[-1] != "A" else "B")
    unknown = "tamis_" + "0" * 12 + "_" + "x" * 43
    for token in (right, near, unknown, "", "tamis_", "x" * 10_000):
        assert (keys.file.find(token) is not None) == (token == right)
    assert compared == [(64, 64)] * 6


def test_other_machines_need_keys(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="tamis keys create"):
        make_runner(ServerSettings(folder=tmp_path, host="0.0.0.0"))
    with pytest.raises(ServerError, match="need keys"):
        make_runner(ServerSettings(folder=tmp_path, host="0.0.0.0", keys=False))
    KeyFile(tmp_path).create("", ["admin"])
    assert make_runner(ServerSettings(folder=tmp_path, host="0.0.0.0")).tamis.settings.needs_keys


def test_pages_of_other_sites_get_nothing_without_keys(served: Served) -> None:
    url = f"{served.url}/v1/collections"
    rebound = served.http.get(url, headers={"host": "evil.example"})
    assert (rebound.status_code, rebound.json()["title"]) == (403, "Foreign host")
    foreign = served.http.get(url, headers={"origin": "https://evil.example"})
    assert (foreign.status_code, foreign.json()["title"]) == (403, "Foreign origin")
    own = served.http.get(url, headers={"origin": served.url})
    assert own.status_code == 200
    # What a form may send without a preflight.
    form = served.http.post("/x/match", content="{}", headers={"content-type": "text/plain"})
    assert form.status_code == 415


# --- Bodies ---


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("limited"), limits=SMALL) as running:
        running.make("c", {"r1": "x = 1"})
        yield running


def post(served: Served, body: bytes, **headers: str) -> httpx2.Response:
    return served.http.post(
        "/c/match", content=body, headers={"content-type": "application/json", **headers}
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nul",
        b"[]",
        b'{"event": {"x": \xff}}',
        b'{"event": {"x": "\\ud800"}}',
        b"\x00" * 50,
    ],
    ids=["empty", "open", "word", "list", "bytes", "surrogate", "zeros"],
)
def test_malformed_bodies(limited: Served, body: bytes) -> None:
    answer = post(limited, body)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_numbers_that_no_kind_holds(limited: Served) -> None:
    for number in (b"1e999", b"1" * 400, b"-" + b"9" * 30, b"1e-999"):
        answer = post(limited, b'{"event": {"x": %s}}' % number)
        assert answer.status_code in (200, 400, 422), answer.text


def test_deep_nesting(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.make("c", {"r1": "x = 1"})
        for depth in (100, 1_000, 100_000, 1_000_000):
            deep = b'{"event": {"x": ' + b"[" * depth + b"1" + b"]" * depth + b"}}"
            assert post(served, deep).status_code in (200, 400, 422)
            objects = b'{"event": ' + b'{"x":' * depth + b"1" + b"}" * depth + b"}"
            if len(objects) < 4 << 20:
                assert post(served, objects).status_code in (200, 400, 422)
            rule = b'{"rule": "' + b"(" * depth + b"x = 1" + b")" * depth + b'"}'
            put = served.http.put(
                "/c/rules/deep", content=rule, headers={"content-type": "application/json"}
            )
            assert put.status_code in (200, 201, 422), put.text
            line = b'{"x": ' + b"[" * depth + b"]" * depth + b"}\n"
            many = served.http.post("/c/match-many", content=line, headers=JSON_LINES)
            assert many.status_code in (200, 400, 422)
        assert served.http.post("/c/match", json={"event": {"x": 1}}).status_code == 200


def test_huge_bodies_are_refused_before_they_are_read(limited: Served) -> None:
    told = post(limited, b" " * 20_000)
    assert (told.status_code, told.json()["limit"]) == (413, 10_000)

    def endless() -> Iterator[bytes]:
        for _ in range(10_000):
            yield b" " * 1_000

    untold = limited.http.post("/c/rules", content=endless(), headers={**JSON_LINES})
    assert untold.status_code == 413


def test_compressed_bodies_and_bombs(limited: Served) -> None:
    body = b'{"event": {"x": 1}}'
    for encoding, packed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        answer = post(limited, packed, **{"content-encoding": encoding})
        assert answer.json() == {"rules": ["r1"]}
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 60_000
    for path, headers in (
        ("/c/match", {"content-type": "application/json"}),
        ("/c/rules", JSON_LINES),
    ):
        refused = limited.http.post(
            path, content=bomb[:9_000], headers={**headers, "content-encoding": "gzip"}
        )
        assert refused.status_code == 413, refused.text
    for packed in (b"not gzip", gzip.compress(body)[:-9]):
        assert post(limited, packed, **{"content-encoding": "gzip"}).status_code == 400
    assert post(limited, body, **{"content-encoding": "br"}).status_code == 415


def send_packed(served: Served, path: str, packed: bytes, encoding: str) -> httpx2.Response:
    headers = {**JSON_LINES, "content-encoding": encoding}
    return served.http.post(path, content=packed, headers=headers)


PACKED = {
    "two-members": lambda a, b: gzip.compress(a) + gzip.compress(b),
    "empty-members": lambda a, b: b"".join(map(gzip.compress, (b"", a, b"", b, b""))),
    "padding": lambda a, b: gzip.compress(a) + gzip.compress(b) + bytes(100),
}


@pytest.mark.parametrize("case", PACKED)
def test_bodies_have_every_member_of_gzip(case: str, limited: Served, name: str) -> None:
    path = limited.make(name)
    pack = PACKED[case]
    rules = pack(b'{"id": "r1", "rule": "x = 1"}\n', b'{"id": "r2", "rule": "x = 2"}\n')
    assert send_packed(limited, f"{path}/rules", rules, "gzip").json()["added"] == 2
    events = pack(b'{"x": 1}\n', b'{"x": 2}\n')
    counted = send_packed(limited, f"{path}/count-many", events, "gzip").text.splitlines()
    assert len(counted) == 2
    lines = pack(b'{"event": {"x": 1}}\n', b'{"event": {"x": 2}}\n')
    published = send_packed(limited, f"{path}/publish-many", lines, "gzip")
    assert published.json()["sequences"] == [1, 2]
    one = pack(b'{"event": ', b'{"x": 2}}')
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert limited.http.post(f"{path}/match", content=one, headers=headers).json() == {
        "rules": ["r2"]
    }


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bodies_that_are_not_whole_change_nothing(
    encoding: str, limited: Served, name: str
) -> None:
    path = limited.make(name)
    pack: Callable[[bytes], bytes] = gzip.compress if encoding == "gzip" else zlib.compress
    rule = b'{"id": "r1", "rule": "x = 1"}\n'
    event = b'{"event": {"x": 1}}\n'
    for broken in (lambda body: pack(body)[:-3], lambda body: pack(body) + b"garbage"):
        for target, body in (("rules", rule), ("publish-many", event)):
            answer = send_packed(limited, f"{path}/{target}", broken(body), encoding)
            assert (answer.status_code, answer.json()["title"]) == (400, "Malformed body")
    collection = limited.server.catalog.find(name)
    assert (len(collection.matcher), collection.pubsub.log.latest) == (0, 0)


def test_limits_on_rules_and_batches(limited: Served) -> None:
    long = limited.http.put("/c/rules/long", json={"rule": "x = '" + "a" * 300 + "'"})
    assert (long.status_code, "rule_bytes" in long.json()["detail"]) == (422, True)
    many = limited.http.post("/c/match-many", content=b'{"x": 1}\n' * 11, headers=JSON_LINES)
    assert (many.status_code, many.json()["limit"]) == (413, 10)


def raw(served: Served, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What the server answers to these bytes, sent with pauses between them."""
    with socket.create_connection(("127.0.0.1", served.runner.port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            answer = b""
            while data := connection.recv(65_536):
                answer += data
        except (ConnectionResetError, BrokenPipeError):
            return answer if "answer" in locals() else b""
        return answer


def test_slow_senders_are_cut_off(limited: Served) -> None:
    head = b"POST /v1/collections/c/match HTTP/1.1\r\nHost: localhost\r\n"
    # A server that waits for them would let the client's patience end, which raises.
    assert b"200" not in raw(limited, *[bytes([byte]) for byte in head[:30]], pause=0.05)
    body = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    assert b" 408 " in raw(limited, head + body)
    many = b"POST /v1/collections/c/rules HTTP/1.1\r\nHost: localhost\r\n"
    lines = b"Content-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
    assert b" 408 " in raw(limited, many + lines)
    # Others are served meanwhile and afterwards.
    assert post(limited, b'{"event": {"x": 1}}').status_code == 200


def test_large_headers(limited: Served) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    for extra in (b"X: " + b"a" * 100_000, b"\r\n".join(b"x%d: y" % i for i in range(2_000))):
        assert b"200 OK" not in raw(limited, head + extra + b"\r\n\r\n")
    long = b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert b"200 OK" not in raw(limited, long)


# --- Paths and headers ---


@pytest.mark.parametrize(
    "path",
    [
        "/v1/collections/../keys.json",
        "/v1/collections/..",
        "/v1/collections/%2e%2e/rules",
        "/v1/collections/..%2f..%2fetc/rules",
        "/v1/collections/.hidden",
        "/v1/collections/a%00b",
        "/../../etc/passwd",
        "//etc/passwd",
        "/v1/collections//rules",
    ],
)
def test_paths_lead_nowhere(served: Served, path: str, tmp_path: Path) -> None:
    for method in (b"GET", b"PUT", b"DELETE"):
        head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % (
            method,
            path.encode(),
        )
        body = b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        answer = raw(served, head + body)
        assert answer.split(b" ")[1] in (b"400", b"403", b"404", b"405", b"415", b"422")
    names = {found.name for found in served.server.settings.folder.iterdir()}
    assert not any(name.startswith(".") or "\0" in name for name in names)


def test_headers_cannot_be_injected(served: Served, name: str) -> None:
    path = served.make(name)
    evil = "x%0d%0aSet-Cookie:%20a=b"
    for method, rest in (("GET", f"rules/{evil}"), ("PUT", f"rules/{evil}"), ("GET", evil)):
        answer = served.http.request(method, f"{path}/{rest}", json={"rule": "x = 1"})
        assert "set-cookie" not in answer.headers
    request_id = served.http.get(path, headers={"x-request-id": "a" * 200}).headers["x-request-id"]
    assert request_id != "a" * 200
    smuggled = (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"
    )
    assert raw(served, smuggled).count(b"HTTP/1.1 200") <= 1


def test_logs_have_no_secrets(guarded: Served, keys: Keys) -> None:
    secret = keys.admin["authorization"].split()[1]
    guarded.http.get("/mine/rules", params={"search": "private-words"}, headers=keys.admin)
    guarded.http.post("/mine/match", json={"event": {"x": "private-event"}}, headers=keys.admin)
    log = guarded.access_log()
    assert '"route":"/v1/collections/{collection}/rules"' in log
    assert secret.split("_")[1] in log
    for private in (secret.rpartition("_")[2], "private-words", "private-event"):
        assert private not in log


@pytest.mark.parametrize("kind", [CorruptFileError, LockedError, StorageError])
def test_damaged_file_is_reported_without_its_path(
    served: Served, kind: type[StorageError], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = served.make(f"damaged{kind.__name__}")
    collection = served.server.catalog.find(path[1:])

    def fail(*_: Any, **__: Any) -> None:
        raise kind("the log is damaged", path="/secret/place")

    monkeypatch.setattr(collection.pubsub.log, "read_kept", fail)
    answer = served.http.get(f"{path}/log")
    assert answer.status_code in (500, 503)
    assert answer.json()["detail"] == "the log is damaged"
    assert "secret" not in answer.text


def test_failures_tell_nothing_about_the_machine(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = served.make(name)
    matcher = served.server.catalog.find(name).matcher

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("/secret/place")

    monkeypatch.setattr(matcher, "match", fail)
    answer = served.http.post(f"{path}/match", json={"event": {}})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"]
