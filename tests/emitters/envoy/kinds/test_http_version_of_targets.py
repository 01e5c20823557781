"""The target of a split or a mirror gets requests in the version of HTTP that the caller chose.

A service that talks HTTP/2 to another one may rely on it (methods of any letters, many streams on one connection), so
what is sent on or copied has to arrive like the request itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Request, grpc_call, h2c, http1
from tests.emitters.envoy.support import ENVOY, Running, exchange, running, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

TEXT = """
service a { http 8000 }
service b { http copied 9000  http parted 9001  http plain 9002 }
service s, t { http 8003 }
service g { grpc copied 9100  grpc parted 9101 }
service sg { grpc 8004 }
call a -> b:copied, b:parted, b:plain, s, t, g:copied, g:parted, sg
policy copies = mirror(to: s) on a -> b:copied
policy more_copies = mirror(to: t) on a -> b:copied when header("x-twice") == "1"
policy share = split(to: s, percent: 100%) on a -> b:parted
policy grpc_copies = mirror(to: sg) on a -> g:copied
policy grpc_share = split(to: sg, percent: 100%) on a -> g:parted
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(TEXT, tmp_path_factory.mktemp("targets")) as live:
        yield live


def arrivals(app: Running, name: str) -> dict[str, tuple[str, str]]:
    """Version and method of what reached each service."""
    return {seen.service: (seen.protocol, seen.method) for seen in app.echo.record.of(name)}


def named(name: str, method: str = "GET", *headers: tuple[str, str]) -> Request:
    return Request(method, "/", (("x-echo-id", name), *headers))


@pytest.mark.parametrize("method", ["GET", "POST", "post", "PURGE"])
def test_a_copy_is_sent_in_the_version_of_the_original(app: Running, method: str) -> None:
    target = app.target("a", "b", 9000)
    assert h2c(target, named(f"two {method}", method)).status == 200
    soon(lambda: arrivals(app, f"two {method}") == dict.fromkeys("bs", ("h2c", method)))
    if method.isupper():
        assert http1(target, named(f"one {method}", method)).status == 200
        soon(lambda: arrivals(app, f"one {method}") == dict.fromkeys("bs", ("http/1.1", method)))


def test_every_copy_is(app: Running) -> None:
    target = app.target("a", "b", 9000)
    assert h2c(target, named("all", "GET", ("x-twice", "1"))).status == 200
    soon(lambda: arrivals(app, "all") == dict.fromkeys("bst", ("h2c", "GET")))


def test_no_client_chooses_the_version_of_a_copy(app: Running) -> None:
    target = app.target("a", "b", 9000)
    for forged in ("HTTP/2", "HTTP/1.1", "nonsense"):
        assert http1(target, named(forged, "GET", ("x-admc-hold-version", forged))).status == 200
        soon(lambda name=forged: arrivals(app, name) == dict.fromkeys("bs", ("http/1.1", "GET")))
    for seen in app.echo.record.all():
        assert not any("admc" in name.lower() for name, _ in seen.headers)


def test_an_old_request_is_copied_as_a_newer_one(app: Running) -> None:
    """Like the original, which arrives in HTTP/1.1."""
    answer = exchange(app.target("a", "b", 9000), b"GET / HTTP/1.0\r\nx-echo-id: old\r\n\r\n")
    assert answer.split()[1] == b"200"
    soon(lambda: arrivals(app, "old") == dict.fromkeys("bs", ("http/1.1", "GET")))


@pytest.mark.parametrize("method", ["GET", "post"])
def test_a_share_is_sent_in_the_version_of_the_caller(app: Running, method: str) -> None:
    target = app.target("a", "b", 9001)
    assert h2c(target, named(f"share {method}", method)).status == 200
    assert arrivals(app, f"share {method}") == {"s": ("h2c", method)}
    if method.isupper():
        assert http1(target, named("one share", method)).status == 200
        assert arrivals(app, "one share") == {"s": ("http/1.1", method)}


def test_grpc_stays_grpc(app: Running) -> None:
    ask = Request("POST", "/s/M", (("x-echo-id", "g copied"),), b"x")
    assert grpc_call(app.target("a", "g", 9100), ask).label == "OK"
    soon(lambda: set(arrivals(app, "g copied")) == {"g", "sg"})
    ask = Request("POST", "/s/M", (("x-echo-id", "g parted"),), b"x")
    assert grpc_call(app.target("a", "g", 9101), ask).label == "OK"
    assert set(arrivals(app, "g parted")) == {"sg"}
