"""Configuration of ADMs for the random walk: real messages of xDS, with content that is quickly made and read.

    hops of a plan, or of a step  -->  Snapshot: one listener, a route table and filter configurations by chain

Names, references and the order of updates are as in Envoy's configuration. What a route table or a filter does is kept
aside, by digest: emission for Envoy has its own tests, and takes most of the time.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from envoy.config.core.v3 import config_source_pb2, extension_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as http_pb2
from google.protobuf import wrappers_pb2

from admc.serve.compiling.snapshots import SnapshotSet
from admc.serve.rollout.model import Placed, Plan
from emitters.envoy import trial
from emitters.envoy.chains.chain_names import chain_name
from emitters.envoy.names import filter_name
from emitters.hops import hops
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import TRIAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from admc.serve.compiling.source import State
    from admc.serve.rollout.model import HopPart, Step
    from dsl.program import Policy
    from emitters.addresses import Addresses
    from emitters.envoy import Mode
    from emitters.hops import Hop

PASSTHROUGH: Final = "passthrough"
_ADS: Final = config_source_pb2.ConfigSource(ads=config_source_pb2.AggregatedConfigSource())
_CONTENT: Final[dict[str, Any]] = {}
"""Digest -> what a route table or a filter does."""


class Act(NamedTuple):
    """What a policy does to requests of some callers."""

    name: str
    kind: str
    arguments: str
    match: str
    sources: frozenset[str]


class Table(NamedTuple):
    """What a route table does: the filters that requests meet, without the marker and with it."""

    unmarked: tuple[str, ...]
    marked: tuple[str, ...] | None = None
    """None: the marker means nothing, and stays on the request."""
    marks: bool = False
    secret: str = ""
    addresses: tuple[str, ...] = ()


class Chain(NamedTuple):
    """A filter chain in a listener."""

    table: str
    """The name of its route table; empty where connections pass through."""
    filters: tuple[str, ...]


class _Own(NamedTuple):
    """A hop's chain in one plan."""

    name: str
    filters: Mapping[str, Policy]


def act(policy: Policy) -> Act:
    arguments = repr(sorted(policy.arguments.items()))
    return Act(policy.name, policy.kind.name, arguments, repr(policy.match), policy.sources)


# ---- what is published ----


def resting(state: State) -> SnapshotSet:
    """In the place of `snapshots`: all snapshots of a plan at rest."""
    found = {
        service: _snapshot([_rest(hop, state.addresses) for hop in held])
        for service, held in hops(state.program, state.placement).items()
    }
    return SnapshotSet(found, nothing())


@cache
def nothing() -> Snapshot:
    """In the place of `passthrough`: the snapshot of a service without an ADM."""
    return _snapshot(())


def stepping(step: Step, addresses: Addresses, mode: Mode, only: Collection[str] | None = None) -> dict[str, Snapshot]:
    """In the place of `resources`: the snapshots of a step."""
    own = {
        plan: {(service, hop.name): hop for service, held in hops(*placed).items() for hop in held}
        for plan, placed in ((Plan.OLD, step.old), (Plan.NEW, step.new))
    }
    return {
        service: _snapshot([_stepping(service, part, step, own, addresses) for part in parts])
        for service, parts in step.parts.items()
        if only is None or service in only
    }


class _Made(NamedTuple):
    """The configuration of one hop."""

    hop: Hop
    chain: Chain
    table: Table
    filters: Mapping[str, Act]


def _rest(hop: Hop, addresses: Addresses) -> _Made:
    own = _own(hop.name, hop.policies)
    table = Table(tuple(own.filters), addresses=addresses.pod_addresses(hop.destination))
    acts = {name: act(policy) for name, policy in own.filters.items()}
    return _Made(hop, Chain(own.name, tuple(own.filters)), table, acts)


def _own(hop: str, policies: Sequence[Policy]) -> _Own:
    chain = chain_name(hop, [filter_name("", policy) for policy in policies])
    return _Own(chain, {filter_name(chain, policy): policy for policy in policies})


def _stepping(
    service: str, part: HopPart, step: Step, own: Mapping[Plan, Mapping[tuple[str, str], Hop]], addresses: Addresses
) -> _Made:
    hop = part.hop
    if part.plan is not None:
        return _rest(own[part.plan][service, hop.name], addresses)
    held = {each: found.get((service, hop.name)) for each, found in own.items()}
    chains = {each: _own(hop.name, () if it is None else it.policies) for each, it in held.items()}
    if part.differs and len({each.name for each in chains.values()}) == 1:
        chains = {each: _apart(hop.name, each, own_) for each, own_ in chains.items()}  # as in `resources`
    old, new = chains[Plan.OLD], chains[Plan.NEW]
    name = new.name if old.name == new.name else chain_name(hop.name, [old.name, new.name])
    acts = {each: act(policy) for own_ in (old, new) for each, policy in own_.filters.items()}
    following = {each.rpartition("/")[2]: each for each in new.filters}
    for each in old.filters:
        suffix = each.rpartition("/")[2]
        if each not in new.filters and f"/{suffix}" in part.steady:
            acts[each] = acts[following[suffix]]  # as in `resources`: a guard that stays has its new arguments
    overlay = step.overlays[service, hop.name]
    table = Table(
        tuple(chains[overlay.unmarked].filters),
        None if overlay.marked is None else tuple(chains[overlay.marked].filters),
        overlay.marks,
        overlay.secret,
        addresses.pod_addresses(hop.destination),
    )
    return _Made(hop, Chain(name, tuple(dict.fromkeys((*old.filters, *new.filters)))), table, acts)


