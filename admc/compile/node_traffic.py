"""Warnings about services on the network of their node, whose traffic passes the NetworkPolicies of pods there.

    Program, policies that need a destination closed -> the program with a warning for each such service

A program that says `accept host_network` accepts that. `admc compile` knows which destinations are closed. `admc check`
places nothing, so it warns of those that every placement closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from dsl.program import Mark, Program

if TYPE_CHECKING:
    from solver.placement import Placement


class Closing(NamedTuple):
    """A policy at a destination that has to be closed for it."""

    policy: str
    destination: str


def with_warnings(program: Program, closings: Iterable[Closing]) -> Program:
    """The program with a warning for each service that may pass one of the closings."""
    if not _passes(program):
        return program
    warnings = tuple(_warnings(program, tuple(closings)))
    return replace(program, warnings=(*program.warnings, *warnings)) if warnings else program


def _passes(program: Program) -> bool:
    """Whether a service may pass a NetworkPolicy on its node, and the program does not accept that."""
    hosted = any(service.host_network for service in program.services.values())
    return hosted and program.accepts_host_network is None


def closings_of(placement: Placement) -> Iterator[Closing]:
    return (Closing(decision.policy, decision.destination) for decision in placement.decisions if decision.closes)


def closings_of_every_placement(program: Program) -> Iterator[Closing]:
    """Those of policies that cannot be at the ingress of their destination alone; computed when they are asked for."""
    from solver.rules.options import decision_points

    for point in decision_points(program):
        if point.closes and (point.both or point.ingress is not None):
            yield Closing(program.policies[point.policy].name, point.destination)


def _warnings(program: Program, closings: tuple[Closing, ...]) -> Iterator[Diagnostic]:
    from solver.rules.facts import marked

    if not closings:
        return
    first = closings[0]
    others = len({closing.destination for closing in closings}) - 1
    more = "" if not others else f" (and {others} more)"
    for service in program.services.values():
        if service.host_network:
            yield Diagnostic(
                "ADM785",
                Severity.WARNING,
                f"{marked(service, Mark.HOST_NETWORK)}, and on a node of `{first.destination}` it passes the "
                f"NetworkPolicy that closes `{first.destination}`{more}",
                service.place(Mark.HOST_NETWORK),
                cause="a NetworkPolicy does not judge the traffic of the node of a pod, so such calls meet no policy "
                "that needs the closing",
                hint="enforce the policy at the ingress of its destination, or say `accept host_network`",
                related=(Related(program.policy_by_name[first.policy].span, "this policy needs it closed"),),
            )
