"""A cookie means the same however it travels: on one line, on several, in HTTP/1 or in HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Reply, Request, Target, h2c, http1
from tests.emitters.envoy.support import ENVOY, Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

TEXT = """
service a { http 8000 }
service b { http 8001 }
call a -> b
policy equal = set_request_header(name: "x-equal", value: "1") on a -> b when header("cookie") == "b=2"
policy begins = set_request_header(name: "x-begins", value: "1") on a -> b when header("cookie") starts_with "c="
policy like = set_request_header(name: "x-like", value: "1") on a -> b when header("cookie") matches "[^=]*=[3-6]"
policy all = set_request_header(name: "x-all", value: "1") on a -> b when header("cookie") matches ".*a=1.*b=2.*"
@ingress
policy other = set_request_header(name: "x-other", value: "1") on a -> b when header("cookie") != "b=2"
"""
FOUND = ("x-equal", "x-begins", "x-like", "x-all", "x-other")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(TEXT, tmp_path_factory.mktemp("cookies")) as live:
        yield live


@pytest.mark.parametrize("send", [http1, h2c])
@pytest.mark.parametrize(
    ("cookies", "found"),
    [
        (("b=2",), "x-equal"),
        (("a=1", "b=2"), "x-equal"),
        (("b=2", "c=3"), "x-equal x-begins x-like"),
        (("x=7", "c=8", "y=9"), "x-begins x-other"),
        (("xb=2", "yc=7"), "x-other"),
        (("a=5",), "x-like x-other"),
        ((), "x-other"),
    ],
    ids=" ".join,
)
def test_each_cookie_is_compared(
    app: Running, send: Callable[[Target, Request], Reply], cookies: tuple[str, ...], found: str
) -> None:
    together = (("cookie", "; ".join(cookies)),) if cookies else ()
    for headers in (together, tuple(("cookie", each) for each in cookies)):
        seen = send(app.target("a", "b"), Request(headers=headers)).seen
        assert seen is not None
        assert {name for name in FOUND if seen.header(name)} == set(found.split()), headers


def test_http_2_cookies_arrive_on_one_line(app: Running) -> None:
    """As docs/invisible.md says; HTTP/1 lines arrive as they are."""
    lines = (("cookie", "a=1"), ("cookie", "b=2"))
    target = app.target("a", "b")
    for send, arrives in ((h2c, ("a=1; b=2",)), (http1, ("a=1", "b=2"))):
        reply = send(target, Request(headers=lines))
        assert reply.seen is not None
        assert reply.seen.header("cookie") == arrives
