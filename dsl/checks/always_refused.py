"""Warns of guards that refuse every request of a declared call, or every callout about a call: most likely mistakes.

Only guards that judge the caller alone (`Traits.judges_caller_alone`) are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.checks.disjoint import disjoint
from dsl.checks.loops import callouts
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.match import And, Match, Not
from dsl.program import Call, Element, Policy, Side, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.graph.application import Application

_CALLS = 3
"""Most refused calls that a warning points at."""
_WRITTEN = (Element.PATH, Element.METHOD, Element.HEADER)


def warn_of_refused_calls(application: Application, policies: Sequence[Policy], diagnostics: Diagnostics) -> None:
    """Warns once for each guard, or group of guards, that refuses every request of a declared call. Groups are not
    looked at if any policy may write the path, the method or a header."""
    guards = [policy for policy in policies if _judges_caller(policy)]
    always = {policy.name for policy in guards if _always((policy,))}
    parts: dict[int, list[Policy]] = {}
    for policy in guards:
        refused = _refused(application, policy)
        if policy.name in always:
            if refused:
                _warn(application, (policy,), refused, diagnostics)
        else:
            for index in refused:
                parts.setdefault(index, []).append(policy)
    if any(_writes(policy) for policy in policies):
        return  # a policy may change the request between two guards
    together: dict[tuple[Policy, ...], list[int]] = {}
    for index, guards in sorted(parts.items()):
        together.setdefault(tuple(guards), []).append(index)
    for several, calls in together.items():
        if len(several) > 1 and _always(several):
            _warn(application, several, calls, diagnostics)


def warn_of_refused_callouts(application: Application, policies: Sequence[Policy], diagnostics: Diagnostics) -> None:
    """Warns of guards that refuse the callouts of another policy about some destination, from every ADM that may make
    them."""
    guards = [policy for policy in policies if _judges_caller(policy) and _always((policy,))]
    for policy in policies if guards else ():
        for helper, port in callouts(application, policy):
            for guard in guards:
                if helper in guard.destinations and (guard.ports is None or port.number in guard.ports):
                    destination, caller = _refused_caller(application, policy, helper, guard)
                    if caller:
                        _warn_of_callout(policy, guard, helper, destination, caller, diagnostics)


def _refused_caller(application: Application, policy: Policy, helper: str, guard: Policy) -> tuple[str, str]:
    """A destination of `policy` and a service that calls `helper` about it, if the guard refuses all such services.

    Both names are empty if there is no such destination.
    """
    callers: dict[str, set[str]] = {}
    for index in policy.calls:
        call = application.calls[index]
        askers = callers.setdefault(call.destination, set())
        askers.update((call.destination,) if Side.INGRESS in policy.sides else ())
        askers.update((call.source,) if Side.EGRESS in policy.sides else ())
    admitted = _admitted(guard)
    for destination, askers in callers.items():
        hosts = sorted(name for name in askers if name in application.services)
        if hosts and all(name in guard.sources and name not in admitted and name != helper for name in hosts):
            return destination, hosts[0]
    return "", ""


def _warn_of_callout(
    policy: Policy, guard: Policy, helper: str, destination: str, caller: str, diagnostics: Diagnostics
) -> None:
    hint = f"leave `{caller}` out of the sources of `{guard.name}`"
    parameter = _callers_parameter(guard)
    if parameter is not None:
        hint = f"add `{caller}` to the `{parameter}` of `{guard.name}`"
    diagnostics.warning(
        "ADM425",
        f"`{guard.name}` refuses the requests by which `{policy.name}` asks `{helper}` about calls to `{destination}`",
        guard.span,
        cause=f"the ADM of `{caller}` sends them, so their caller is `{caller}`, which `{guard.name}` does not admit",
        hint=hint,
        related=(Related(policy.span, f"`{policy.name}` is here"),),
    )


def _judges_caller(policy: Policy) -> bool:
    return policy.kind.traits.judges_caller_alone


def _always(guards: Sequence[Policy]) -> bool:
    """Whether every request meets at least one of the guards' matches."""
    matches = [policy.match for policy in guards if policy.match is not None]
    if len(matches) < len(guards):
        return True
    nothing_left: Match = And(tuple(Not(match) for match in matches))
    return disjoint(nothing_left, None)


