"""What all tests share: the number of examples, a network for each worker, one line on what was skipped."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import isolation, properties
from tests.skipped import FILE, add, line, skipped

# A shell that starts a run in the background has it ignore Ctrl-C, and so has whatever a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

properties.register()
# A worker of `pytest -n`; a run without workers stays in the network in which its user looks at it.
if "PYTEST_XDIST_WORKER" in os.environ:
    isolation.enter()

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.api_server import ApiServer
    from tests.cluster.node.cluster import Node


_CLUSTER = {"cluster_api", "new_cluster_api", "cluster_node"}
"""Fixtures that start programs of a cluster."""


@pytest.fixture
def alone() -> Iterator[None]:
    """Holds the loopback addresses of `Addresses.loopback` for one test, against all processes of the same network."""
    with (Path(tempfile.gettempdir()) / f"admc-testbed-{os.getuid()}-{isolation.network()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def cluster_api() -> Iterator[ApiServer]:
    """A Kubernetes API server for all tests of this process; a test uses names of its own, and leaves it running."""
    from tests.cluster.api_server import api_server
    from tests.cluster.tools import MissingError

    try:
        with api_server() as server:
            yield server
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def new_cluster_api() -> Iterator[Callable[..., ApiServer]]:
    """Starts an API server for one test, which may kill it; options of kube-apiserver are its argument."""
    from tests.cluster.api_server import api_server
    from tests.cluster.tools import MissingError

    with ExitStack() as stack:

        def start(options: Sequence[str] = ()) -> ApiServer:
            try:
                return stack.enter_context(api_server(options))
            except MissingError as error:
                pytest.skip(str(error))

        yield start


@pytest.fixture(scope="session")
def cluster_node() -> Iterator[Node]:
    """A cluster of one node for all tests of this process; a test uses namespaces of its own."""
    from tests.cluster.node.cluster import cluster
    from tests.cluster.tools import MissingError

    try:
        with cluster() as node:
            yield node
    except MissingError as error:
        pytest.skip(str(error))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a cluster have the marker `cluster`, which `make test` and `make test-long` leave out."""
    for item in items:
        if _CLUSTER & set(getattr(item, "fixturenames", ())):
            item.add_marker("cluster")


def pytest_collection_finish(session: pytest.Session) -> None:
    """All tests stay until the end: a garbage collection need not look at them again, which took 0.2 s each time."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = skipped(terminalreporter.stats.get("skipped", []))
    if FILE in os.environ:
        add(Path(os.environ[FILE]), found)
    elif found:
        terminalreporter.write_line(line(found), yellow=True)
