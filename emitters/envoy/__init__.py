"""The Envoy emitter.

    program + placement + addresses -> [AdmResources for each ADM] -> bootstraps, or an xDS server's snapshots

The order of reading: `hops.Hop` (which policies an ADM enforces on which connections), `kinds` (what a policy becomes),
`chains` (a hop's filter chains, routes and clusters), `listeners` (all of one ADM), `bootstrap` (as files). `checks`
reports what Envoy cannot express; `matching` and `messages` are what all of them are written in.
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
    """What Envoy cannot express, whatever the addresses are: the findings of `emit` that need no addresses.

    It counts the declared replicas, so a limit that they cannot share is found before any is running.
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

    Raises `EmitError` where Envoy cannot express what is asked. `waiting` is for a server that changes them while they
    run: both directions have a listener, whether they are needed now or not. A missing address is no error there: the
    server learns it later and emits again, and until then the listeners refuse connections that it may belong to. For
    redirection only. `enforced` is the result of `hops`, where the caller has it already. `by_chain` is for proxies
    that subscribe to resources by name (`chain_names`). `checked`: the policies were found to be expressible before.
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

    Every service gets the same ones; None for a program without a service. They come from a server in any case, so they
    have names by chain: it sees which connections pass through an older chain.
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
    # A pod's ADM asks for its siblings before it starts, under one name in all services, and needs none of them here.
    none = {SIBLINGS: message(ENDPOINTS, {"cluster_name": SIBLINGS})} if mode is Mode.POD else {}
    return replace(emitted, clusters=clusters, endpoints=none)
