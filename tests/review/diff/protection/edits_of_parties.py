"""Edits of services and externals: what they are called, where they are, and which pods or addresses are theirs."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from tests.review.diff.protection.edit import Edit
from tests.review.diff.protection.specs import (
    CIDRS,
    SERVICES,
    External,
    Port,
    Service,
    Spec,
    mentions,
    new_name,
    policy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.review.diff.protection.edit import Change
EVERYTHING: Final = (("0.0.0.0/1", "128.0.0.0/1"), ("0.0.0.0/0",), ("::/1", "8000::/1"), ("0.0.0.0/1", "128.0.0.0/2"))


def _keeping(spec: Spec, changed: Spec) -> Spec:
    """Without policies that name what is gone."""
    gone = spec.parties.keys() - changed.parties.keys()
    kept = tuple(each for each in changed.policies if not any(mentions(each, name) for name in gone))
    return replace(changed, policies=kept)


def _service_to_external(random: Random, spec: Spec) -> Spec:
    name = random.choice(SERVICES)
    if name not in spec.services:
        return spec
    calls = tuple(call for call in spec.calls if call[0] != name or call[1].partition(":")[0] in spec.services)
    spec = replace(spec, calls=tuple(call for call in calls if call[0] not in spec.externals or call[1] != name))
    cidrs = random.choice(((), (random.choice(CIDRS),), ("10.0.0.0/8",)))
    called = any(call[1].partition(":")[0] == name for call in spec.calls)
    return spec.with_party(name, External(cidrs, (f"{name}.example",) if called else (), _ports(spec, name, called)))


def _ports(spec: Spec, name: str, called: bool) -> tuple[Port, ...]:
    return spec.service(name).ports if called else ()


def _external_to_service(random: Random, spec: Spec) -> Spec:
    name = random.choice([each for each in spec.externals if each != "internet"] or ["internet"])
    old = spec.parties[name]
    return spec.with_party(name, Service(old.ports or (Port(8080),), random.choice(("", None))))


def _with_calls_of_externals(random: Random, spec: Spec) -> Spec:
    spec = spec.with_calls(("office", "b:own"), ("a", "stripe"))
    at = random.randint(0, len(spec.policies))
    new = policy(random, new_name(spec), spec.policies)
    if new.kind in ("circuit_breaking", "load_balancing", "retry", "timeout", "split", "mirror"):
        return spec
    scope = random.choice(
        (("office", "b"), ("* except office", "b"), ("{office, a}", "b"), ("a", "stripe"), ("*", "b"))
    )
    return spec.with_policy(at, new._replace(sources=scope[0], destinations=scope[1]))


def _external_renamed(random: Random, spec: Spec) -> Spec:
    old = random.choice(spec.externals)
    new = spec.unused(f"{old}_new")
    if random.random() < 0.5:
        return spec.renamed(old, new)
    return _keeping(spec, spec.renamed(old, new, policies=False))


def _halves(cidr: str) -> tuple[str, str]:
    one, two = ip_network(cidr, strict=False).subnets()
    return str(one), str(two)


def _external_split(random: Random, spec: Spec) -> Spec:
    """One external becomes two, and policies name one of them, or both."""
    names = [
        each
        for each in spec.externals
        if (party := spec.parties[each]) and isinstance(party, External) and (party.cidrs or len(party.hosts) > 1)
    ]
    if not names:
        return spec
    name = random.choice(names)
    old = spec.parties[name]
    assert isinstance(old, External)
    other = spec.unused(f"{name}_half")
    if len(old.hosts) > 1:
        parts = old._replace(hosts=old.hosts[:1]), old._replace(hosts=old.hosts[1:])
    elif len(old.cidrs) > 1:
        parts = old._replace(cidrs=old.cidrs[:1]), old._replace(cidrs=old.cidrs[1:])
    else:
        first, second = _halves(old.cidrs[0])
        parts = old._replace(cidrs=(first,)), old._replace(cidrs=(second,))
    calls = [(_or(source, name, other), _or(to, name, other)) for source, to in spec.calls]
    both = spec.with_party(name, parts[0]).with_party(other, parts[1]).with_calls(*calls)
    if random.random() < 0.5:
        changed = tuple(
            each._replace(sources=f"{{{name}, {other}}}") if each.sources == name else each for each in both.policies
        )
        return replace(both, policies=changed)
    return both


def _or(text: str, name: str, other: str) -> str:
    return other if text == name else text


def _externals_merged(random: Random, spec: Spec) -> Spec:
    """Two externals that `prepare` gave BASE become one."""
    for each in spec.externals:
        half = f"{each}_half"
        if half in spec.parties:
            one, two = spec.parties[each], spec.parties[half]
            if not (isinstance(one, External) and isinstance(two, External)):
                return spec
            hosts, cidrs = tuple(dict.fromkeys(one.hosts + two.hosts)), tuple(dict.fromkeys(one.cidrs + two.cidrs))
            merged = spec.with_party(each, External(cidrs, hosts, one.ports))
            return random.choice(
                (
                    merged.without_party(half) if not any(mentions(p, half) for p in spec.policies) else spec,
                    _keeping(spec, merged.without_party(half)),
                )
            )
    return spec


def _with_split(random: Random, spec: Spec) -> Spec:
    spec = _with_calls_of_externals(random, spec)
    if random.random() < 0.3:
        stripe = spec.parties["stripe"]
        assert isinstance(stripe, External)
        spec = spec.with_party("stripe", stripe._replace(hosts=("api.stripe.com", "eu.stripe.com")))
    return _external_split(random, spec)


def _with_hosts(random: Random, spec: Spec) -> Spec:
    spec = _with_calls_of_externals(random, spec)
    stripe = spec.parties["stripe"]
    assert isinstance(stripe, External)
    return spec.with_party("stripe", stripe._replace(hosts=("api.stripe.com", "eu.stripe.com")))


def _ranges(random: Random, spec: Spec) -> Spec:
    """Other addresses, the same ones written in parts, or all."""
    name = random.choice([each for each in spec.externals if each != "stripe"] or ["stripe"])
    old = spec.parties[name]
    if not isinstance(old, External):
        return spec
    halves = tuple(half for cidr in old.cidrs for half in _halves(cidr)) or (CIDRS[0],)
    cidrs = random.choice((halves, halves, random.choice(EVERYTHING), (random.choice(CIDRS),), halves[:1], ()))
    return spec.with_party(name, old._replace(cidrs=cidrs))


def _external_comes(random: Random, spec: Spec) -> Spec:
    """A client with addresses that others may have, or another name for a host."""
    name = spec.unused("guest")
    if random.random() < 0.3:
        host = External(hosts=("api.stripe.com",), ports=(Port(8080),))
        return spec.with_party(name, host).with_calls(("a", name))
    ranges = random.choice((*((cidr,) for cidr in CIDRS), *EVERYTHING, ()))
    return spec.with_party(name, External(ranges)).with_calls(*([(name, "b:own")] if random.random() < 0.5 else []))


def _external_goes(random: Random, spec: Spec) -> Spec:
    name = random.choice(spec.externals)
    return _keeping(spec, spec.without_party(name))


def _service_renamed(random: Random, spec: Spec) -> Spec:
    """Its pods stay by their label, or go with the name."""
    old = random.choice([each for each in SERVICES if each in spec.services] or ["s"])
    party, new = spec.service(old), spec.unused(f"{old}_new")
    moved = random.random() < 0.5
    changed = spec.renamed(old, new, policies=moved)
    changed = changed.with_party(new, party.labelled(old) if random.random() < 0.7 else party)
    return changed if moved else _keeping(spec, changed)


def _service_split(random: Random, spec: Spec) -> Spec:
    """Two services with the pods of one, and its calls at either."""
    name = random.choice([each for each in SERVICES if each in spec.services])
    party, other = spec.service(name), spec.unused(f"{name}_two")
    party = party.labelled(name)
    spec = spec.with_party(name, party).with_party(other, party)
    calls = tuple(
        (_or(source, name, other), other + to[len(name) :] if to.partition(":")[0] == name else to)
        if random.random() < 0.6
        else (source, to)
        for source, to in spec.calls
    )
    return replace(spec, calls=calls)


def _same_pods(random: Random, spec: Spec) -> Spec:
    """A service gets the labels of another one, or of none."""
    one, other = random.sample([each for each in SERVICES if each in spec.services], 2)
    found = spec.service(other).labelled(other)
    taken = spec.service(one)._replace(app=found.app, tier=random.choice(("", found.tier)))
    return spec.with_party(one, taken)


def _labels(random: Random, spec: Spec) -> Spec:
    name = random.choice(spec.services)
    old = spec.service(name)
    app = random.choice((None, "", name, f"{name}x"))
    return spec.with_party(name, old._replace(app=app, tier=random.choice((old.tier, "" if old.tier else "db"))))


def _namespace(random: Random, spec: Spec) -> Spec:
    name = random.choice(spec.services)
    return spec.with_party(name, spec.service(name)._replace(namespace="" if spec.service(name).namespace else "web"))


def _host_network(random: Random, spec: Spec) -> Spec:
    name = random.choice([each for each in SERVICES if each in spec.services])
    old = spec.service(name)
    return spec.with_party(name, old._replace(marks=() if "host_network" in old.marks else ("host_network",)))


def _sometimes_on_hosts(random: Random, spec: Spec) -> Spec:
    return _host_network(random, spec) if random.random() < 0.4 else spec


def _of_a_port(change: Callable[[Random, Port], Port]) -> Change:
    def edit(random: Random, spec: Spec) -> Spec:
        name = random.choice([each for each in SERVICES if each in spec.services])
        old = spec.service(name)
        at = random.randrange(len(old.ports))
        new = change(random, old.ports[at])
        changed = spec.with_party(name, old._replace(ports=(*old.ports[:at], new, *old.ports[at + 1 :])))
        if new.name == old.ports[at].name:
            return changed
        call = f"{name}:{old.ports[at].name}"
        calls = tuple((source, f"{name}:{new.name}" if to == call else to) for source, to in changed.calls)
        moved = tuple(
            each._replace(destinations=f"{name}:{new.name}") if each.destinations == call else each
            for each in changed.policies
        )
        return replace(changed, calls=calls, policies=moved)

    return edit


def _more_port(random: Random, spec: Spec) -> Spec:
    """One more port that leads where another leads."""
    name = random.choice([each for each in SERVICES if each in spec.services])
    old = spec.service(name)
    first = old.ports[0]
    new = Port(7070, name="also", target=first.target or first.number)
    named = tuple((source, f"{name}:own" if to == name else to) for source, to in spec.calls)
    spec = replace(spec, calls=named).with_party(name, old._replace(ports=(*old.ports, new)))
    return spec.with_calls((random.choice([each for each in SERVICES if each != name]), f"{name}:also"))


PARTIES: Final = (
    Edit("service becomes external", _service_to_external, 3),
    Edit("external becomes service", _external_to_service, 2, _with_calls_of_externals),
    Edit("external renamed", _external_renamed, 2, _with_calls_of_externals),
    Edit("external split", _external_split, 2, _with_hosts),
    Edit("externals merged", _externals_merged, 2, _with_split),
    Edit("external's ranges", _ranges, 2, _with_calls_of_externals),
    Edit("external comes", _external_comes, 2, _with_calls_of_externals),
    Edit("external goes", _external_goes, 2, _with_calls_of_externals),
    Edit("service renamed", _service_renamed, 2),
    Edit("service split", _service_split, 2),
    Edit("same pods", _same_pods, 2),
    Edit("labels", _labels, 3),
    Edit("namespace", _namespace, 3),
    Edit("host_network", _host_network, 9, _sometimes_on_hosts),
    Edit("port number", _of_a_port(lambda random, old: old._replace(number=random.choice((8080, 9090, 7000)))), 3),
    Edit("port target", _of_a_port(lambda random, old: old._replace(target=random.choice((0, 8080, 9090, 7000)))), 3),
    Edit("port name", _of_a_port(lambda _random, old: old._replace(name="renamed")), 2),
    Edit("port protocol", _of_a_port(lambda random, old: old._replace(protocol=random.choice(("grpc", "tcp")))), 2),
    Edit("one more port", _more_port, 2),
)
