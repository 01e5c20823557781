"""What a server has to know of its callers: who they are. Without a sidecar a caller cannot show it.

A server that requires mTLS, or that names identities in its rules, needs the sidecars of its callers, too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from admc.istio.in_force.authorization import never_matches, policies
from admc.istio.in_force.callers import Asked, Callers, asked, identity
from admc.istio.in_force.effects import Direction, Effect, Layer, What, key_of_place
from admc.istio.in_force.peer_authentication import Mode, modes
from admc.istio.in_force.registry import container_port
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Place, Proxy, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.istio.in_force.callers import Account
    from admc.istio.in_force.effects import PlaceKey
    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.view import View, WorkloadKey
    from admc.manifests.documents import Object

_HostKey = tuple[str, str]
"""Name and namespace of a host."""


class _OfHost(NamedTuple):
    """What the workloads behind one host ask of their callers."""

    strict: tuple[Place, ...]
    """Where mTLS is required."""
    policies: tuple[Asked, ...]


class _OfOne(NamedTuple):
    """A policy that names one caller."""

    place: Place
    hosts: frozenset[_HostKey]
    """Those of the servers that enforce it."""


class Demands:
    """What the servers of a view ask of their callers."""

    def __init__(self, view: View) -> None:
        listed = _policies_by_workload(view)
        callers = Callers(view.workloads, view.configuration.trust_domain)
        by_policy: dict[int, Asked] = {}
        enforced: dict[int, set[_HostKey]] = defaultdict(set)
        self._hosts: dict[_HostKey, _OfHost] = {}
        for host in view.hosts:
            strict: dict[PlaceKey, Place] = {}
            own: dict[int, Object] = {}
            for workload in filter(_has_proxy, host.workloads):
                strict.update({key_of_place(it): it for it in _strict(view, workload, host)})
                own.update({id(it): it for it in listed[key_of(workload)]})
            for key, manifest in own.items():
                if key not in by_policy:
                    by_policy[key] = asked(manifest, callers)
                enforced[key].add(_key(host))
            if strict or own:
                self._hosts[_key(host)] = _OfHost(tuple(strict.values()), tuple(by_policy[key] for key in own))
        self.namespaces = frozenset(name for one in by_policy.values() for name in one.of_namespaces)
        """Those of which a policy names all callers."""
        self._of_one: dict[Account, list[_OfOne]] = defaultdict(list)
        for key, one in by_policy.items():
            hosts = frozenset(enforced[key])
            for account, place in one.of_accounts.items():
                self._of_one[account].append(_OfOne(place, hosts))

    def effects_of_all(
        self, namespace: str, hosts: Iterable[Host], start: int
    ) -> tuple[list[Effect], Mapping[WorkloadKey, frozenset[int]]]:
        """One effect for each resource that needs the identity of all callers in a namespace, and the positions of
        those that one workload does not have, counted from `start`: it is no caller of its own host."""
        made: dict[PlaceKey, Effect] = {}
        servers: dict[PlaceKey, set[WorkloadKey | None]] = defaultdict(set)
        for host in hosts:
            for place in self._of_all(namespace, host):
                key = key_of_place(place)
                made.setdefault(key, _effect(host, place))
                servers[key].add(_only_server(host))
        except_for: dict[WorkloadKey, set[int]] = defaultdict(set)
        for position, key in enumerate(made, start):
            (server, *others) = servers[key]
            if server is not None and not others:
                except_for[server].add(position)
        return list(made.values()), {server: frozenset(listed) for server, listed in except_for.items()}

    def _of_all(self, namespace: str, host: Host) -> Iterator[Place]:
        demanded = self._hosts.get(_key(host))
        if demanded is None:
            return
        yield from demanded.strict
        for one in demanded.policies:
            place = one.of_namespaces.get(namespace, one.of_all)
            if place is not None:
                yield place

    def effects_of_one(self, caller: Workload, hosts: Mapping[str, Host]) -> Iterator[Effect]:
        """One effect for each resource that names a caller, and stands at a host that it calls."""
        for place, enforcing in self._of_one.get(identity(caller), ()):
            own = [name for name, namespace in enforcing if name in hosts and hosts[name].namespace == namespace]
            others = (hosts[name] for name in sorted(own) if _only_server(hosts[name]) != key_of(caller))
            host = next(others, None)
            if host is not None:
                yield _effect(host, place)


def _key(host: Host) -> _HostKey:
    return host.name, host.namespace


def _has_proxy(workload: Workload) -> bool:
    return bool(workload.number(Proxy.SIDECAR) or workload.number(Proxy.AMBIENT))


def _only_server(host: Host) -> WorkloadKey | None:
    """The workload behind a host, if it is a single one."""
    return key_of(host.workloads[0]) if len(host.workloads) == 1 else None


def _policies_by_workload(view: View) -> Mapping[WorkloadKey, list[Object]]:
    servers = {key_of(it): it for host in view.hosts for it in host.workloads}
    return {key: [it for it in policies(view, server) if not never_matches(it)] for key, server in servers.items()}


def _strict(view: View, server: Workload, host: Host) -> Iterator[Place]:
    own = modes(view, server.namespace, server)
    for port in host.ports:
        number = container_port(server, port.target)
        mode, place = own.all if number is None else own.at_port(number)
        if mode is Mode.STRICT and place is not None:
            yield place


def _effect(host: Host, place: Place) -> Effect:
    return Effect(Direction.OUTBOUND, None, host.name, place, Layer.CONNECTION, What.IDENTITY)
