"""A server that the tests of a file share; each test makes a collection of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.servers import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for the collection of a test."""
    return str(request.node.name).replace("[", "-").replace("]", "")[:90]
