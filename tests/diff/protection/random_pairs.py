"""Random programs, and the same programs after a few edits: what a pull request may do to a file of policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.fidelity.samples import CORS, JWT

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

SERVICES: Final = ("a", "b", "c", "d", "e")
CLIENTS: Final = ("internet", "office")
PARTIES: Final = (*SERVICES, *CLIENTS)
DESTINATIONS: Final = ("b:own", "b:admin", "d", "e")
TWO_PORTS: Final = ("b",)
CIDRS: Final = ("10.9.0.0/16", "10.9.1.0/24", "10.0.0.0/8")
KINDS: Final = {
    "rate_limit": (
        *(f"requests: {n}, per: {per}" for n in (1, 2, 3) for per in ("1h", "60s")),
        "requests: 1, per: 1h, burst: 3",
    ),
    "allow": ("callers: [a]", "callers: [a, c]", "callers: []", "callers: [c, internet]", "callers: [office]"),
    "deny": ("",),
    "jwt": (JWT,),
    "external_authorization": ("service: judge", "service: judge, fail_open: true"),
    "retry": (
        "attempts: 2, backoff: 1ms",
        "attempts: 3, backoff: 1ms",
        "attempts: 2, backoff: 1ms, on: [gateway_error]",
    ),
    "timeout": ("after: 300ms", "after: 700ms"),
    "set_request_header": (
        'name: "x-in", value: "set"',
        'name: "x-in", value: "client"',
        'name: "x-out", value: "set"',
    ),
    "remove_request_header": ('name: "x-in"', 'name: "authorization"', 'name: "x-out"'),
    "rewrite_path": ('prefix: "/old", to: "/new"', 'prefix: "/new", to: "/old"', 'prefix: "/a", to: "/old"'),
    "split": ("to: e, percent: 100%", "to: s, percent: 100%", "to: s, percent: 50%"),
    "mirror": ("to: s",),
    "request_count": ("",),
    "access_log": ("", "format: text"),
    "fault_abort": ("status: 503", "status: 503, percent: 50%"),
    "fault_delay": ("delay: 450ms", "delay: 150ms"),
    "buffer_limit": ("max: 50B", "max: 200B"),
    "cors": (CORS,),
    "circuit_breaking": ("max_requests: 2", "max_requests: 4"),
}
EXCLUSIVE: Final = frozenset(("retry", "timeout", "split", "mirror", "buffer_limit", "cors", "circuit_breaking"))
MATCHES: Final = (
    'header("x-in") == "set"',
    'header("x-in") != "client"',
    'not header("x-in") == "set"',
    'path == "/new/a"',
    'path starts_with "/new"',
    'path starts_with "/old"',
    'path == "/old/a" or path == "/new/a"',
    'method == "POST"',
    'path starts_with "/old" and method == "POST"',
    'path matches "/(old|new)/.*"',
)


class Service(NamedTuple):
    replicas: int = 1
    tier: str = ""
    marks: tuple[str, ...] = ()


class Policy(NamedTuple):
    name: str
    kind: str
    arguments: str
    sources: str
    destinations: str
    when: str = ""
    side: str = ""

    def text(self) -> str:
        when = f" when {self.when}" if self.when else ""
        line = f"policy {self.name} = {self.kind}({self.arguments}) on {self.sources} -> {self.destinations}{when}"
        return f"@{self.side}\n{line}" if self.side else line


@dataclass(frozen=True)
class Spec:
    """A program that edits are made to."""

    services: tuple[tuple[str, Service], ...]
    cidr: str
    calls: tuple[tuple[str, str], ...]
    policies: tuple[Policy, ...]

    def text(self) -> str:
        lines = ["app shop", "external internet", f'external office {{ cidr "{self.cidr}" }}']
        lines += ["service s, judge { http 8001 }", *(_service(*each) for each in self.services)]
        lines += [f"call {source} -> {destination}" for source, destination in self.calls]
        lines += [f"call {source} -> s" for source in SERVICES]
        return "\n".join([*lines, *(policy.text() for policy in self.policies), ""])


def _service(name: str, service: Service) -> str:
    parts = ["http own 8080", *(["http admin 9090"] if name in TWO_PORTS else []), f"replicas {service.replicas}"]
    parts.append(f'labels {{ app = "{name}"{service.tier and f"  tier = {chr(34)}{service.tier}{chr(34)}"} }}')
    return f"service {name} {{ {'  '.join((*parts, *service.marks))} }}"


# ---- programs ----


def program(random: Random) -> Spec:
    services = tuple((name, _drawn(random)) for name in SERVICES)
    calls = [("a", "b:own"), ("c", "b:own"), ("b", "d")]
    calls += [
        call
        for call in (
            ("a", "d"),
            ("d", "e"),
            ("internet", "b:own"),
            ("office", "b:own"),
            ("e", "b:admin"),
            ("a", "b:admin"),
        )
        if random.random() < 0.5
    ]
    count = random.randint(1, 4)
    policies: list[Policy] = []
    while len(policies) < count:
        policies.append(policy(random, f"p{len(policies)}", policies))
    return Spec(services, CIDRS[0], tuple(calls), tuple(policies))


def _drawn(random: Random) -> Service:
    marks = random.choice(((),) * 6 + (("no adm",), ("untrusted",)))
    return Service(tier=random.choice(("", "", "db")), marks=marks)


def policy(random: Random, name: str, others: list[Policy] | tuple[Policy, ...]) -> Policy:
    taken = {each.kind for each in others} & EXCLUSIVE
    if taken & {"split", "mirror"}:
        taken |= {"split", "mirror"}
    kind = random.choice([kind for kind in KINDS if kind not in taken])
    when = random.choice(MATCHES) if random.random() < 0.5 and kind != "circuit_breaking" else ""
    return Policy(name, kind, random.choice(KINDS[kind]), _sources(random), _destinations(random), when)


def _sources(random: Random) -> str:
    choices = ("*", "*", "*", "a", "c", "{a, c}", "{a, b, c}", "* except internet", "* except a", "* except {c, e}")
    return random.choice((*choices, "internet", "office", "{c, e}"))


def _destinations(random: Random) -> str:
    return random.choice(("b", "b", "b", "d", "{b, d}", '[tier = "db"]', "b:own", "b:admin", "*"))


# ---- edits ----


def edited(random: Random, spec: Spec) -> Spec:
    """The program after one to three edits."""
    for _ in range(random.choice((1, 1, 2, 3))):
        spec = random.choice(EDITS)(random, spec)
    return spec


def _of_a_policy(change: Callable[[Random, Policy, Spec], Policy]) -> Callable[[Random, Spec], Spec]:
    def edit(random: Random, spec: Spec) -> Spec:
        if not spec.policies:
            return spec
        at = random.randrange(len(spec.policies))
        one = change(random, spec.policies[at], spec)
        return replace(spec, policies=(*spec.policies[:at], one, *spec.policies[at + 1 :]))

    return edit


def _drop_policy(random: Random, spec: Spec) -> Spec:
    if not spec.policies:
        return spec
    gone = random.choice(spec.policies)
    return replace(spec, policies=tuple(each for each in spec.policies if each is not gone))


def _add_policy(random: Random, spec: Spec) -> Spec:
    number = 1 + max((int(each.name[1:]) for each in spec.policies), default=-1)
    at = random.randint(0, len(spec.policies))
    new = policy(random, f"p{number}", spec.policies)
    return replace(spec, policies=(*spec.policies[:at], new, *spec.policies[at:]))


def _swap(random: Random, spec: Spec) -> Spec:
    if len(spec.policies) < 2:
        return spec
    order = list(spec.policies)
    one, other = random.sample(range(len(order)), 2)
    order[one], order[other] = order[other], order[one]
    return replace(spec, policies=tuple(order))


def _add_call(random: Random, spec: Spec) -> Spec:
    call = (random.choice(PARTIES), random.choice(DESTINATIONS))
    return (
        spec if call in spec.calls or call[0] == call[1].partition(":")[0] else replace(spec, calls=(*spec.calls, call))
    )


def _drop_call(random: Random, spec: Spec) -> Spec:
    gone = random.choice(spec.calls)
    return replace(spec, calls=tuple(call for call in spec.calls if call != gone or len(spec.calls) == 1))


def _change_service(random: Random, spec: Spec) -> Spec:
    at = random.randrange(len(SERVICES))
    name, old = spec.services[at]
    new = random.choice(
        (
            old._replace(replicas=old.replicas + 1),
            old._replace(tier="db" if not old.tier else ""),
            old._replace(marks=("no adm",)),
            old._replace(marks=("untrusted",)),
            old._replace(marks=()),
        )
    )
    return replace(spec, services=(*spec.services[:at], (name, new), *spec.services[at + 1 :]))


def _change_cidr(random: Random, spec: Spec) -> Spec:
    return replace(spec, cidr=random.choice(CIDRS))


def _new_kind(random: Random, old: Policy, spec: Spec) -> Policy:
    others = [each for each in spec.policies if each is not old]
    return policy(random, old.name, others)._replace(sources=old.sources, destinations=old.destinations)


EDITS: Final = (
    _drop_policy,
    *(_add_policy,) * 5,
    *(_swap,) * 3,
    *(_add_call,) * 3,
    _drop_call,
    _change_service,
    _change_cidr,
    *(_of_a_policy(lambda random, old, _: old._replace(arguments=random.choice(KINDS[old.kind]))),) * 3,
    *(_of_a_policy(lambda random, old, _: old._replace(when=random.choice(MATCHES))),) * 2,
    *(_of_a_policy(lambda _random, old, _: old._replace(when="")),) * 2,
    *(_of_a_policy(lambda random, old, _: old._replace(sources=_sources(random))),) * 2,
    *(_of_a_policy(lambda random, old, _: old._replace(destinations=_destinations(random))),) * 2,
    *(_of_a_policy(lambda random, old, _: old._replace(side=random.choice(("ingress", "egress", "")))),) * 2,
    _of_a_policy(lambda random, old, _: old._replace(name=f"p{random.randint(10, 99)}")),
    _of_a_policy(_new_kind),
)
