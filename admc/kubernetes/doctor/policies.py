"""The policies of admission of an installation, each with its binding: what the chart makes, and what the cluster has.

A test compares `policies_of` with the chart. A policy without its binding refuses nothing, and neither does one whose
binding only warns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.checks import Check, CheckVerdict
from admc.base.terminal import visible
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.doctor.lines import INSTALL, unread
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT: Final = "admission"
POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"
DENY: Final = ("Deny",)
WARN: Final = ("Audit", "Warn")
"""The actions of the guard with its value `Warn`, sorted."""
_ERROR: Final = re.compile("ERROR: [^\n]*")
_SHOWN: Final = 100
"""Characters of a value of the cluster."""


class Policy(NamedTuple):
    """A policy of the chart. Its binding has the same name."""

    name: str
    without: str
    """What can happen without it."""
    is_of_guard: bool
    """Whether the value `guard` of the chart is about it: `Off` leaves it out, and with `Warn` its binding warns."""
    parameter: Mapping[str, str] | None = None
    """`paramRef` of its binding."""


Object = Mapping[str, Any]
One = Object | ApiError
"""An object, or why there is none."""


def policies_of(name: str) -> tuple[Policy, ...]:
    """Return the policies of the installation `name`."""
    return (
        Policy(
            f"admc-{name}-injections",
            "an account that may write an `Injection` can take ADMs out of new pods",
            is_of_guard=False,
        ),
        Policy(
            f"admc-{name}-guard",
            "pods of guarded services start without their ADM",
            is_of_guard=True,
            parameter={"name": name, "parameterNotFoundAction": "Allow"},
        ),
        Policy(
            f"admc-{name}-guard-labels",
            "a request to `pods/status` can give a pod without an ADM the labels of a guarded service",
            is_of_guard=True,
        ),
        Policy(
            f"admc-{name}-guard-needs-definition-of-injections",
            "pods of guarded services start without their ADM when the definition of `Injection` is deleted",
            is_of_guard=True,
            parameter={"name": "injections.admc.dev", "parameterNotFoundAction": "Deny"},
        ),
        Policy(
            f"admc-{name}-guard-services",
            "the Service of a guarded service can lead requests to pods without an ADM",
            is_of_guard=True,
            parameter={"name": name, "parameterNotFoundAction": "Allow"},
        ),
    )


def policy_checks(name: str, policies: Mapping[str, One], bindings: Mapping[str, One]) -> Iterator[Check]:
    """`policies` and `bindings` are what the cluster has, by name."""
    expected = policies_of(name)
    of_guard = [policy for policy in expected if policy.is_of_guard]
    has_guard = not all(_is_absent(part[policy.name]) for policy in of_guard for part in (policies, bindings))
    for policy in expected:
        if has_guard or not policy.is_of_guard:
            yield from _policy(policy, policies[policy.name], bindings[policy.name])
    if not has_guard:
        advice = "pods without their ADM start; the value `guard` of the chart has it"
        yield Check(SUBJECT, CheckVerdict.OPTIONAL, "no guard", advice)


def _is_absent(one: One) -> bool:
    return isinstance(one, ApiError) and one.is_not_found


def _policy(expected: Policy, policy: One, binding: One) -> Iterator[Check]:
    parts = {POLICY: policy, BINDING: binding}
    for kind, part in parts.items():
        if _is_absent(part):
            yield _bad(f"there is no {kind} `{expected.name}`", expected)
        elif isinstance(part, ApiError):
            yield unread(SUBJECT, part)
    if isinstance(policy, ApiError) or isinstance(binding, ApiError):
        return
    if understood := _not_understood(expected.name, policy):
        yield understood
    else:
        yield _binding(expected, binding)


def _not_understood(name: str, policy: Object) -> Check | None:
    listed = at(policy, ("status", "typeChecking", "expressionWarnings"))
    texts = [str(at(item, ("warning",))) for item in listed] if isinstance(listed, list) else []
    warnings = [text for text in texts if not _is_of_parameter(text)]
    if not warnings:
        return None
    state = f"the API server does not understand `{name}`: {warnings[0]}"
    return Check(SUBJECT, CheckVerdict.BAD, state[:300], "use a chart that is made for this version of Kubernetes")


def _is_of_parameter(warning: str) -> bool:
    """Whether a warning is only about `params`.

    The controller checks a policy once. If it does not know the definition of the parameter at that moment, as when
    Helm installs both, the warning stays, and the API server evaluates the policy all the same.
    """
    errors = _ERROR.findall(warning)
    return bool(errors) and all("undeclared reference to 'params'" in error for error in errors)


def _binding(expected: Policy, binding: Object) -> Check:
    """Compare a binding with the chart's. The API server fills nothing in there."""
    spec = at(binding, ("spec",))
    fields = {name: value for name, value in spec.items() if value is not None} if isinstance(spec, dict) else {}
    listed = fields.pop("validationActions", None)
    wanted: dict[str, object] = {"policyName": expected.name}
    if expected.parameter is not None:
        wanted["paramRef"] = dict(expected.parameter)
    differing = sorted(name for name in wanted.keys() | fields.keys() if wanted.get(name) != fields.get(name))
    if differing:
        what = ", ".join(f"`{visible(str(name)[:_SHOWN])}`" for name in differing[:3])
        return _bad(f"the {BINDING} `{expected.name}` differs from the chart's in {what}", expected)
    actions = tuple(sorted(map(str, listed))) if isinstance(listed, list) else ()
    if actions == DENY:
        return Check(SUBJECT, CheckVerdict.GOOD, expected.name)
    if actions == WARN and expected.is_of_guard:
        advice = "the value `guard` of the chart is `Warn`: with `Deny` it refuses them"
        return Check(SUBJECT, CheckVerdict.OPTIONAL, f"`{expected.name}` warns of pods that it would refuse", advice)
    shown = visible(", ".join(actions)[:_SHOWN]) or "none"
    return _bad(f"`validationActions` of the {BINDING} `{expected.name}` are not the chart's: {shown}", expected)


def _bad(state: str, expected: Policy) -> Check:
    return Check(SUBJECT, CheckVerdict.BAD, state, f"{expected.without}: {INSTALL}")
