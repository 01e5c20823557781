"""Random programs as data: parties, calls and policies that edits change and that become text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.fidelity.samples import CORS, FILES, JWT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

SERVICES: Final = ("a", "b", "c", "d", "e")
HELPERS: Final = ("s", "judge")
"""Targets of `mirror` and `split`, and what authorization policies ask."""
CIDRS: Final = ("10.9.0.0/16", "10.9.1.0/24", "10.0.0.0/8", "10.9.0.0/17", "2001:db8::/32")
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
    "fault_abort": ("status: 503", "status: 503, percent: 50%", "status: 200"),
    "fault_delay": ("delay: 450ms", "delay: 150ms"),
    "buffer_limit": ("max: 50B", "max: 200B"),
    "cors": (CORS,),
    "circuit_breaking": ("max_requests: 2", "max_requests: 4"),
    "mine": ('value: "1"', 'value: "2"'),
    "asks": ("helper: judge",),
    "odd": ("",),
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
OWN: Final = """
@ingress @egress
@effect({effect})
kind mine(value: string) for http, grpc template "mine.yaml"
@ingress @egress
@guard
@effect(reads(header), reads(path), reads(method), delays, rejects)
kind asks(helper: service) for http, grpc template "asks.yaml"
@ingress @egress
kind odd() for http, grpc template "odd.yaml"
"""
OWN_EFFECT: Final = "writes(header)"
ASKS: Final = (
    b'"@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz\nstat_prefix: ${helper}\n'
)
ODD: Final = b'"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua\n'
"""Of a kind without known effects. The judge makes the worst of it."""


class Port(NamedTuple):
    number: int
    protocol: str = "http"
    name: str = ""
    target: int = 0

    def text(self) -> str:
        target = f" -> {self.target}" if self.target else ""
        return " ".join(filter(None, (self.protocol, self.name, str(self.number)))) + target


class Service(NamedTuple):
    ports: tuple[Port, ...] = (Port(8080, name="own"),)
    app: str | None = ""
    """The value of the label `app`; empty: the name at first. None: the program gives no labels."""
    tier: str = ""
    namespace: str = ""
    replicas: int = 1
    marks: tuple[str, ...] = ()

    def labelled(self, name: str) -> Service:
        """With its labels written out, so that another name selects the same pods."""
        return self._replace(app=name, tier="") if self.app is None else self._replace(app=self.app or name)

    def text(self, name: str) -> str:
        parts = [*(port.text() for port in self.ports), f"replicas {self.replicas}"]
        if self.app is not None:
            tier = f'  tier = "{self.tier}"' if self.tier else ""
            parts.append(f'labels {{ app = "{self.app or name}"{tier} }}')
        if self.namespace:
            parts.append(f"namespace {self.namespace}")
        return f"service {name} {{ {'  '.join((*parts, *self.marks))} }}"


class External(NamedTuple):
    cidrs: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()

    def text(self, name: str) -> str:
        parts = [port.text() for port in self.ports]
        parts += [f'host "{host}"' for host in self.hosts] + [f'cidr "{cidr}"' for cidr in self.cidrs]
        return f"external {name} {{ {'  '.join(parts)} }}" if parts else f"external {name}"


Party = Service | External


class Policy(NamedTuple):
    name: str
    kind: str
    arguments: str
    sources: str
    destinations: str
    when: str = ""
    side: str = ""
    accepts_drop: bool = False
    pin: str = ""

    def text(self) -> str:
        when = f" when {self.when}" if self.when else ""
        drop = " accept drop" if self.accepts_drop else ""
        line = (
            f"policy {self.name} = {self.kind}({self.arguments}) on {self.sources} -> {self.destinations}{when}{drop}"
        )
        before = f"@{self.side}\n" if self.side else ""
        after = f"\npin {self.name} at {self.pin}" if self.pin else ""
        return before + line + after


@dataclass(frozen=True)
class Spec:
    """A program that edits are made to."""

    parties: Mapping[str, Party]
    calls: tuple[tuple[str, str], ...]
    policies: tuple[Policy, ...]
    own: str = OWN_EFFECT
    """The effects that the kind `mine` declares."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Files that differ from those of every program."""
    enforced: bool = False
    """It says `network_policies enforced`."""
    accepts_host_network: bool = False

    @property
    def services(self) -> list[str]:
        return [name for name, party in self.parties.items() if isinstance(party, Service)]

    @property
    def externals(self) -> list[str]:
        return [name for name, party in self.parties.items() if isinstance(party, External)]

    def service(self, name: str) -> Service:
        party = self.parties[name]
        assert isinstance(party, Service)
        return party

    def text(self) -> str:
        lines = ["app shop", *(party.text(name) for name, party in self.parties.items())]
        lines += [f"call {source} -> {destination}" for source, destination in dict.fromkeys(self.calls)]
        lines += ["network_policies enforced"] if self.enforced else []
        lines += ["accept host_network"] if self.accepts_host_network else []
        kinds = OWN.format(effect=self.own)
        return "\n".join([*lines, kinds, *(policy.text() for policy in self.policies), ""])

    def files(self) -> Mapping[str, bytes]:
        return {**FILES, "asks.yaml": ASKS, "odd.yaml": ODD, **self.contents}

    # ---- changes that several edits make ----

    def with_party(self, name: str, party: Party) -> Spec:
        return replace(self, parties={**self.parties, name: party})

    def with_policy(self, at: int, *policies: Policy) -> Spec:
        return replace(self, policies=(*self.policies[:at], *policies, *self.policies[at:]))

    def with_calls(self, *calls: tuple[str, str]) -> Spec:
        return replace(self, calls=tuple(dict.fromkeys((*self.calls, *calls))))

    def without_party(self, name: str) -> Spec:
        """Without its calls, and with no policy that names it alone."""
        parties = {each: party for each, party in self.parties.items() if each != name}
        calls = tuple(call for call in self.calls if name not in (call[0], call[1].partition(":")[0]))
        return replace(self, parties=parties, calls=calls)

    def renamed(self, old: str, new: str, *, policies: bool = True) -> Spec:
        """With another name for a party, wherever it stands; `policies`: also in policies."""
        parties = {new if name == old else name: party for name, party in self.parties.items()}
        calls = tuple((_renamed(source, old, new), _renamed(to, old, new)) for source, to in self.calls)
        changed = tuple(
            each._replace(
                arguments=_renamed(each.arguments, old, new),
                sources=_renamed(each.sources, old, new),
                destinations=_renamed(each.destinations, old, new),
            )
            for each in self.policies
        )
        return replace(self, parties=parties, calls=calls, policies=changed if policies else self.policies)

    def unused(self, start: str) -> str:
        return next(name for name in (start, *(f"{start}{n}" for n in range(2, 99))) if name not in self.parties)