def _apart(hop: str, plan: Plan, own: _Own) -> _Own:
    name = chain_name(hop, [own.name, plan])
    return _Own(name, {name + each.removeprefix(own.name): policy for each, policy in own.filters.items()})


def _snapshot(made: Sequence[_Made]) -> Snapshot:
    beside = sorted(each.hop.name for each in made)
    passing = chain_name(PASSTHROUGH, beside)
    chains = {f"{each.hop.name} at {each.hop.port.target}": each.chain for each in made}
    listener = listener_pb2.Listener(name="both")
    for name, chain in chains.items():
        listener.filter_chains.add(name=name).filters.add(name="http").typed_config.Pack(_manager(chain))
    listener.filter_chains.add(name=PASSTHROUGH).filters.add(name=passing).config_discovery.CopyFrom(_discovery())
    extensions = {name: found for each in made for name, found in each.filters.items()}
    configs = [_extension(name, found) for name, found in sorted(extensions.items())]
    configs.append(_extension(passing, None))
    return Snapshot.of(
        [
            Resource.of(listener),
            Resource.of(trial.listener(TRIAL)),
            Resource.of(_extension(TRIAL, tuple((each.name, each.typed_config.value) for each in configs))),
            *(Resource.of(each) for each in configs),
            *(Resource.of(_route(each.chain.table, each.table)) for each in made),
        ]
    )


def _manager(chain: Chain) -> http_pb2.HttpConnectionManager:
    manager = http_pb2.HttpConnectionManager(stat_prefix="http")
    manager.rds.route_config_name = chain.table
    manager.rds.config_source.CopyFrom(_ADS)
    for name in chain.filters:
        manager.http_filters.add(name=name).config_discovery.CopyFrom(_discovery())
    return manager


@cache
def _discovery() -> config_source_pb2.ExtensionConfigSource:
    kind = f"type.googleapis.com/{wrappers_pb2.StringValue.DESCRIPTOR.full_name}"
    return config_source_pb2.ExtensionConfigSource(config_source=_ADS, type_urls=[kind])


def _route(name: str, table: Table) -> route_pb2.RouteConfiguration:
    return route_pb2.RouteConfiguration(name=name, internal_only_headers=[_token(table)])


def _extension(name: str, content: object) -> extension_pb2.TypedExtensionConfig:
    found = extension_pb2.TypedExtensionConfig(name=name)
    found.typed_config.Pack(wrappers_pb2.StringValue(value=_token(content)))
    return found


def _token(content: Any) -> str:
    text = repr(content._replace(sources=sorted(content.sources)) if isinstance(content, Act) else content)
    token = hashlib.sha256(text.encode()).hexdigest()[:16]
    _CONTENT[token] = content
    return token


# ---- what a proxy reads ----


@cache
def chains_of(body: bytes) -> Mapping[str, Chain]:
    """The filter chains of a listener: hops by the name of their capture, and what passes through."""
    found = {}
    for chain in listener_pb2.Listener.FromString(body).filter_chains:
        (last,) = chain.filters
        if last.HasField("config_discovery"):
            found[chain.name] = Chain("", (last.name,))
            continue
        manager = http_pb2.HttpConnectionManager()
        last.typed_config.Unpack(manager)
        filters = tuple(each.name for each in manager.http_filters if each.HasField("config_discovery"))
        found[chain.name] = Chain(manager.rds.route_config_name, filters)
    return found


@cache
def table_of(body: bytes) -> Table:
    (token,) = route_pb2.RouteConfiguration.FromString(body).internal_only_headers
    found: Table = _CONTENT[token]
    return found


@cache
def act_of(body: bytes) -> Act | None:
    value = wrappers_pb2.StringValue()
    extension_pb2.TypedExtensionConfig.FromString(body).typed_config.Unpack(value)
    found: Act | None = _CONTENT[value.value]
    return found


# ---- what requests have to meet ----


def ends(source: str, destination: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Service and hop of both ends of a call."""
    return (source, f"egress/{destination}:80"), (destination, "ingress/80")


def enforced(
    placed: Placed, source: str, destination: str, missed: Collection[tuple[str, str]] = ()
) -> tuple[Act, ...]:
    """What a plan enforces on the requests of a call, once. `missed`: service and hop without redirection."""
    found: list[Act] = []
    for service, name in ends(source, destination):
        for hop in hops(*placed).get(service, ()):
            if hop.name == name and (service, name) not in missed:
                found += [act(policy) for policy in hop.policies if source in policy.sources]
    return tuple(found)


def in_place(plans: Iterable[Placed]) -> frozenset[str]:
    """Policies that one hop has with different arguments in two of these plans: these change where they are."""
    seen: dict[tuple[str, str, str], set[str]] = {}
    for placed in plans:
        for service, held in hops(*placed).items():
            for hop in held:
                for policy in hop.policies:
                    seen.setdefault((service, hop.name, policy.name), set()).add(act(policy).arguments)
    return frozenset(name for (_, _, name), arguments in seen.items() if len(arguments) > 1)
