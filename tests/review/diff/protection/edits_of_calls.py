"""Edits of what ADMs call by themselves, and of kinds of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.review.diff.protection.edit import Edit
from tests.review.diff.protection.specs import (
    ASKS,
    KINDS,
    MATCHES,
    OWN_EFFECT,
    External,
    Policy,
    Spec,
    mentions,
    new_name,
)

if TYPE_CHECKING:
    from random import Random

    from tests.review.diff.protection.edit import Change
from tests.fidelity.samples import FILES

_ASKING: Final = ("external_authorization", "external_authorization", "asks")


def _with_asking(random: Random, spec: Spec) -> Spec:
    """With a policy that asks `judge`, and perhaps one in front of `judge`."""
    kind = random.choice(_ASKING)
    asking = Policy(new_name(spec), kind, random.choice(KINDS[kind]), random.choice(("*", "a", "{a, c}")), "b")
    if random.random() < 0.3:
        asking = asking._replace(when=random.choice(MATCHES))
    spec = spec.with_policy(random.randint(0, len(spec.policies)), asking)
    if random.random() < 0.3:
        spec = spec.with_calls((random.choice(("a", "b", "d")), "judge"))
    return _before_judge(random, spec) if random.random() < 0.5 else spec


def _with_target(random: Random, spec: Spec) -> Spec:
    """With a policy that calls `s`."""
    rest = tuple(each for each in spec.policies if each.kind not in ("mirror", "split"))
    kind = random.choice(("mirror", "split"))
    calling = Policy(new_name(spec), kind, random.choice(KINDS[kind]), random.choice(("*", "a", "{a, c}")), "b")
    spec = replace(spec, policies=(*rest, calling))
    return _before_target(random, spec) if random.random() < 0.5 else spec


_IN_FRONT: Final = (
    *("fault_abort", "fault_abort", "fault_delay", "set_request_header", "remove_request_header", "rewrite_path"),
    *("rate_limit", "allow", "deny", "timeout", "retry", "request_count", "buffer_limit", "mine", "split"),
)


def _in_front(random: Random, spec: Spec, helper: str) -> Spec:
    kind = random.choice(_IN_FRONT)
    to = random.choice((helper, helper, f"{{{helper}, b}}"))
    when = random.choice(MATCHES) if random.random() < 0.3 else ""
    new = Policy(new_name(spec), kind, random.choice(KINDS[kind]), random.choice(("*", "*", "b", "a")), to, when)
    return spec.with_policy(random.randint(0, len(spec.policies)), new)


def _before_judge(random: Random, spec: Spec) -> Spec:
    return _in_front(random, spec, "judge")


def _before_target(random: Random, spec: Spec) -> Spec:
    return _in_front(random, spec, "s")


def _policy_before(helper: str) -> Change:
    """A policy in front of a service that ADMs call comes, goes, or changes."""

    def change(random: Random, spec: Spec) -> Spec:
        there = [at for at, each in enumerate(spec.policies) if mentions(each._replace(arguments=""), helper)]
        if not there or random.random() < 0.5:
            return _in_front(random, spec, helper)
        at = random.choice(there)
        rest = replace(spec, policies=(*spec.policies[:at], *spec.policies[at + 1 :]))
        old = spec.policies[at]
        changed = random.choice(
            (
                old._replace(arguments=random.choice(KINDS[old.kind])),
                old._replace(when=random.choice(MATCHES)),
                old._replace(when="", sources=random.choice(("*", "b", "a"))),
                None,
            )
        )
        return rest if changed is None else rest.with_policy(random.randint(0, len(rest.policies)), changed)

    return change


def _helper_changes(helper: str) -> Change:
    """A service that ADMs call is another one: its port, its pods, or what it is."""

    def change(random: Random, spec: Spec) -> Spec:
        if helper not in spec.services:
            return spec
        old = spec.service(helper)
        (port, *more) = old.ports
        return random.choice(
            (
                spec.with_party(helper, old._replace(ports=(port._replace(number=8005), *more))),
                spec.with_party(helper, old._replace(ports=(port._replace(target=8005), *more))),
                spec.with_party(helper, old._replace(ports=(port._replace(protocol="grpc"), *more))),
                spec.with_party(helper, old._replace(namespace="" if old.namespace else "other")),
                spec.with_party(helper, old._replace(app=random.choice(("a", "e", "other", helper)))),
                spec.with_party(helper, old._replace(marks=("host_network",))),
                spec.with_party(helper, External(hosts=(f"{helper}.example",), ports=old.ports)),
                spec.renamed(helper, spec.unused(f"{helper}_new")),
                spec.with_party(spec.unused("twin"), old._replace(app=old.app or helper)),
            )
        )

    return change


def _with_own(random: Random, spec: Spec) -> Spec:
    kind = random.choice(("mine", "mine", "asks"))
    own = Policy(new_name(spec), kind, random.choice(KINDS[kind]), random.choice(("*", "a")), random.choice(("b", "d")))
    return spec.with_policy(random.randint(0, len(spec.policies)), own)


def _own_kind(random: Random, spec: Spec) -> Spec:
    other = spec.contents or {"mine.yaml": FILES["mine.yaml"] + b"# more\n", "asks.yaml": ASKS + b"# more\n"}
    effect = "writes(header), rejects" if spec.own == OWN_EFFECT else OWN_EFFECT
    there = [at for at, each in enumerate(spec.policies) if each.kind in ("mine", "asks")]
    choices = [replace(spec, own=effect), replace(spec, contents=other)]
    for at in there:
        old = spec.policies[at]
        rest = (*spec.policies[:at], *spec.policies[at + 1 :])
        arguments = random.choice(
            ('value: "1"', 'value: "2"') if old.kind == "mine" else ("helper: judge", "helper: s")
        )
        choices += [replace(spec, policies=rest)] if random.random() < 0.3 else []
        choices += [replace(spec, policies=rest).with_policy(at, old._replace(arguments=arguments))] * 2
    return random.choice(choices)


CALLS: Final = (
    Edit("policy before what is asked", _policy_before("judge"), 5, _with_asking),
    Edit("another service is asked", _helper_changes("judge"), 5, _with_asking),
    Edit("policy before a target", _policy_before("s"), 12, _with_target),
    Edit("another target", _helper_changes("s"), 5, _with_target),
    Edit("own kind", _own_kind, 3, _with_own),
)
