"""Chooses the policies that are measured.

    Program -> [of_program] -> Uses            one Use for each kind, with its scripts and choices
    prelude -> [of_prelude] -> Use after Use   one for each component, or for each kind where its kinds differ

Requests have to pass, or there would be nothing to measure. So the numbers of a limit are raised, a fault hits one
request in a million, callers and services are those of the measurement, and tokens are signed by a key of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from admc.cost.measurement.samples import ISSUER, ORIGIN, TAPPED, files, key_set, token
from admc.cost.profile_import.runs import OWN, Arm
from admc.cost.profiles.vocabulary import known_components, written
from dsl.program import Effect, FileArgument, Kind, Parameter, Policy, Program, Protocol, Side, Value

CALLER: Final = "caller"
TARGET: Final = "target"
SHADOWS: Final[Mapping[Protocol, str]] = {Protocol.HTTP: "shadow_http", Protocol.GRPC: "shadow_grpc"}
"""The services that receive copies of requests, and checks of requests, by protocol."""
_MANY: Final = 1_000_000_000
_RARELY: Final = 0.0001
_HARMLESS: Final[Mapping[str, Mapping[str, Value]]] = {
    "rate_limit": {"requests": _MANY, "per": 1_000_000, "burst": _MANY},
    "connection_rate_limit": {"connections": _MANY, "per": 1_000_000, "burst": _MANY},
    "circuit_breaking": {"max_connections": _MANY, "max_pending": _MANY, "max_requests": _MANY},
    "buffer_limit": {"max": 1 << 20},
    "jwt": {"issuer": ISSUER, "audiences": ()},
    "external_authorization": {"timeout": 10_000_000},
    "timeout": {"after": 10_000_000},
    "rewrite_path": {"prefix": "/measure", "to": "/measured"},
    "cors": {"origins": (ORIGIN,)},
    "fault_delay": {"delay": 1_000, "percent": _RARELY},
    "fault_abort": {"percent": _RARELY},
    "tap": {"directory": TAPPED},
}
"""Arguments with which requests pass, by kind."""
_REFUSING: Final = frozenset({"deny"})
_ENCODINGS: Final = {"gzip": "gzip", "brotli": "br", "zstd": "zstd"}
_SCRIPTS: Final = frozenset({"lua", "wasm"})


@dataclass(frozen=True)
class Use:
    """One policy as it is measured. `key` names the policies for which its figures hold."""

    kind: Kind
    arguments: Mapping[str, Value]
    effects: tuple[Effect, ...] | None
    protocol: Protocol
    side: Side
    key: Arm
    floor: bool = False
    """Whether it is a script that does nothing: a script of the user costs more."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that a request needs for the policy to do its work; tcp has no headers."""
        if not self.kind.prelude:
            return {}
        if self.kind.name == "compression":
            return {"accept-encoding": _ENCODINGS[str(self.arguments["algorithm"])]}
        if self.kind.name == "jwt":
            return {"authorization": f"Bearer {token()}"}
        return {"origin": ORIGIN} if self.kind.name == "cors" else {}


class Uses(NamedTuple):
    measurable: tuple[Use, ...]
    left_out: tuple[str, ...]
    """Notes about policies that cannot be measured, with the reason."""


_DEFAULTS: Final = """
app defaults
service caller { http 80 }
service shadow_http { http 80 }
service shadow_grpc { grpc 80 }
call caller -> shadow_http, shadow_grpc
"""
_PRELUDE: Final = (
    ("rate_limit", "requests: 1, per: 1s", False),
    ("connection_rate_limit", "connections: 1, per: 1s", False),
    ("circuit_breaking", "max_requests: 1", False),
    ("buffer_limit", "max: 1MB", False),
    ("allow", "callers: [caller]", False),
    ("jwt", 'issuer: "x", jwks: "keys.json"', False),
    ("external_authorization", "service: shadow_grpc", False),
    ("retry", "attempts: 2", True),
    ("timeout", "after: 10s", True),
    ("mirror", "to: shadow_PROTOCOL", True),
    ("split", "to: shadow_PROTOCOL, percent: 50%", True),
    ("outlier_detection", "", False),
    ("load_balancing", "policy: round_robin", False),
    ("set_request_header", 'name: "x-measured", value: "yes"', False),
    ("rewrite_path", 'prefix: "/a", to: "/b"', False),
    ("cors", 'origins: ["https://a.example"]', False),
    ("compression", "algorithm: gzip", False),
    ("compression", "algorithm: brotli", False),
    ("compression", "algorithm: zstd", False),
    ("fault_delay", "delay: 1ms", False),
    ("access_log", "", False),
    ("request_count", "", False),
    ("tap", 'directory: "/x"', False),
    ("lua", 'script: "nothing.lua"', False),
    ("wasm", 'module: "nothing.wasm"', False),
)
"""Kind, arguments, and whether the figures are for this kind alone and not for all of its component."""


