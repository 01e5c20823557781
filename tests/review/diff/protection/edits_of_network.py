"""Edits of guards that a NetworkPolicy may enforce alone, and of what a program says and accepts about the network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.review.diff.protection.edit import Edit
from tests.review.diff.protection.specs import KINDS, SERVICES, Policy, Port, Spec, new_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.review.diff.protection.edit import Change

AT: Final = ("b", "b", "b:own", "b:admin", "d", "e", "{b, d}")
PLACES: Final = ("", "", "", "network", "ingress", "egress")
GUARDS: Final = ("allow", "deny")
RELYING: Final = ("request_count", "access_log", "rate_limit", "set_request_header", "jwt")
"""Kinds that may be at the senders, where they need the destination closed."""


def with_network(random: Random, spec: Spec) -> Spec:
    """With the statement, guards that may be in the network, and what else their closings depend on."""
    # An external without addresses that calls a service keeps it open.
    spec = replace(spec, calls=tuple(call for call in spec.calls if call[0] != "internet"), enforced=True)
    spec = replace(spec, policies=spec.policies[:2])
    if random.random() < 0.3:
        spec = _with_alias(random, spec)
    if random.random() < 0.3:
        spec = _on_a_node(random, spec)
    for _ in range(random.choice((1, 1, 2))):
        spec = _with_guard(random, spec)
    return _with_relying(random, spec) if random.random() < 0.4 else spec


def _with_guard(random: Random, spec: Spec) -> Spec:
    """With a guard of all callers. Most admit the declared senders, some one more or one less."""
    to = random.choice(AT)
    guard = Policy(new_name(spec), "allow", _admitting(random, spec, to), "*", to)
    if random.random() < 0.2:
        guard = guard._replace(kind="deny", arguments="")
    guard = guard._replace(accepts_drop=random.random() < 0.7, pin=random.choice(PLACES))
    return spec.with_policy(random.randint(0, len(spec.policies)), guard)


def _admitting(random: Random, spec: Spec, to: str) -> str:
    declared = {source for source, end in spec.calls if _leads(end, to)}
    others = sorted({"a", "c", "e", "office"} - declared)
    names = sorted(declared)
    drawn = random.random()
    if drawn < 0.25 and others:
        names.append(random.choice(others))
    elif drawn < 0.5 and names:
        names.remove(random.choice(names))
    return f"callers: [{', '.join(names)}]"


def _leads(end: str, to: str) -> bool:
    """Whether a call is to a destination of a guard."""
    return any(end == each or end.partition(":")[0] == each for each in to.strip("{}").split(", "))


def _with_relying(random: Random, spec: Spec) -> Spec:
    """With a policy of the senders that needs the same destinations closed."""
    kind = random.choice(RELYING)
    guarded = [each.destinations for each in spec.policies if each.kind in GUARDS and each.sources == "*"]
    to = random.choice((*guarded, *guarded, random.choice(AT)))
    relying = Policy(new_name(spec), kind, random.choice(KINDS[kind]), "*", to, side="egress")
    # Behind a guard that is not at the senders, it would often clash with the guard's order.
    return spec.with_policy(random.choice((0, 0, random.randint(0, len(spec.policies)))), relying)


def _with_alias(random: Random, spec: Spec) -> Spec:
    """With a second port that leads where the first one leads; some senders call both."""
    name = random.choice([each for each in ("b", "d", "e") if each in spec.services] or ["s"])
    old = spec.service(name)
    if any(port.name == "also" for port in old.ports):
        return spec
    first = old.ports[0]
    ports = (*old.ports, Port(7070, name="also", target=first.target or first.number))
    calls = tuple((source, f"{name}:own" if to == name else to) for source, to in spec.calls)
    spec = replace(spec, calls=calls).with_party(name, old._replace(ports=ports))
    senders = [source for source, to in calls if to == f"{name}:own"]
    if random.random() < 0.3:
        senders = senders[1:]
    return spec.with_calls(*((source, f"{name}:also") for source in senders))


def _on_a_node(random: Random, spec: Spec) -> Spec:
    """With a service on the network of its node."""
    name = random.choice([each for each in SERVICES if each in spec.services])
    changed = spec.with_party(name, spec.service(name)._replace(marks=("host_network",)))
    return replace(changed, accepts_host_network=random.random() < 0.8)


# ---- edits ----


def _statement(_random: Random, spec: Spec) -> Spec:
    """Without the statement, nothing can be accepted or pinned that needs it."""
    policies = tuple(each._replace(pin="") if each.pin == "network" else each for each in spec.policies)
    return replace(spec, enforced=not spec.enforced, policies=policies)


def _host_network_accepted(random: Random, spec: Spec) -> Spec:
    if random.random() < 0.5:
        return _on_a_node(random, spec)
    return replace(spec, accepts_host_network=not spec.accepts_host_network)


def _of_a_guard(change: Callable[[Random, Policy, Spec], Policy]) -> Change:
    def edit(random: Random, spec: Spec) -> Spec:
        guards = [at for at, each in enumerate(spec.policies) if each.kind in GUARDS]
        if not guards:
            return spec
        at = random.choice(guards)
        changed = change(random, spec.policies[at], spec)
        return replace(spec, policies=(*spec.policies[:at], changed, *spec.policies[at + 1 :]))

    return edit


def _callers(random: Random, old: Policy, spec: Spec) -> Policy:
    return old._replace(kind="allow", arguments=_admitting(random, spec, old.destinations))


def _guard_comes_or_goes(random: Random, spec: Spec) -> Spec:
    return _comes_or_goes(random, spec, _with_guard, lambda each: each.kind in GUARDS)


def _relying_comes_or_goes(random: Random, spec: Spec) -> Spec:
    return _comes_or_goes(random, spec, _with_relying, lambda each: each.side == "egress")


def _relying_moves(random: Random, spec: Spec) -> Spec:
    """A policy that needs the closing goes to its destination, or may."""
    there = [at for at, each in enumerate(spec.policies) if each.side == "egress"]
    if not there:
        return spec
    at = random.choice(there)
    moved = spec.policies[at]._replace(side=random.choice(("ingress", "")))
    return replace(spec, policies=(*spec.policies[:at], moved, *spec.policies[at + 1 :]))


def _with_both(random: Random, spec: Spec) -> Spec:
    """With no other policies than guards of the network, and one of the senders that needs the same ports closed."""
    spec = replace(with_network(random, spec), policies=())
    return _with_relying(random, _with_guard(random, spec))


def _comes_or_goes(random: Random, spec: Spec, comes: Change, goes: Callable[[Policy], bool]) -> Spec:
    there = [each for each in spec.policies if goes(each)]
    if not there or random.random() < 0.5:
        return comes(random, spec)
    gone = random.choice(there)
    return replace(spec, policies=tuple(each for each in spec.policies if each is not gone))


NETWORK: Final = (
    Edit("network_policies enforced", _statement, 9, with_network),
    Edit("accept host_network", _host_network_accepted, 9, with_network),
    Edit("callers of a guard", _of_a_guard(_callers), 12, with_network),
    Edit(
        "place of a guard",
        _of_a_guard(lambda random, old, _: old._replace(pin=random.choice(PLACES), side="")),
        15,
        with_network,
    ),
    Edit(
        "accept drop",
        _of_a_guard(lambda _random, old, _: old._replace(accepts_drop=not old.accepts_drop)),
        6,
        with_network,
    ),
    Edit(
        "destinations of a guard",
        _of_a_guard(lambda random, old, _: old._replace(destinations=random.choice(AT))),
        9,
        with_network,
    ),
    Edit("one more guard", _guard_comes_or_goes, 12, with_network),
    Edit("another policy needs the closing", _relying_comes_or_goes, 12, with_network),
    Edit("a policy no longer needs the closing", _relying_moves, 9, _with_both),
    Edit("a port with the same target", _with_alias, 9, with_network),
)
