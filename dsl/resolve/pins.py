"""Pins: the decisions that a `pin` line fixes (rule R10). A name in a pin that fixes no decision is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application
from dsl.program import Pin, Place, Policy, Protocol
from dsl.resolve.selectors import Destinations, Selectors, written
from dsl.syntax import tree
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLACES = ("ingress", "egress", "network")
"""The places of pins, as written."""


def resolve_pins(
    statements: Sequence[tree.Declared],
    policies: Mapping[str, Policy],
    broken: frozenset[str],
    selectors: Selectors,
    application: Application,
    diagnostics: Diagnostics,
) -> tuple[Pin, ...]:
    """All pins, one for each policy, destination and place, sorted by these."""
    pins: dict[tuple[str, str, Place], Pin] = {}
    for statement in statements:
        if not isinstance(statement, tree.Pin):
            continue
        place = statement.place.text
        if place not in PLACES:
            hint = (
                other_meshes.side(place)
                or diagnostics.did_you_mean(place, PLACES)
                or "write `at ingress`, `at egress` or `at network`"
            )
            diagnostics.error("ADM411", f"there is no place `{place}`", statement.place.span, hint=hint)
            continue
        policy = policies.get(statement.policy.text)
        if policy is None:
            _unknown_policy(statement, policies, broken, application, diagnostics)
            continue
        for destination in _pinned(statement, policy, selectors, application, diagnostics):
            pin = Pin(policy.name, destination, Place(place), statement.span)
            pins.setdefault((pin.policy, pin.destination, pin.place), pin)
    return tuple(pins[key] for key in sorted(pins))


def _unknown_policy(
    statement: tree.Pin,
    policies: Mapping[str, Policy],
    broken: frozenset[str],
    application: Application,
    diagnostics: Diagnostics,
) -> None:
    name = statement.policy.text
    if name not in broken and application.complete:
        hint = diagnostics.did_you_mean(name, policies)
        diagnostics.error("ADM103", f"there is no policy named `{name}`", statement.policy.span, hint=hint)


def _pinned(
    statement: tree.Pin,
    policy: Policy,
    selectors: Selectors,
    application: Application,
    diagnostics: Diagnostics,
) -> tuple[str, ...]:
    """Destinations of the policy that a pin fixes."""
    scope = statement.scope
    if scope is None:
        pinned, absent = policy.destinations, None
    else:
        sources = selectors.sources(scope.sources)
        destinations = selectors.destinations(scope.destinations)
        if sources is None or destinations is None:
            return ()
        pinned = _of_calls(policy, sources.names, destinations, application)
        absent = _absent(scope, policy, pinned, destinations, application)
    related = (Related(policy.span, "the policy is here"),)
    if scope is not None and not application.all_calls:
        return pinned
    if not pinned:
        diagnostics.error(
            "ADM410",
            f"this pins nothing: `{policy.name}` has no such calls in its scope",
            statement.span if scope is None else scope.span,
            hint="choose calls that the policy applies to, or remove the pin",
            related=related,
        )
    elif absent is not None:
        diagnostics.error(
            "ADM410",
            f"this pins nothing for `{absent.text}`: `{policy.name}` has no such call in its scope",
            absent.span,
            hint=f"remove `{absent.text}` from the pin, or declare the call",
            related=related,
        )
    return pinned


def _of_calls(
    policy: Policy, sources: frozenset[str], destinations: Destinations, application: Application
) -> tuple[str, ...]:
    wanted = frozenset(destinations.names)
    called = {
        call.destination
        for call in (application.calls[index] for index in policy.calls)
        if call.source in sources
        and call.destination in wanted
        and (destinations.ports is None or call.port.number in destinations.ports)
    }
    if (policy.open_sources or policy.kind.guard) and sources & policy.sources:
        # The policy also applies to undeclared callers, so it is enforced at destinations without a declared call, too.
        called.update(
            name
            for name in wanted.intersection(policy.destinations).difference(called)
            if _has_port(policy, name, destinations.ports, application)
        )
    return tuple(sorted(called))


def _has_port(policy: Policy, name: str, wanted: frozenset[int] | None, application: Application) -> bool:
    return any(
        (wanted is None or port.number in wanted)
        and (policy.ports is None or port.number in policy.ports)
        and port.protocol in policy.kind.protocols
        and (policy.match is None or port.protocol is not Protocol.TCP)
        for port in application.ports(name)
    )


def _absent(
    scope: tree.Scope,
    policy: Policy,
    pinned: tuple[str, ...],
    destinations: Destinations,
    application: Application,
) -> tree.Word | None:
    """The first service or external that the pin names and that is part of none of the pinned decisions."""
    for word in written(scope.destinations):
        if word.text not in pinned:
            return word
    if policy.open_sources or policy.kind.guard:
        sources = policy.sources
    else:
        wanted = frozenset(pinned)
        sources = frozenset(
            call.source
            for call in (application.calls[index] for index in policy.calls)
            if call.destination in wanted and (destinations.ports is None or call.port.number in destinations.ports)
        )
    return next((word for word in written(scope.sources) if word.text not in sources), None)
