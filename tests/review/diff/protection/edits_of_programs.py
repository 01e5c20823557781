"""Edits of policies of which nothing is known, and of calls that go on without their declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.review.diff.protection.edit import Edit
from tests.review.diff.protection.specs import MATCHES, Policy, Spec, destinations, new_name, policy, sources

if TYPE_CHECKING:
    from random import Random

_READS_NOTHING: Final = ("timeout", "rate_limit", "request_count", "fault_abort", "deny", "mirror")


def _with_one_that_reads_nothing(random: Random, spec: Spec) -> Spec:
    new = policy(random, new_name(spec), spec.policies)
    while new.kind not in _READS_NOTHING:
        new = policy(random, new.name, spec.policies)
    return spec.with_policy(len(spec.policies), new._replace(when="", sources=random.choice(("*", "a", "{a, c}"))))


def _script_comes(random: Random, spec: Spec) -> Spec:
    when = random.choice(MATCHES) if random.random() < 0.3 else ""
    script = Policy(new_name(spec), "odd", "", sources(random), destinations(random), when)
    return spec.with_policy(random.randint(0, len(spec.policies)), script)


def _with_calls_outside(random: Random, spec: Spec) -> Spec:
    spec = spec.with_calls(("internet", "b:own"), ("office", "b:own"), ("a", "stripe"), ("c", "stripe"))
    new = policy(random, new_name(spec), spec.policies)._replace(
        sources=random.choice(("*", "*", "a", "office", "{office, internet}", "* except c")),
        destinations=random.choice(("stripe", "stripe", "b", "{b, stripe}")),
    )
    return spec.with_policy(random.randint(0, len(spec.policies)), new)


def _outside_call_goes(random: Random, spec: Spec) -> Spec:
    there = [call for call in spec.calls if call[0] in spec.externals or call[1].partition(":")[0] in spec.externals]
    if not there:
        return spec
    gone = random.choice(there)
    return replace(spec, calls=tuple(call for call in spec.calls if call != gone))


PROGRAMS: Final = (
    Edit("a script comes", _script_comes, 3, _with_one_that_reads_nothing),
    Edit("a call from or to outside goes", _outside_call_goes, 4, _with_calls_outside),
)
