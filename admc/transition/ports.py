"""Ports that have another number in the new program, or lead elsewhere: who enforces what meanwhile.

At ingress a connection is known by the port at which it arrives, and not by the one that was dialled. So what an ADM
enforces for a number that there is no more, it enforces for the one that leads to the same port now. What arrives where
no port of the new program leads to is not seen by it: what was enforced there cannot leave for the senders before its
pods have gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Side
from emitters.errors import EmitError

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.transition.change import Change, Entry
    from dsl.program import Port, Program


def renumbered(entry: Entry, ports: Collection[int], old: Program, new: Program) -> Entry:
    """An entry of the old program at `ports`, in a program whose services have those of the new one."""
    name = entry.decision.destination
    before, after = _ports(old, name), _ports(new, name)
    if entry.side is not Side.INGRESS or after.keys() >= set(ports):
        return entry
    leading = {port.target: number for number, port in after.items()}
    gone = (before[number].target for number in ports if number in before and number not in after)
    found = {leading[target] for target in gone if target in leading}
    return entry._replace(decision=replace(entry.decision, ports=tuple(sorted(found.union(entry.decision.ports)))))


def check(change: Change, old: Program, new: Program) -> None:
    """Raises `EmitError` where something leaves the ingress of a port that leads elsewhere in the new program."""
    for entry in change.leaving:
        name = entry.decision.destination
        if entry.side is not Side.INGRESS or name not in change.crossing:
            continue
        before, after = _ports(old, name), _ports(new, name)
        for number in sorted(entry.ports(change.program) & before.keys() & after.keys()):
            if before[number].target != after[number].target:
                raise _elsewhere(entry, before[number], after[number])


def _ports(program: Program, name: str) -> dict[int, Port]:
    service = program.services.get(name)
    return {} if service is None else {port.number: port for port in service.ports}


def _elsewhere(entry: Entry, before: Port, after: Port) -> EmitError:
    name, destination = entry.policy.name.partition("~")[0], entry.decision.destination
    return EmitError(
        (
            Diagnostic(
                "ADM855",
                Severity.ERROR,
                f"port {after.number} of `{destination}` gets another target while `{name}` leaves its ingress",
                entry.policy.span,
                cause=f"pods that still listen at {before.target} would be reached by requests that nobody enforces "
                f"`{name}` on: their ADMs look at {after.target} from the first step on, and senders enforce it later",
                hint=f"make two plans of it: first the one in which `{name}` moves, then the one with the other target",
            ),
        )
    )
