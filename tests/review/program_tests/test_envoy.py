"""`admc test` agrees with a real Envoy about requests whose values HTTP, or Envoy itself, reads in its own way."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from admc.review.program_tests.resolve import resolve_tests
from admc.review.program_tests.verdict import Passed, Result, Subject, Undecided, judge, subject_of
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Protocol
from dsl.syntax.parser import parse
from dsl.text import SourceText
from emitters.addresses import Addresses, loopback
from emitters.addresses.dialing import binds, dials, sender
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from solver.place import place
from tests.dsl.programs import load
from tests.emitters.envoy.support import ENVOY, private
from tests.fidelity.samples import FILES, JWT, TOKEN

FIRST_PORT: Final = 9000
PREFLIGHT: Final = 'method "OPTIONS"  header("origin") "https://a.example"'
ORIGIN: Final = "origin: https://a.example"


class Asked(NamedTuple):
    """A request as a test says it, and as a client sends it."""

    given: str
    lines: tuple[str, ...] = ()
    path: str = "/"
    method: str = "GET"
    source: str = "web"


def headers(*lines: str) -> Asked:
    given = "  ".join(f'header("{name}") "{value}"' for name, value in (line.split(": ", 1) for line in lines))
    return Asked(given, lines)


def path(value: str) -> Asked:
    return Asked(f'path "{value}"', path=value)


def when(match: str) -> str:
    return f"@egress\npolicy NAME = deny() on web -> api:PORT when {match}\n"


TIER: Final = 'header("x-tier")'
LOGIN: Final = f"@egress\npolicy NAME = jwt({JWT}) on web -> api:PORT\n"
CORS: Final = '@egress\npolicy pages_NAME = cors(origins: ["https://a.example"]) on web -> api:PORT\n'
NAMED: Final = "@ingress\npolicy NAME = fault_abort(status: 503) on {web, other} -> api:PORT\n"
MOVED: Final = '@egress\npolicy moved_NAME = rewrite_path(prefix: "/old", to: "") on web -> api:PORT\n'
ROWS: Final[tuple[tuple[str, Asked, bool | None], ...]] = (
    # Lines, elements, case, blanks; an empty value; bytes beyond ASCII.
    (when(f'{TIER} == "gold"'), headers("X-Tier: a, gold", "x-tier: b"), True),
    (when(f'{TIER} == "gold"'), headers("x-tier: Gold"), False),
    (when(f'{TIER} == ""'), headers("x-tier: "), True),
    (when(f'{TIER} == ""'), headers("x-tier: a,"), True),
    (when(f'{TIER} != "gold"'), Asked('no header("x-tier")'), True),
    (when(f'{TIER} matches "."'), headers("x-tier: \u00e9"), False),
    (when(f'{TIER} matches ".."'), headers("x-tier: \u00e9"), True),
    (when(f'{TIER} starts_with "\u00e9"'), headers("x-tier: a,\u00e9b"), True),
    (when('header("cookie") == "a=1"'), headers("cookie: b=2; a=1"), True),
    (when('header("cookie") == "a=1"'), headers('cookie: b=\'x;a=1\''), False),
    (when('header("x-forwarded-proto") == ""'), headers("x-forwarded-proto: "), False),
    (when('header("x-forwarded-proto") == "1"'), headers("x-forwarded-proto: 1"), True),
    (when('header("x-forwarded-proto") != ""'), headers("x-forwarded-proto: "), True),
    (when('header("x-request-id") == "q"'), Asked('no header("x-request-id")'), False),
    # Paths as they were sent, but for the query.
    (when('path == "/q"'), path("/q?x"), True),
    (when('path == "/q"'), path("//q"), False),
    (when('path == "/q"'), path("/./q"), False),
    (when('path == "/q"'), path("/%71"), False),
    (when('path == "/q"'), path("/q;a"), False),
    (when('path == "/q"'), path("/q/"), False),
    (when('path starts_with "/a<b"'), path("/a<b>|^`{}"), True),
    (MOVED + when('path == "/"'), path("/old?x"), True),
    (MOVED + when('path == "/x"'), path("/old//x"), True),
    (when('method == "PURGE"'), Asked('method "PURGE"', method="PURGE"), True),
    # Tokens: on a line of their own, behind other words, behind another line.
    (LOGIN, headers(f"authorization: {TOKEN[1]}"), None),
    (LOGIN, headers("authorization: Basic eA==", f"authorization: {TOKEN[1]}"), None),
    (LOGIN, headers(f"authorization: Basic eA==, {TOKEN[1]}"), None),
    (LOGIN, headers(f"authorization: {TOKEN[1].replace('Bearer', 'bearer')}"), True),
    (LOGIN, headers("authorization: "), True),
    # A preflight asks for a method.
    (CORS + when('method == "OPTIONS"'),
     Asked(f'{PREFLIGHT}  header("access-control-request-method") ""',
           (ORIGIN, "access-control-request-method: "), method="OPTIONS"), True),
    # A source that does not declare the call.
    (NAMED, Asked(""), True),
    (NAMED, Asked("", source="other"), None),
)  # fmt: skip
"""Policies, a request, and whether they refuse it; None: the test cannot say."""


def program() -> str:
    ports = "  ".join(f"http p{FIRST_PORT + n} {FIRST_PORT + n}" for n in range(len(ROWS)))
    calls = ", ".join(f"api:p{FIRST_PORT + n}" for n in range(len(ROWS)))
    policies = "".join(
        row[0].replace("NAME", f"n{n}").replace("PORT", f"p{FIRST_PORT + n}") for n, row in enumerate(ROWS)
    )
    return f"app shop\nservice web, other {{ http 8000 }}\nservice api {{ {ports} }}\ncall web -> {calls}\n{policies}"


@pytest.fixture(scope="module")
def about() -> Subject:
    loaded = load(program(), dict(FILES))
    return subject_of(loaded, place(loaded))


@contextmanager
def running(about: Subject, folder: Path) -> Iterator[Addresses]:
    """The services and the ADMs of a program."""
    located = private(loopback(about.program))
    where = [
        Endpoint(bind.service, bind.number, Protocol.HTTP.value, bind.address, bind.port)
        for bind in binds(about.program, about.placement, located)
    ]
    paths = {}
    for resources in emit(about.program, about.placement, located, Mode.EXPLICIT):
        paths[resources.service] = folder / f"{resources.service}.json"
        paths[resources.service].write_text(json.dumps(static_json(resources)))
    with EchoServices(where), Envoys(folder, ENVOY or "") as envoys:
        envoys.start(paths)
        yield located


@pytest.fixture(scope="module")
def addresses(about: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with running(about, tmp_path_factory.mktemp("envoys")) as located:
        yield located


def status(about: Subject, addresses: Addresses, number: int, asked: Asked, sends: str | None = None) -> int:
    """The status of the answer. Each source dials what `web` dials: an undeclared call has no address of its own."""
    calls = dials(about.program, about.placement, addresses)
    dial = next(dial for dial in calls if (dial.source, dial.number) == ("web", number))
    lines = (f"{asked.method} {asked.path} HTTP/1.1", "host: x", *asked.lines, "connection: close", "", "")
    with socket.socket() as connection:
        connection.settimeout(20)
        connection.bind((sends or sender(addresses, asked.source), 0))
        connection.connect((dial.address, dial.port))
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.makefile("rb").readline().split()[1])


def result(about: Subject, number: int, asked: Asked) -> Result:
    diagnostics = Diagnostics()
    line = f"test it = {asked.source} -> api:{number} {{ {asked.given} }} is refused\n"
    (test,) = resolve_tests(parse(SourceText("a.test.adm", line), diagnostics), about.program, diagnostics)
    return judge(test, about)


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_envoy_does_what_the_test_says(about: Subject, addresses: Addresses, row: int) -> None:
    _, asked, refused = ROWS[row]
    found = result(about, FIRST_PORT + row, asked)
    assert (None if isinstance(found, Undecided) else isinstance(found, Passed)) is refused, found
    if refused is None:
        # Envoy accepts each of the tokens, and aborts the requests of every source.
        refused = asked.source == "other"
    assert status(about, addresses, FIRST_PORT + row, asked) in ((401, 403, 503) if refused else (200,))


CALLERS: Final = {
    "web": None,
    "other": None,
    "office": "127.77.0.5",
    "branch": "127.77.0.5",
    "partners": "127.76.0.5",
    "internet": "127.0.0.9",
    "agent": "127.0.0.9",
}
"""Callers, each with an address that it may send from; None: that of its pod."""
BY_ADDRESS: Final = (
    *("deny() on office -> api:PORT", "deny() on partners -> api:PORT", "deny() on internet -> api:PORT"),
    *("allow(callers: [office]) on * -> api:PORT", "allow(callers: [partners]) on * -> api:PORT"),
    *("allow(callers: [internet]) on * -> api:PORT", "allow(callers: [web]) on * -> api:PORT"),
    *("deny() on * except {internet, web} -> api:PORT", "deny() on * except {office, web} -> api:PORT"),
    "deny() on * except {partners, web} -> api:PORT",
)


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoy_takes_callers_for_the_parties_that_the_test_says(tmp_path: Path) -> None:
    numbers = range(FIRST_PORT, FIRST_PORT + len(BY_ADDRESS))
    policies = "".join(
        f"@ingress\npolicy n{number} = {policy}\n".replace("PORT", f"p{number}")
        for number, policy in zip(numbers, BY_ADDRESS, strict=True)
    )
    loaded = load(f"""app shop