def _renamed(text: str, old: str, new: str) -> str:
    """Not in strings, and not as the name of a parameter."""
    return re.sub(rf'"[^"]*"|\b{old}\b(?!:\s)', lambda found: new if found[0] == old else found[0], text)


def mentions(policy: Policy, name: str) -> bool:
    """Whether a policy names a party."""
    return any(_renamed(text, name, "-") != text for text in (policy.arguments, policy.sources, policy.destinations))


# ---- programs ----


def program(random: Random) -> Spec:
    parties: dict[str, Party] = {
        "internet": External(),
        "office": External((CIDRS[0],)),
        "stripe": External(hosts=("api.stripe.com",), ports=(Port(8080),)),
        **{name: Service((Port(8001),), None) for name in HELPERS},
        **{name: _drawn(random, name) for name in SERVICES},
    }
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
            ("a", "stripe"),
        )
        if random.random() < 0.5
    ]
    calls += [(source, "s") for source in SERVICES]
    spec = Spec(parties, tuple(calls), ())
    count = random.randint(1, 4)
    for index in range(count):
        spec = spec.with_policy(index, policy(random, f"p{index}", spec.policies))
    return spec


def _drawn(random: Random, name: str) -> Service:
    marks = random.choice(((),) * 6 + (("no adm",), ("untrusted",)))
    ports = (Port(8080, name="own"), *((Port(9090, name="admin"),) if name == "b" else ()))
    return Service(ports, app=random.choice(("", "", None)), tier=random.choice(("", "", "db")), marks=marks)


def policy(random: Random, name: str, others: Iterable[Policy]) -> Policy:
    taken = {each.kind for each in others} & EXCLUSIVE
    if taken & {"split", "mirror"}:
        taken |= {"split", "mirror"}
    # A class of edits draws `odd`: it commutes with nothing, and would hide what other classes do.
    kind = random.choice([kind for kind in KINDS if kind not in {*taken, "odd"}])
    when = random.choice(MATCHES) if random.random() < 0.5 and kind != "circuit_breaking" else ""
    return Policy(name, kind, random.choice(KINDS[kind]), sources(random), destinations(random), when)


def sources(random: Random) -> str:
    choices = ("*", "*", "*", "a", "c", "{a, c}", "{a, b, c}", "* except internet", "* except a", "* except {c, e}")
    return random.choice((*choices, "internet", "office", "{c, e}"))


def destinations(random: Random) -> str:
    return random.choice(("b", "b", "b", "d", "{b, d}", '[tier = "db"]', "b:own", "b:admin", "stripe", "*"))


def new_name(spec: Spec) -> str:
    """Of one more policy."""
    return f"p{1 + max((int(each.name[1:]) for each in spec.policies), default=-1)}"
