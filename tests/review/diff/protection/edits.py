"""What a change may do to a program, by class: `WIDER` has those about more than policies and calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.review.diff.protection.edit import Edit
from tests.review.diff.protection.edits_of_calls import CALLS
from tests.review.diff.protection.edits_of_network import NETWORK
from tests.review.diff.protection.edits_of_parties import PARTIES
from tests.review.diff.protection.edits_of_programs import PROGRAMS
from tests.review.diff.protection.specs import (
    KINDS,
    MATCHES,
    SERVICES,
    Policy,
    Spec,
    destinations,
    new_name,
    policy,
    sources,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Change = Callable[[Random, Spec], Spec]

PORTS: Final = ("b:own", "b:admin", "d", "e", "stripe")


# ---- policies, calls and replicas ----


def _of_a_policy(change: Callable[[Random, Policy, Spec], Policy]) -> Change:
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
    new = policy(random, new_name(spec), spec.policies)
    return spec.with_policy(random.randint(0, len(spec.policies)), new)


def _swap(random: Random, spec: Spec) -> Spec:
    if len(spec.policies) < 2:
        return spec
    order = list(spec.policies)
    one, other = random.sample(range(len(order)), 2)
    order[one], order[other] = order[other], order[one]
    return replace(spec, policies=tuple(order))


def _add_call(random: Random, spec: Spec) -> Spec:
    source, to = random.choice((*SERVICES, "internet", "office")), random.choice(PORTS)
    known = source in spec.parties and to.partition(":")[0] in spec.parties
    return spec.with_calls((source, to)) if known and source != to.partition(":")[0] else spec


def _drop_call(random: Random, spec: Spec) -> Spec:
    gone = random.choice(spec.calls)
    return replace(spec, calls=tuple(call for call in spec.calls if call != gone or len(spec.calls) == 1))


def _change_service(random: Random, spec: Spec) -> Spec:
    name = random.choice(spec.services)
    old = spec.service(name)
    marks = random.choice((("no adm",), ("untrusted",), ()))
    return spec.with_party(name, random.choice((old._replace(replicas=old.replicas + 1), old._replace(marks=marks))))


def _new_kind(random: Random, old: Policy, spec: Spec) -> Policy:
    others = [each for each in spec.policies if each is not old]
    return policy(random, old.name, others)._replace(sources=old.sources, destinations=old.destinations)


PLAIN: Final = (
    Edit("a policy goes", _drop_policy),
    Edit("a policy comes", _add_policy, 5),
    Edit("two policies swap", _swap, 3),
    Edit("a call comes", _add_call, 3),
    Edit("a call goes", _drop_call, 2),
    Edit("replicas or marks", _change_service),
    Edit("arguments", _of_a_policy(lambda random, old, _: old._replace(arguments=random.choice(KINDS[old.kind]))), 3),
    Edit("when", _of_a_policy(lambda random, old, _: old._replace(when=random.choice((*MATCHES, "")))), 4),
    Edit("sources", _of_a_policy(lambda random, old, _: old._replace(sources=sources(random))), 2),
    Edit("destinations", _of_a_policy(lambda random, old, _: old._replace(destinations=destinations(random))), 2),
    Edit("side", _of_a_policy(lambda random, old, _: old._replace(side=random.choice(("ingress", "egress", "")))), 2),
    Edit("a policy is renamed", _of_a_policy(lambda random, old, _: old._replace(name=f"p{random.randint(10, 99)}"))),
    Edit("kind", _of_a_policy(_new_kind)),
)
WIDER: Final = CALLS + PARTIES + PROGRAMS + NETWORK
EDITS: Final = PLAIN + WIDER
