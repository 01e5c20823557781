"""Changes of a program that may let a policy be in the network, each for one condition of that place.

program, policy, destination -> changes, of which the remedies of a pin take those that suffice
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dsl.program import Policy, Program
from solver.conflict.subprogram import Draft, Edit
from solver.rules.facts import ProgramFacts, callers, has_addresses


class NetworkChange(NamedTuple):
    text: str
    edit: Edit


def network_changes(program: Program, policy: Policy, destination: str) -> list[NetworkChange]:
    """All changes that concern a policy at one of its destinations."""
    return list(_changes(program, policy, destination))


def _changes(program: Program, policy: Policy, destination: str) -> Iterator[NetworkChange]:
    name = policy.name
    if program.network_policies is None:
        yield NetworkChange("say `network_policies enforced`", partial(_state, policy))
    if program.accepts_host_network is None and any(service.host_network for service in program.services.values()):
        yield NetworkChange("say `accept host_network`", partial(_accept, policy))
    if policy.accepts_drop is None:
        yield NetworkChange(f"write `accept drop` at the end of `{name}`", partial(_drop, policy))
    if policy.match is not None:
        yield NetworkChange(f"remove the `when` of `{name}`", partial(_any_request, policy))
    facts = ProgramFacts(program)
    everyone = program.services.keys() | program.externals.keys()
    if not policy.open_sources or policy.sources != everyone:
        yield NetworkChange(
            f"let the sources of `{name}` be `*` without an exception", partial(_every_caller, policy, program)
        )
    if policy.ports is not None:
        yield NetworkChange(f"let `{name}` be for all ports of `{destination}`", partial(_every_port, policy, program))
    for caller in callers(policy):
        external = program.externals.get(caller)
        if external is None:
            continue
        inside = facts.smaller_only(caller, callers(policy))
        if not has_addresses(external):
            yield NetworkChange(f"give `{caller}` a `cidr`", partial(_addresses, caller))
        elif inside:
            yield NetworkChange(
                f"take the addresses of `{inside[0]}` out of the `cidr` of `{caller}`", partial(_addresses, caller)
            )


def _state(policy: Policy, draft: Draft) -> None:
    draft.network_policies = policy.span


def _accept(policy: Policy, draft: Draft) -> None:
    draft.accepts_host_network = policy.span


def _drop(policy: Policy, draft: Draft) -> None:
    draft.policies[policy.name] = replace(draft.policies[policy.name], accepts_drop=policy.span)


def _any_request(policy: Policy, draft: Draft) -> None:
    draft.policies[policy.name] = replace(draft.policies[policy.name], match=None)


def _every_caller(policy: Policy, program: Program, draft: Draft) -> None:
    widened = replace(
        draft.policies[policy.name],
        sources=frozenset(program.services.keys() | program.externals.keys()),
        open_sources=True,
    )
    draft.policies[policy.name] = replace(widened, calls=_calls(widened, program))


def _every_port(policy: Policy, program: Program, draft: Draft) -> None:
    widened = replace(draft.policies[policy.name], ports=None)
    draft.policies[policy.name] = replace(widened, calls=_calls(widened, program))


def _addresses(external: str, draft: Draft) -> None:
    draft.cidrs.add(external)


def _calls(policy: Policy, program: Program) -> tuple[int, ...]:
    """The declared calls in the scope of a policy."""
    return tuple(
        index
        for index, call in enumerate(program.calls)
        if call.source in policy.sources
        and call.destination in policy.destinations
        and (policy.ports is None or call.port.number in policy.ports)
        and call.port.protocol in policy.kind.protocols
    )
