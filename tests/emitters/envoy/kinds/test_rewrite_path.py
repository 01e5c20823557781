"""`rewrite_path`: what goes out is a path, whatever came in, and a guard behind it reads the same at either side.

The rewrite and the guard stand at the sender, at both ends, or at the receiver.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.testbed.client import Request, h2c
from emitters.addresses.dialing import binds
from tests.emitters.envoy.support import ENVOY, RawServer, exchange, running
from tests.fidelity.kinds import rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emitters.envoy.support import Running

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

REWRITES = {
    "cut": ("/api", ""),
    "root": ("/api/", "/"),
    "slash": ("/api", "/"),
    "all": ("", "/v1"),
    "deeper": ("/", "/v1/"),
}
PLACES = {"ee": ("egress", "egress"), "ei": ("egress", "ingress"), "ii": ("ingress", "ingress")}
PORTS = {
    (rewrite, place): 9000 + index for index, (rewrite, place) in enumerate((r, p) for r in REWRITES for p in PLACES)
}
GUARDED = ("/admin", "/v1/admin")
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

TARGETS = (
    "/api",
    "/api?q=/api",
    "/api/",
    "/api/admin",
    "/apiadmin",
    "/apihttp://x/admin",
    "/api//admin",
    "/api//x/admin",
    "/api///",
    "/api/../admin",
    "/api/%2e%2e/admin",
    "/api%2fadmin",
    "/api%2Fadmin",
    r"/api\admin",
    "/api*",
    "/api:80/admin",
    "/api@x/admin",
    "/api/admin;a=b",
    "/api/?//x",
    "/API/admin",
    "//api/admin",
    "//x/api",
    "/",
    "/other",
    "/admin?a",
    '/api/"<>^`{|}',
    "/api/%zz",
)


class Way(NamedTuple):
    rewrite: str
    place: str

    @property
    def port(self) -> int:
        return PORTS[self.rewrite, self.place]


def _text() -> str:
    ports, lines = [], []
    for (rewrite, place), number in PORTS.items():
        name = f"{rewrite}_{place}"
        (prefix, to), (first, second) = REWRITES[rewrite], PLACES[place]
        match = " or ".join(f'path starts_with "{path}"' for path in GUARDED)
        ports.append(f"  http {name} {number}")
        lines += [
            f"call a -> b:{name}",
            f'@{first}\npolicy r_{name} = rewrite_path(prefix: "{prefix}", to: "{to}") on a -> b:{name}',
            f"@{second}\npolicy g_{name} = deny() on a -> b:{name} when {match}",
        ]
    return "\n".join(["external internet", "service a { http 8000 }", "service b {", *ports, "}", *lines, ""])


class App(NamedTuple):
    running: Running
    servers: dict[int, RawServer]

    def ask(self, way: Way, line: str, host: str = "h") -> tuple[int, str | None]:
        """The status of the answer, and the request line that arrived."""
        server = self.servers[way.port]
        server.received.clear()
        target = self.running.target("a", "b", way.port)
        answer = exchange(target, f"{line} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode("latin-1"), 0.0)
        arrived = [found.partition(b"\r\n")[0].decode("latin-1") for found in server.received]
        return int(answer.split()[1]), arrived[0] if arrived else None


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with contextlib.ExitStack() as stack:
        running_ = stack.enter_context(running(_text(), tmp_path_factory.mktemp("rewrite"), without=("b",)))
        servers = {
            bind.number: stack.enter_context(RawServer(bind.address, bind.port, ANSWER))
            for bind in binds(running_.program, running_.placement, running_.addresses)
            if bind.service == "b"
        }
        yield App(running_, servers)


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_path_goes_out_and_a_guard_reads_it_alike_at_either_side(app: App, rewrite: str, target: str) -> None:
    path = rewritten(target, *REWRITES[rewrite])
    refused = path.partition("?")[0].startswith(GUARDED)
    expected = (403, None) if refused else (200, f"GET {path} HTTP/1.1")
    assert path.startswith("/")
    assert {place: app.ask(Way(rewrite, place), f"GET {target}") for place in PLACES} == dict.fromkeys(PLACES, expected)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_path_is_left_alone(app: App, place: str) -> None:
    """Envoy itself refuses `OPTIONS *`, with a rewrite or without, and every hop a CONNECT."""
    assert app.ask(Way("all", place), "OPTIONS *") == (404, None)
    assert app.ask(Way("all", place), "CONNECT x:80", "x:80") == (405, None)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_rewritten_of_an_absolute_target_is_its_path(app: App, place: str) -> None:
    assert app.ask(Way("cut", place), "GET http://x/api/other") == (200, "GET /other HTTP/1.1")
    assert app.ask(Way("cut", place), "GET http://x/api/admin") == (403, None)
    assert app.ask(Way("cut", place), "GET http://x/apihttp://y/admin") == (200, "GET /http://y/admin HTTP/1.1")


@pytest.mark.parametrize("place", PLACES)
def test_a_fragment_is_refused_before_any_policy(app: App, place: str) -> None:
    assert app.ask(Way("cut", place), "GET /api/other#x") == (400, None)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", ["/apihttp://x/admin", "/api", "/api//admin", "/api/../admin", "/api?x"])
def test_http_2_is_rewritten_alike(app: App, place: str, target: str) -> None:
    way = Way("cut", place)
    path = rewritten(target, *REWRITES["cut"])
    reply = h2c(app.running.target("a", "b", way.port), Request("GET", target), 10.0)
    assert (reply.status == 403) == path.startswith(GUARDED)
