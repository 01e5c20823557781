"""Programs with one policy, and requests that try to get round it: by address, port, family, name, header and form."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import dsl
from dsl.program import Protocol, Side
from tests.fidelity.mesh.derive import possible
from tests.fidelity.mesh.requests import Asked
from tests.fidelity.requests import GRPC_PATH, Ask
from tests.fidelity.samples import FILES, JWT
from tests.testbed.mesh import Family
from tests.testbed.mesh.layout import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Program
    from tests.fidelity.message import Fields

# `near` has one caller, so every policy that may leave its receiver can. Of its ports, `twin` and `web` lead to one
# process, and no call to `other` is declared. `rogue` is a service that calls another one.
SHAPE = """\
app ways
external world
service caller {{ http 8000  replicas {callers} }}
service rogue {{ http 8000 }}
service near {{
{ports}
  replicas {replicas}
}}
service far {{ http 8000 }}
call world -> caller
call rogue -> far
{calls}
{policy}
"""
PORTS = {
    "web": (Protocol.HTTP, "80 -> 8080"),
    "twin": (Protocol.HTTP, "81 -> 8080"),
    "other": (Protocol.HTTP, "82 -> 8082"),
    "rpc": (Protocol.GRPC, "90 -> 9090"),
    "raw": (Protocol.TCP, "70 -> 7070"),
}
# A quota is more than the declared caller takes at first, so that a stranger gets a part of it, and less than the
# declared caller asks for in all.
POLICIES = {
    "allow": 'policy p = allow(callers: [caller]) on * -> near',
    "deny": 'policy p = deny() on * -> near when path starts_with "/admin"',
    "jwt": f'policy p = jwt({JWT}) on * -> near',
    "normal_paths": 'policy p = normal_paths() on * -> near',
    "set_request_header": 'policy p = set_request_header(name: "x-mark", value: "policy") on * -> near',
    "remove_request_header": 'policy p = remove_request_header(name: "x-secret") on * -> near',
    "set_response_header": 'policy p = set_response_header(name: "x-mark", value: "policy") on * -> near',
    "fault_abort": 'policy p = fault_abort(status: 418) on * -> near when header("x-abort") == "1"',
    "rate_limit": "policy p = rate_limit(requests: 16, per: 1h) on * -> near:web",
    "connection_rate_limit": "policy p = connection_rate_limit(connections: 10, per: 1h) on * -> near:raw",
    "rewrite_path": 'policy p = rewrite_path(prefix: "/admin", to: "/closed") on * -> near',
    "request_count": "policy p = request_count() on * -> near",
    "access_log": "policy p = access_log() on * -> near",
}  # fmt: skip


def program(kind: str, side: Side) -> Program:
    """One policy for every caller on all ports that its kind can deal with.

    The replicas of the service that enforces a quota share it, and the judge has one bucket for the whole. So one
    replica enforces a quota, at either side; `test_limits` asks for the shares of several.
    """
    protocols = dsl.load_text("app a").kinds[kind].protocols - ({Protocol.TCP} if " when " in POLICIES[kind] else set())
    quota = kind.endswith("rate_limit")
    ports = {
        name: port
        for name, port in PORTS.items()
        # What is counted is counted on one port, which no other may share: so that it is exact.
        if (name in POLICIES[kind].split("near:")[-1:] or name == "other" if quota else port[0] in protocols)
    }
    text = SHAPE.format(
        ports="\n".join(f"  {protocol} {name} {numbers}" for name, (protocol, numbers) in ports.items()),
        calls="\n".join(f"call caller -> near:{name}" for name in ports if name != "other"),
        callers=1 if quota and side is Side.EGRESS else 2,
        replicas=1 if quota and side is Side.INGRESS else 2,
        policy=f"@{side}\n{POLICIES[kind]}",
    )
    return dsl.load_text(text, "test.adm", FILES.__getitem__)


def _lies(friend: str) -> tuple[Fields, ...]:
    """Headers by which a caller could claim to be another, or ask a proxy for a favour."""
    return (
        (),
        (("x-forwarded-for", friend), ("x-real-ip", friend), ("forwarded", f"for={friend}")),
        (("x-envoy-external-address", friend), ("x-envoy-internal", "true"), ("x-envoy-original-path", "/open")),
        (("x-envoy-upstream-rq-timeout-ms", "1"), ("x-envoy-retry-on", "5xx"), ("x-envoy-max-retries", "9")),
        (("x-envoy-decorator-operation", "open"), ("x-envoy-original-dst-host", f"{friend}:8000")),
        (("x-secret", "1"), ("x-mark", "client"), ("x-abort", "1")),
        (("x-abort", "0, 1"), ("via", friend), ("x-forwarded-host", "far:8000"), ("x-forwarded-proto", "https")),
    )


AUTHORITIES = ("", "far:8000", "caller", "127.0.0.1:15001")
PATHS = ("/", "/admin/x", "/%61dmin", "//admin")


def requests(program: Program, paths: int = 1) -> Iterator[Asked]:
    """From the declared caller, a rogue, an outsider and itself: all ports and addresses, every lie with some paths.

    The declared caller comes a second time at the end, when its quota is used up.
    """
    friend = layout(program).of("caller")[0].address(Family.IPV4)
    lies = _lies(str(friend))
    turn = 0
    for source in ("caller", "rogue", "world", "near", "caller"):
        for port in program.services["near"].ports:
            if source == "caller" and port.name == "other":
                continue  # declared to call, but not here: the plan promises nothing, and the program says `*`
            ways = possible(program, source, "near", port)
            if port.protocol is Protocol.TCP:
                for route in ways:
                    yield Asked(source, "near", port, Ask().spoken(Protocol.TCP), route)
                continue
            grpc = port.protocol is Protocol.GRPC
            for lie, number in product(lies, range(1 if grpc else paths)):
                turn += 1
                path = GRPC_PATH if grpc else PATHS[(turn + number) % len(PATHS)]
                route = replace(ways[turn % len(ways)], authority=AUTHORITIES[turn // 3 % len(AUTHORITIES)])
                ask = Ask(lie, "POST" if grpc else "GET", path)
                yield Asked(source, "near", port, ask, route)
                if not grpc and not route.version and not path.startswith("//"):
                    yield Asked(source, "near", port, ask, replace(route, absolute=True))
