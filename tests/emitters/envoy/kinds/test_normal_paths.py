"""`normal_paths` on a real Envoy: spellings as a hostile client writes them, over both versions of HTTP."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from admc.testbed.client import Request, h2c
from dsl.values.spelling import normal_path
from emitters.envoy.kinds.normal_paths import UNUSUAL
from tests.emitters.envoy.both_ends import CALLS, ways
from tests.emitters.envoy.obliging import Obliging, ask_http_2
from tests.emitters.envoy.support import ENVOY, exchange
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emitters.envoy.both_ends import Ways

PASSING = (
    *("/", "/a", "/a/b/", "/a?x=/../b//c", "/a?", "/?//", "/a%2Fb", "/a%2F..%2Fb", "/a%5Cb", "/a;b/..;/c", "/..;/a"),
    *(
        r"/a\b",
        r"/a/..\b",
        "/.well-known/x",
        "/...",
        "/a./b",
        "/.a",
        "/a%zz",
        "/%",
        "/a%2",
        "/%C3%A9",
        "/a%25",
        "/~a-b_c.d",
    ),
    *("/%00", "/%2525", "/a:b@c", "/A/b", '/"<>^`{|}', "/a?%2e%2e/%61"),
)
REFUSED = (
    *(
        "//",
        "//a",
        "/a//b",
        "/a//",
        "/./a",
        "/a/./b",
        "/a/.",
        "/a/..",
        "/../a",
        "/x/../a",
        "/..",
        "/.",
        "/a/.?x",
        "/..?",
    ),
    *(
        "/%61dmin",
        "/%2e%2e/a",
        "/%2E./a",
        "/a/%2e",
        "/%7Ea",
        "/%2D",
        "/%5F",
        "/%30",
        "/%5a",
        "/a%2fb",
        "/%c3%a9",
        "///",
        "//?a",
    ),
)
ABSOLUTE = {
    "http://back/a": 200,
    "http://back": 200,
    "http://back//a": 400,
    "http://back/x/../a": 400,
    "http://back/a?x=//": 200,
}


class Bed(NamedTuple):
    ways: Ways
    service: Obliging


@pytest.fixture(scope="module", params=["egress", "ingress"])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    service = Obliging()
    text = f"{CALLS}@{request.param}\npolicy p = normal_paths() on front -> back\n"
    with ways(tmp_path_factory.mktemp("paths"), service, text) as found:
        yield Bed(found, service)


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_bytes_that_a_path_escapes_are_refused(bed: Bed) -> None:
    """They are another spelling of their escapes. HTTP/2 can carry them; over HTTP/1 Envoy itself refuses them."""
    fields = ((b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"back"))
    bed.service.seen.clear()
    for path, status in ((b"/caf\xc3\xa9", 400), (b"/a/\xff", 400), (b"/\x80?x", 400), (b"/a?\xc3\xa9", 200)):
        assert ask_http_2(bed.ways.through, *fields, (b":path", path), then=b"").status == status, path
    assert _status(bed, b"/caf\xc3\xa9") == 400
    assert len(bed.service.seen) == 0
    assert normal_path("/caf\xe9") == "/caf%C3%A9"


def _status(bed: Bed, target: bytes, method: bytes = b"GET") -> int:
    bed.service.seen.clear()
    answer = exchange(bed.ways.through, method + b" " + target + b" HTTP/1.1\r\nHost: back\r\n\r\n", seconds=0.01)
    return int(answer.split()[1])


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_over_http_1(bed: Bed) -> None:
    for path in PASSING:
        assert (_status(bed, path.encode()), bed.service.seen) == (200, [f"GET {path}"]), path
    for path in REFUSED:
        assert (_status(bed, path.encode()), bed.service.seen) == (400, []), path
    for target, status in ABSOLUTE.items():
        assert _status(bed, target.encode()) == status, target
    assert _status(bed, b"*", b"OPTIONS") == 404  # the policy lets it pass, and Envoy has no route for it


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_over_http_2(bed: Bed) -> None:
    for path, status in (*((path, 200) for path in PASSING), *((path, 400) for path in REFUSED)):
        bed.service.seen.clear()
        assert h2c(bed.ways.through, Request(path=path)).status == status, path
        assert bed.service.seen == ([f"GET {path}"] if status == 200 else []), path


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_what_is_no_path_reaches_no_service(bed: Bed) -> None:
    """Envoy itself refuses most of them, and the policy the others."""
    for target in (b"a", b"?x", b"./a", b"../a", b"%61", b"/a#b", b"/a b", b"\\a"):
        raw = exchange(bed.ways.through, b"GET " + target + b" HTTP/1.1\r\nHost: back\r\n\r\n")
        assert not raw.startswith(b"HTTP/1.1 200"), target
    for path in ("a", "../a", "%61", "*a", "./"):
        assert h2c(bed.ways.through, Request(path=path)).status != 200, path
    assert bed.service.seen == []


@given(
    st.lists(
        st.sampled_from(["/", ".", "a", "%", "2", "e", "E", "F", "f", "7", "?", "//", "/..", "~", ";"]), max_size=8
    )
)
@examples(1000)
def test_the_expression_matches_what_normalising_changes(parts: list[str]) -> None:
    path = "/" + "".join(parts)
    changed = normal_path(path.partition("?")[0]) != path.partition("?")[0]
    assert (re2.fullmatch(UNUSUAL, path) is not None) is changed


def test_envoy_accepts_the_size_of_the_expression() -> None:
    assert re2.compile(UNUSUAL).programsize <= 100


def test_normal_paths() -> None:
    for path in PASSING:
        assert normal_path(path.partition("?")[0]) == path.partition("?")[0]
    for path in REFUSED:
        normal = normal_path(path.partition("?")[0])
        assert normal_path(normal) == normal
        assert not re.search(r"//|/\.\.?(/|$)", normal)
    assert [normal_path(path) for path in ("/a/../b", "/x/./y/", "/%61", "/a%2fb", "/..", "/a/..", "*")] == [
        *("/b", "/x/y/", "/a", "/a%2Fb", "/", "/", "*")
    ]
