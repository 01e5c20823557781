"""Random programs of one small application, and programs that are made from others."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from admc.serve.rollout.model import Placed
from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from solver.place import place
from solver.placement import PlacementError

APP = """
app walks
service s { http 80 }
service t { http 80 }
service d { http web 80  http admin 81  tcp plain 90 }
service e { http 80 }
call s -> d:web, d:plain
call t -> d:web, d:admin
call s -> e
call d -> e
"""
APPS = (
    APP,
    APP + "service n { http 80 }\ncall n -> d:web\ncall n -> e\ncall d -> n\n",
    APP + "external x\ncall x -> d:web\n",
    APP.replace("service e { http 80 }", "service e { grpc 80 -> 8080  replicas 3 }"),
    APP.replace("call t -> d:web, d:admin\n", "call t -> d:admin\n"),
)
"""The same application with more services, with fewer calls, and with a port of another protocol."""
SCOPES = ("s -> d:web", "{s, t} -> d:web", "t -> {d:web, d:admin}", "{s, d} -> e", "* except d -> d", "* -> {d:web, e}")
PLAIN = "s -> d:plain"
KINDS = (
    "rate_limit(requests: 5, per: 1s)",
    "rate_limit(requests: 9, per: 1s)",
    "deny()",
    "allow(callers: [s, t, d])",
    "allow(callers: [s, d])",
    'set_request_header(name: "x-a", value: "1")',
    'add_request_header(name: "x-a", value: "2")',
    'remove_request_header(name: "x-b")',
    'set_response_header(name: "x-r", value: "1")',
    "request_count()",
    "access_log()",
    'access_log(format: "text")',
    "fault_abort(status: 503, percent: 50%)",
    "fault_delay(delay: 1ms)",
    "buffer_limit(max: 1KB)",
    "external_authorization(service: e)",
    "external_authorization(service: d:80)",
)
ROUTING = ("timeout(after: 1s)", "timeout(after: 2s)", "retry(attempts: 2)", "circuit_breaking(max_requests: 9)")
ROUTED = ("s -> d:web", "t -> d:admin", "{s, d} -> e")
FORWARDS = ("mirror(to: e)", "split(to: e, percent: 5%)")
CONNECTION_KINDS = ("deny()", "connection_rate_limit(connections: 5, per: 1s)", "access_log()")
MATCHES = ("", ' when header("x-a") == "1"', ' when not (header("x-b") == "1")', ' when path == "/p"')
SIDES = ("ingress", "egress", "")


class Line(NamedTuple):
    """A policy of a program, and where it is pinned."""

    name: str
    kind: str
    scope: str
    match: str
    side: str

    @property
    def text(self) -> str:
        pin = f"pin {self.name} at {self.side}\n" if self.side else ""
        return f"policy {self.name} = {self.kind} on {self.scope}{self.match}\n{pin}"


_REQUESTS = st.tuples(st.sampled_from(KINDS), st.sampled_from(SCOPES), st.sampled_from(MATCHES), st.sampled_from(SIDES))
_ROUTING = st.tuples(st.sampled_from(ROUTING), st.sampled_from(ROUTED), st.just(""), st.just(""))
_FORWARDS = st.tuples(st.sampled_from(FORWARDS), st.just("s -> d:web"), st.just(""), st.just(""))
_CONNECTIONS = st.tuples(st.sampled_from(CONNECTION_KINDS), st.just(PLAIN), st.just(""), st.sampled_from(SIDES))


def lines(names: str) -> st.SearchStrategy[list[Line]]:
    one = st.one_of(_REQUESTS, _REQUESTS, _REQUESTS, _REQUESTS, _ROUTING, _FORWARDS, _CONNECTIONS)
    return st.lists(one, min_size=1, max_size=len(names)).map(
        lambda found: [Line(name, *what) for name, what in zip(names, found, strict=False)]
    )


@st.composite
def following(draw: st.DrawFn, old: list[Line]) -> list[Line]:
    """A program that is made from another: policies stay, move, change, get another name, give theirs to another, go,
    come, and change places."""
    new: list[Line] = []
    for line in old:
        what = draw(st.sampled_from(("move", "move", "move", "stay", "stay", "change", "rename", "swap", "drop")))
        if what == "drop":
            continue
        fixed = line.kind in (*ROUTING, *FORWARDS)
        side = line.side if what == "stay" or fixed else draw(st.sampled_from(SIDES))
        after = line._replace(side=side)
        if what in ("rename", "swap"):
            after = after._replace(name=line.name.removesuffix("_new") if "_" in line.name else f"{line.name}_new")
        elif what == "change" and line.scope != PLAIN and not fixed:
            after = after._replace(match=draw(st.sampled_from(MATCHES)), kind=draw(st.sampled_from(KINDS)))
        new.append(after)
        if what == "swap" and line.scope != PLAIN and not fixed:
            new.append(line._replace(match=draw(st.sampled_from(MATCHES)), side=draw(st.sampled_from(SIDES))))
    for line in draw(st.one_of(st.just([]), lines("xy"))):
        new.insert(draw(st.integers(0, len(new))), line)
    if draw(st.booleans()) and len(new) > 1 and draw(st.booleans()):
        new.reverse()
    return list({line.name: line for line in new}.values())


@st.composite
def chains(draw: st.DrawFn, least: int = 1, most: int = 3) -> list[tuple[str, list[Line]]]:
    """Programs that follow one another, each with its application."""
    written = [draw(lines("abcd"))]
    for _ in range(draw(st.integers(least, most))):
        again = len(written) > 1 and draw(st.integers(0, 3)) == 0
        written.append(written[-2] if again else draw(following(written[-1])))
    apps = draw(st.one_of(st.just([APP] * len(written)), st.lists(st.sampled_from(APPS), min_size=4, max_size=4)))
    return list(zip(apps, written, strict=False))


def placed(app: str, written: list[Line]) -> Placed | None:
    try:
        program = load_text(app + "".join(line.text for line in written))
        return Placed(program, place(program))
    except (ProgramError, PlacementError):
        return None