external internet
external office {{ cidr "127.77.0.0/16" }}
external branch {{ cidr "127.77.0.0/16" }}
external partners {{ cidr "127.76.0.0/15" }}
service web, other {{ http 8000 }}
service agent {{ http 8000  host_network }}
service api {{ {"  ".join(f"http p{number} {number}" for number in numbers)} }}
call web, office, branch, partners, internet -> {", ".join(f"api:p{number}" for number in numbers)}
{policies}""")
    about = subject_of(loaded, place(loaded))
    undecided = set()
    with running(about, tmp_path) as addresses:
        for number, policy in zip(numbers, BY_ADDRESS, strict=True):
            for source, sends in CALLERS.items():
                asked = Asked("", source=source)
                found = result(about, number, asked)
                if isinstance(found, Undecided):
                    undecided.add((source, policy.partition(" -> ")[0]))
                    continue
                answer = status(about, addresses, number, asked, sends)
                assert answer == (403 if isinstance(found, Passed) else 200), (policy, source)
    assert undecided == {
        ("branch", "deny() on office"),
        ("branch", "allow(callers: [office]) on *"),
        ("office", "deny() on * except {office, web}"),
        ("agent", "deny() on internet"),
        ("agent", "allow(callers: [internet]) on *"),
        ("agent", "deny() on * except {internet, web}"),
    }
