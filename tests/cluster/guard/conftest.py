"""The guard in the API server of the tests."""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cluster.guard.pods import bare
from tests.cluster.guard.policy import UNGUARDED, Guarded, guard, guarded, install, rows, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api_server import ApiServer

SECONDS = 60.0


def until_refused(place: Guarded) -> None:
    """An API server takes a new policy over within a second or two."""
    deadline = time.monotonic() + SECONDS
    while not said(place.create(bare())):
        assert time.monotonic() < deadline, "the guard does not refuse"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def shop(cluster_api: ApiServer) -> Iterator[Guarded]:
    """A namespace with guarded services and a guard, for tests that leave its `Injection` as it is."""
    with _shop(cluster_api) as found:
        yield found


@pytest.fixture
def own_shop(cluster_api: ApiServer) -> Iterator[Guarded]:
    """The same for one test."""
    with _shop(cluster_api) as found:
        yield found


@contextmanager
def _shop(cluster_api: ApiServer) -> Iterator[Guarded]:
    install(cluster_api)
    with guarded(cluster_api, f"guard-{secrets.token_hex(3)}") as found:
        install(cluster_api, guard())
        found.inject({**rows(), "calm": UNGUARDED})
        until_refused(found)
        yield found
