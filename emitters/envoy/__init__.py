"""The Envoy emitter.

    program + placement + addresses -> [AdmResources for each ADM] -> bootstraps, or an xDS server's snapshots

The order of reading: `hops.Hop` (the policies that an ADM enforces, by connections), `kinds` (parts for each policy),
`chains` (a hop's filter chains, routes and clusters), `listeners` (all of one ADM), `bootstrap` (as files). `checks`
reports what Envoy cannot express. All of them use `matching` and `messages`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics
from emitters.addresses import Addresses
from emitters.addresses.index import AddressIndex
from emitters.envoy.context import Context, Mode
from emitters.envoy.resources import ENDPOINTS, SIBLINGS, AdmResources
from emitters.errors import EmitError
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from emitters.hops import Hop
    from solver.placement import Placement

__all__ = ["AdmResources", "Mode", "check", "emit", "passthrough"]


def check(program: Program, placement: Placement) -> tuple[Diagnostic, ...]:
    """The findings of `emit` that depend on no address and no built message: parts that Envoy cannot express.

    The check counts the declared replicas, so it finds a limit that they cannot share before any replica runs.
    """
    from emitters.envoy.checks import adm

    findings = Diagnostics()
    nowhere = Addresses()
    known = AddressIndex(program, nowhere)
    tried: set[str] = set()
    for service, enforced in hops(program, placement).items():
        adm.check(Context(program, nowhere, known, Mode.REDIRECT, program.services[service], findings), enforced, tried)
    return tuple(findings.items)


def emit(
    program: Program,
    placement: Placement,
    addresses: Addresses,
    mode: Mode,
    *,
    waiting: bool = False,
    only: Collection[str] | None = None,
    enforced: Mapping[str, tuple[Hop, ...]] | None = None,
    by_chain: bool = False,
    checked: bool = False,
) -> tuple[AdmResources, ...]:
    """The resources of every ADM, or of those in `only`, sorted by service.

    `enforced` is the result of `hops`, if the caller has it already. `by_chain` is for proxies that subscribe to
    resources by name (`chain_names`). `checked`: an earlier check has found that Envoy can express the policies.

    `waiting` is for a server that changes the resources of running ADMs, with redirection only. Both directions then
    have a listener, whether or not it is needed now. A missing address is no error: the server learns the address later
    and emits again, and until then the listeners refuse connections that may belong to it.

    Raises `EmitError` if Envoy cannot express the placement, or if a needed address is missing or shared.
    """
    from emitters.envoy.listeners import resources

    findings = Diagnostics()
    known = AddressIndex(program, addresses)
    emitted = []
    for service, held in (enforced or hops(program, placement)).items():
        if only is not None and service not in only:
            continue
        context = Context(program, addresses, known, mode, program.services[service], findings, by_chain)
        emitted.append(resources(context, held, waiting=waiting, checked=checked))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(emitted)


def passthrough(
    program: Program, addresses: Addresses, mode: Mode = Mode.REDIRECT, *, by_chain: bool = True
) -> AdmResources | None:
    """Listeners of an ADM that enforces nothing, for services whose connections are still redirected to it.

    All services get the same listeners; None for a program without a service. They always come from a server, so they
    have names by chain, by which the server sees that connections still use an older chain.
    """
    from emitters.envoy.listeners import resources
    from emitters.envoy.messages.typed import message

    service = next(iter(program.services.values()), None)
    if service is None:
        return None
    index = AddressIndex(program, addresses)
    context = Context(program, addresses, index, mode, service, by_chain=by_chain)
    emitted = resources(context, (), waiting=True)
    clusters = {name: item for name, item in emitted.clusters.items() if name != emitted.siblings}
    # A pod's ADM asks for its siblings before it starts, under one name in all services. Here it may have none.
    none = {SIBLINGS: message(ENDPOINTS, {"cluster_name": SIBLINGS})} if mode is Mode.POD else {}
    return replace(emitted, clusters=clusters, endpoints=none)
