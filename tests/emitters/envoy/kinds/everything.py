"""A program with every kind of the prelude, on every side and protocol that it allows.

Each has a port of its own, so that one Envoy takes all of them at once.
"""

from __future__ import annotations

from dsl.program import Protocol, Side
from tests.emitters.envoy.support import load
from tests.emitters.envoy.wasm import module
from tests.fidelity.tokens import keys

FILES = {"keys.json": keys(), "filter.lua": b"function envoy_on_request(handle) end\n", "filter.wasm": module()}

ARGUMENTS = {
    "rate_limit": ["requests: 10, per: 1s", "requests: 1, per: 1ms, burst: 7"],
    "connection_rate_limit": ["connections: 10, per: 1s"],
    "circuit_breaking": ["max_connections: 10, max_pending: 4, max_requests: 1", "max_connections: 1"],
    "buffer_limit": ["max: 4KB"],
    "allow": ["callers: [caller, office]", "callers: [internet]"],
    "deny": [""],
    "normal_paths": [""],
    "jwt": ['issuer: "https://issuer", jwks: "keys.json", audiences: ["x"]'],
    "external_authorization": ["service: judge", "service: asker, fail_open: true, timeout: 1s"],
    "retry": [
        "attempts: 1",
        "attempts: 3, on: [unavailable, connect_failure, reset, refused_stream, gateway_error, server_error, cancelled,"
        " deadline_exceeded, internal, resource_exhausted], backoff: 1ms",
    ],
    "timeout": ["after: 250ms"],
    "outlier_detection": ["", "consecutive_errors: 1, interval: 1s, ejection: 900s, max_ejected: 50%"],
    "load_balancing": ["policy: round_robin", "policy: least_request", "policy: random"],
    "mirror": ["to: SHADOW, percent: 0.5%"],
    "split": ["to: SHADOW, percent: 33.3%"],
    "set_request_header": ['name: "x-a", value: "100% \\"quoted\\""', 'name: "x-envoy-max-retries", value: "3"'],
    "add_request_header": ['name: "x-a", value: "1"'],
    "remove_request_header": ['name: "x-a"'],
    "set_response_header": ['name: "x-a", value: "%REQ(x)%"'],
    "add_response_header": ['name: "x-a", value: ""'],
    "remove_response_header": ['name: "x-a"'],
    "rewrite_path": ['prefix: "/a", to: "/b"'],
    "cors": ['origins: ["https://a.example", "*"], headers: ["x-a"], expose: ["x-b"], credentials: true'],
    "compression": ["algorithm: gzip", "algorithm: brotli", "algorithm: zstd, min_size: 1KB"],
    "fault_delay": ["delay: 10ms, percent: 12.5%"],
    "fault_abort": ["status: 503"],
    "access_log": ["", "format: text"],
    "request_count": [""],
    "tap": ['directory: "/tmp/captures"'],
    "lua": ['script: "filter.lua"'],
    "wasm": ['module: "filter.wasm", configuration: "{}"'],
}
ONLY = {  # what one protocol alone can say
    ("load_balancing", Protocol.HTTP): ['policy: ring_hash, hash: "x-user"'],
    ("load_balancing", Protocol.GRPC): ['policy: maglev, hash: "x-user"'],
}
MATCHES = [
    "",
    'when path == "/a"',
    'when path matches "/[0-9]+" and not (method == "GET" or header("x-tier") != "gold")',
    'when path starts_with "/a" and header("x-envoy-max-retries") matches "[0-9]"',
    f'when header("x-long") == "{"long" * 200}" and path matches "/(a|bc|d){{6}}"',
    'when header("x-long") matches "(a|[^bc]|d,){6}" and not header("x-long") starts_with "other"',
]
ON_GRPC = {'"/a"': '"/a/b"', '[0-9]+"': '[0-9]+/b"', '{6}"': '{6}/b"', 'method == "GET"': 'path == "/7/c"'}
"""What a match compares of a request that can be one of gRPC."""
EVERYONE = """
external internet
external office { cidr "203.0.113.0/24" }
external outside { cidr "0.0.0.0/0" }
service caller, other { http 80 }
service judge { grpc 7000 }
service asker { http 7001 }
"""


def everything(side: Side) -> str:
    """A program with one port for each (kind, protocol, arguments) that a side allows."""
    prelude = load("service a { http 1 }")[0].kinds
    assert set(prelude) == set(ARGUMENTS), "a kind has no arguments to be tried with"
    ports: list[str] = []
    policies: list[str] = []
    for name, kind in prelude.items():
        if side not in kind.sides:
            continue
        for protocol in sorted(kind.protocols):
            for written in [*ARGUMENTS[name], *ONLY.get((name, protocol), [])]:
                index = len(ports)
                port = f"p{index}"
                arguments = written.replace("SHADOW", f"shadow_{protocol}")
                ports.append(f"{protocol} {port} {9000 + index} -> {20000 + index}")
                match = "" if protocol is Protocol.TCP else MATCHES[index % len(MATCHES)]
                for old, new in ON_GRPC.items() if protocol is Protocol.GRPC else ():
                    match = match.replace(old, new)
                source = "caller" if side is Side.EGRESS else ["*", "caller", "* except internet", "office"][index % 4]
                if "[internet]" in arguments:
                    source = "*"
                policies.append(
                    f"@{side}\npolicy {name}_{index} = {name}({arguments}) on {source} -> target:{port} {match}"
                )
    port_lines = "\n".join(f"  {port}" for port in ports)
    calls = "\n".join(
        f"call caller -> target:p{index}\ncall other -> target:p{index}\ncall office -> target:p{index}"
        if side is Side.INGRESS
        else f"call caller -> target:p{index}"
        for index in range(len(ports))
    )
    shadow = "service shadow_http { http 80 }\nservice shadow_grpc { grpc 81 }\ncall caller -> shadow_http, shadow_grpc"
    return "\n".join([EVERYONE, shadow, f"service target {{\n{port_lines}\n}}", calls, *policies])