def cheapest() -> Use:
    """A policy that costs a request nearly nothing: with it, the memory of one more policy is measured."""
    return next(use for use in of_prelude() if use.kind.name == "set_request_header")


def of_prelude() -> tuple[Use, ...]:
    """Every component of the built-in kinds, for each protocol that it works with."""
    import dsl

    text = _DEFAULTS
    for index, (kind, arguments, _) in enumerate(_PRELUDE):
        for protocol in _protocols(kind):
            name = f"{protocol}_{index}"
            written_ = arguments.replace("PROTOCOL", protocol)
            text += f"service {name} {{ {protocol} 80 }}\ncall caller -> {name}\n"
            text += f"policy on_{name} = {kind}({written_}) on caller -> {name}\n"
    known = files()
    program = dsl.load_text(text, read=lambda path: known[path])
    uses = []
    for index, (kind, _, alone) in enumerate(_PRELUDE):
        for protocol in _protocols(kind):
            policy = program.policy_by_name[f"on_{protocol}_{index}"]
            key = _key(policy, alone=alone, choices=kind == "compression")
            uses.append(replace(_use(policy, protocol, key), floor=kind in _SCRIPTS))
    return tuple(uses)


def _protocols(kind: str) -> list[Protocol]:
    from dsl.kinds import prelude

    return [protocol for protocol in Protocol if protocol in prelude.kinds()[kind].kind.protocols]


def of_program(program: Program) -> Uses:
    """The policies of a program, once for each kind, side, script, choice, and protocol of declared calls."""
    uses: dict[tuple[Protocol, Arm], Use] = {}
    left_out: dict[str, None] = {}
    for policy in program.policies:
        if (reason := _unmeasured(policy)) is not None:
            left_out[f"`{policy.name}` is not measured: {reason}"] = None
            continue
        key = _key(policy, alone=True, choices=True)
        for protocol in sorted(
            {program.calls[index].port.protocol for index in policy.calls}, key=list(Protocol).index
        ):
            uses.setdefault((protocol, key), _use(policy, protocol, key))
    return Uses(tuple(uses.values()), tuple(left_out))


def _unmeasured(policy: Policy) -> str | None:
    if policy.kind.component is None:
        return f"the kind `{policy.kind.name}` has no `@component`, by which a profile names its figures"
    if policy.kind.prelude and policy.kind.name in _REFUSING:
        return "it refuses every request"
    if policy.kind.both:
        return "it needs a sidecar at both ends"
    return None


def _key(policy: Policy, *, alone: bool, choices: bool) -> Arm:
    component = policy.kind.component or ""
    if component not in known_components():
        return Arm(f"{OWN}{component}", _only_side(policy), None, _choices(policy))
    return Arm(
        component,
        _only_side(policy),
        policy.kind.name if alone else None,
        _choices(policy) if choices else (),
    )


def _only_side(policy: Policy) -> Side | None:
    """The only side of a policy; None if it may be at ingress: it is measured there, and its figures hold for both."""
    return None if Side.INGRESS in policy.sides else Side.EGRESS


def _choices(policy: Policy) -> tuple[tuple[str, str], ...]:
    """The arguments that decide which code runs: scripts and words. Numbers are not among them."""
    if policy.kind.name == "jwt" and policy.kind.prelude:
        return ()  # it is measured with another key
    return tuple(
        sorted(
            (parameter.name, written(policy.arguments[parameter.name]))
            for parameter in policy.kind.parameters
            if parameter.type.name in ("file", "one_of") and policy.arguments[parameter.name] is not None
        )
    )


def _use(policy: Policy, protocol: Protocol, key: Arm) -> Use:
    harmless = dict(_HARMLESS.get(policy.kind.name, {})) if policy.kind.prelude else {}
    if policy.kind.prelude and policy.kind.name == "jwt":
        harmless["jwks"] = FileArgument("keys.json", key_set())
    arguments = {parameter.name: _argument(policy, parameter, protocol) for parameter in policy.kind.parameters}
    side = Side.INGRESS if Side.INGRESS in policy.sides else Side.EGRESS
    return Use(policy.kind, {**arguments, **harmless}, policy.effects, protocol, side, key)


def _argument(policy: Policy, parameter: Parameter, protocol: Protocol) -> Value:
    """The value of an argument, with callers and services of the measurement instead of those of the program."""
    value = policy.arguments[parameter.name]
    if parameter.type.name == "service" and value is not None:
        return SHADOWS[Protocol.GRPC if policy.kind.traits.grpc_method else protocol]
    if parameter.type.element is not None and parameter.type.element.name == "caller":
        return (CALLER,)
    return value


def merged(headers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The headers of all policies of a hop; encodings are listed together."""
    joined: dict[str, str] = {}
    for policy_headers in headers:
        for name, value in policy_headers.items():
            joined[name] = f"{joined[name]}, {value}" if name == "accept-encoding" and name in joined else value
    return joined