def _writes(policy: Policy) -> bool:
    if policy.effects is None:
        return True
    return any(effect.verb is Verb.WRITES and effect.element in _WRITTEN for effect in policy.effects)


def _refused(application: Application, policy: Policy) -> list[int]:
    """Indices of declared calls in scope whose caller the guard certainly does not admit."""
    admitted = _admitted(policy)
    # An external without addresses may be any unknown caller, and the addresses of two externals may overlap.
    strangers = any(name in application.externals for name in admitted)
    indices = []
    for index in policy.calls:
        source = application.calls[index].source
        service = application.services.get(source)
        unknown = service is None or service.host_network
        if source not in admitted and not (strangers and unknown):
            indices.append(index)
    return indices


def _admitted(policy: Policy) -> frozenset[str]:
    parameter = _callers_parameter(policy)
    callers = None if parameter is None else policy.arguments[parameter]
    return frozenset(str(name) for name in callers) if isinstance(callers, tuple) else frozenset()


def _callers_parameter(policy: Policy) -> str | None:
    """Name of the parameter that lists the callers which a guard admits; None for a guard that admits no caller."""
    for parameter in policy.kind.parameters:
        if parameter.type.element is not None and parameter.type.element.name == "caller":
            return parameter.name
    return None


def _warn(application: Application, guards: Sequence[Policy], refused: Sequence[int], diagnostics: Diagnostics) -> None:
    policy = guards[-1]
    calls = [application.calls[index] for index in refused]
    first = calls[0]
    more = "" if len(calls) == 1 else f" (and of {len(calls) - 1} more declared call{'s' if len(calls) > 2 else ''})"
    name = f"`{policy.name}`"
    if len(guards) > 1:
        name = f"{', '.join(f'`{guard.name}`' for guard in guards[:-1])} and `{policy.name}` together"
    verb = "refuse" if len(guards) > 1 else "refuses"
    diagnostics.warning(
        "ADM424",
        f"{name} {verb} every request of the declared call `{_shown(application, first)}`{more}",
        policy.span,
        cause=_why(guards, calls),
        hint=_what_to_do(guards, calls),
        related=(
            *(Related(guard.span, f"`{guard.name}` is here") for guard in guards[:-1][:_CALLS]),
            *(
                Related(call.span, f"the call `{_shown(application, call)}` is declared here")
                for call in calls[:_CALLS]
            ),
        ),
    )


def _shown(application: Application, call: Call) -> str:
    several = len(application.ports(call.destination)) > 1
    port = f":{call.port.name or call.port.number}" if several else ""
    return f"{call.source} -> {call.destination}{port}"


def _why(guards: Sequence[Policy], calls: Iterable[Call]) -> str:
    if len(guards) > 1:
        return "every request satisfies the `when` of one of them, and none of them admits the caller"
    (policy,) = guards
    parameter = _callers_parameter(policy)
    if parameter is None:
        return f"`{policy.kind.name}` admits no caller, and has no `when` that excludes a request"
    return f"its `{parameter}` do not include {_callers(calls)}, and it has no `when` that excludes a request"


def _what_to_do(guards: Sequence[Policy], calls: Sequence[Call]) -> str:
    parameter = _callers_parameter(guards[-1])
    if parameter is not None:
        return f"add {_callers(calls)} to its `{parameter}`, or remove calls that are not made"
    return f"leave {_callers(calls)} out of its sources, or remove calls that are not made"


def _callers(calls: Iterable[Call]) -> str:
    names = list(dict.fromkeys(call.source for call in calls))
    return ", ".join(f"`{name}`" for name in names[:_CALLS]) + (", ..." if len(names) > _CALLS else "")
