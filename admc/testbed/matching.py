"""Requests that one policy selects and, if possible, no other policy.

The effect of a policy shows only on a request that its `when` selects, and clearly only if no other policy changes the
same request.
"""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING

from admc.testbed.client import Request
from dsl.checks.never import placeholder
from dsl.checks.possible import answer
from dsl.match import Operator, comparisons
from dsl.program import Protocol
from dsl.selecting import holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.program import Call, Policy, Port, Program

MAX_CANDIDATES = 5000
OTHER = "other"
GRPC_PATH = "/echo.Echo/Call"
"""The method that a client calls if no policy compares the path."""


def candidates(policies: Iterable[Policy], destination: str, port: Port) -> Iterator[Request]:
    """Yield requests that differ in the fields that the policies compare, the plainest request first.

    No request contains the text of a placeholder (`/admin/*`), because no client sends such a text.
    """
    protocol = port.protocol
    grpc = protocol is Protocol.GRPC
    paths = [GRPC_PATH if grpc else "/"]
    methods = ["POST"] if grpc else ["GET", "POST"]
    headers: dict[str, list[str | None]] = {}
    for policy in policies:
        compared = tuple(comparisons(policy.match))
        for comparison in compared:
            name = comparison.field.carrier
            if name is not None:
                headers.setdefault(name, [f"{destination}:{port.number}"] if name == "host" else [None, OTHER])
            if comparison.operator is Operator.MATCHES or placeholder(comparison) is not None:
                continue
            if comparison.field.name == "path":
                paths += [comparison.value, f"{comparison.value}-more"]
            elif comparison.field.name == "method" and not grpc:
                methods.append(comparison.value)
            elif name is not None:
                headers[name].append(comparison.value)
        if policy.match is not None and not any(map(placeholder, compared)):
            for example in answer(policy.match, protocol).examples:
                paths += [example.path] if example.path else []
                methods.append(example.method)
                for name, value in example.headers:
                    headers.setdefault(name, [None]).append(value)
    names = sorted(headers)
    choices: list[Sequence[str | None]] = [list(dict.fromkeys(headers[name])) for name in names]
    for chosen in islice(product(*choices, list(dict.fromkeys(methods)), list(dict.fromkeys(paths))), MAX_CANDIDATES):
        *values, method, path = chosen
        pairs = tuple((name, value) for name, value in zip(names, values, strict=True) if value is not None)
        yield Request(str(method), str(path), pairs)


def policies_on(program: Program, call: Call) -> tuple[Policy, ...]:
    """Return the policies whose scope contains a declared call, in declared order."""
    index = program.calls.index(call)
    return tuple(policy for policy in program.policies if index in policy.calls)


def meeting(program: Program, call: Call, wanted: Policy | None) -> Request | None:
    """Return a request on a call that `wanted` selects, and as few other policies as possible; None if there is none.

    Without `wanted`, return a request that as few policies as possible select.
    """
    policies = policies_on(program, call)
    best: tuple[int, Request] | None = None
    for request in candidates(policies, call.destination, call.port):
        if wanted is not None and not holds(wanted.match, request):
            continue
        others = sum(_weight(policy) for policy in policies if policy is not wanted and holds(policy.match, request))
        if best is None or others < best[0]:
            best = (others, request)
    return best[1] if best else None


def missing(program: Program, call: Call, avoided: Policy) -> Request | None:
    """Return a request on a call that `avoided` does not select, and as few other policies as possible, or None."""
    policies = policies_on(program, call)
    unselected = [
        candidate
        for candidate in candidates(policies, call.destination, call.port)
        if not holds(avoided.match, candidate)
    ]
    return min(
        unselected, key=lambda candidate: sum(_weight(p) for p in policies if holds(p.match, candidate)), default=None
    )


def _weight(policy: Policy) -> int:
    """How much a policy disturbs the probe of another one. A rejection weighs most: it hides all policies behind it."""
    if policy.effects is None:
        return 10
    disturbing = {"rejects": 10, "delays": 5, "routes": 5, "repeats": 2, "times_out": 2}
    return 1 + sum(disturbing.get(effect.verb.value, 0) for effect in policy.effects)
