"""Closes destinations by NetworkPolicies of the cluster, and keeps track of which of them are closed.

ask(...) --needed--> refresh: server-side apply --> cluster --watch--> changed(...) --a wait--> closed

No API shows when a network plugin enforces a policy. So a destination counts as closed only some time after the watch
first saw its policy. That time begins anew when the policy changes, and when this process starts. No question costs a
request to the API server: the watch shows the policies of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.api.errors import ApiError, is_refusal
from admc.kubernetes.cluster.closing import findings
from admc.kubernetes.cluster.closing.admission import admits_more
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.cluster.retry_loop import ChangedKeys, retry_while_pending
from emitters.kubernetes import closed_by_selector, kubernetes_name
from emitters.kubernetes.network_policies import NAME_PREFIX

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.program.owner import Owner
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Service
    from emitters.kubernetes import Closed, ClosedTargets

PATH: Final = "/apis/networking.k8s.io/v1/namespaces/{0.namespace}/networkpolicies/{0.name}"
CLOSED_SECONDS: Final = 10.0
"""How long a policy has to have been seen in the cluster before its destination counts as closed. Network plugins
follow the API server within a second or two; this leaves them time on a busy node."""
LOOK_SECONDS: Final = 1.0
"""The time between two checks whether this replica serves."""

Selectors = Mapping[str, Mapping[str, str]]
"""Service -> the selector of its Service, if it has one."""


class NetworkPolicy(NamedTuple):
    """A NetworkPolicy of the cluster."""

    key: Key
    uid: str
    generation: int
    controller: str
    """The installation that wrote it; empty if another writer did."""
    owners: tuple[str, ...]
    """`uid` of each object that owns it."""
    is_going: bool
    spec: Mapping[str, Any]

    @property
    def version(self) -> tuple[str, int]:
        """The version differs after each change of the connections that the policy admits."""
        return self.uid, self.generation

    @property
    def object(self) -> Mapping[str, Any]:
        return {"metadata": {"namespace": self.key.namespace, "name": self.key.name}, "spec": self.spec}


def network_policy(document: Mapping[str, Any]) -> NetworkPolicy:
    """Return the record of a NetworkPolicy."""
    metadata = document["metadata"]
    return NetworkPolicy(
        Key(metadata["namespace"], metadata["name"]),
        metadata["uid"],
        metadata.get("generation", 0),
        (metadata.get("labels") or {}).get(CONTROLLER, ""),
        tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        "deletionTimestamp" in metadata,
        document.get("spec") or {},
    )


class _DestinationPolicy(NamedTuple):
    """The policy that a destination needs, and the targets that it closes."""

    key: Key
    policy: dict[str, Any]
    targets: frozenset[int]


@dataclass(eq=False)
class ClusterClosing:
    """Implements `Closing` (admc.serve.environment)."""

    api: Api
    controller: str
    """The name of the installation."""
    owner: Callable[[], Owner]
    """The Program that is served."""
    in_cluster: Mapping[Key, NetworkPolicy]
    """All NetworkPolicies of the cluster, as records of a watch."""
    selectors: Callable[[], Selectors]
    may_write: Callable[[], bool] = lambda: True
    """Whether this replica is the one that serves. Another replica would remove policies that the serving one needs.
    Checked before each write."""
    seconds: float = CLOSED_SECONDS
    shown: ChangedKeys = field(default_factory=ChangedKeys)
    """Which of them the watch has shown anew. Its clock is that of all times here."""
    _asked_for: dict[str, ClosedTargets] = field(default_factory=dict)
    """The destinations that have to be closed, with their targets."""
    _selected: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The selectors from which `_needed` was computed."""
    _needed: dict[str, _DestinationPolicy] = field(default_factory=dict)
    _findings: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    """Destination for which there is no policy -> why."""
    _since: dict[Key, tuple[tuple[str, int], float]] = field(default_factory=dict)
    """When the present version of each policy was first seen, by the clock of `shown`."""
    _others: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    """Destination -> the other policies that admit more; empty until they are first asked for."""
    _compared: dict[tuple[str, Key], tuple[tuple[str, int], bool]] = field(default_factory=dict)
    _sent: dict[Key, dict[str, Any]] = field(default_factory=dict)
    """Policies that were applied and that the watch has not shown yet."""
    _refused: dict[Key, str] = field(default_factory=dict)
    """Why the API server refuses a policy."""
    _asked: bool = False
    """The server has named the destinations that have to be closed, so admc's other policies may be removed."""

    def __post_init__(self) -> None:
        self.shown.take()
        for policy in self.in_cluster.values():
            self._seen(policy, self.shown.clock())

    def ask(self, destinations: Mapping[str, ClosedTargets]) -> None:
        self._asked_for = dict(destinations)
        self._asked = True
        self._plan(dict(self.selectors()))

    def missing(self, destinations: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in sorted(destinations) if not self.is_closed(name))

    @property
    def text(self) -> str:
        """Empty: the server writes the NetworkPolicies itself, and the status of the Program names those that lack."""
        return ""

    @property
    def open(self) -> tuple[str, ...]:
        """The destinations that have to be closed, and are not known to be."""
        return self.missing(self._asked_for)

    def is_closed(self, destination: str) -> bool:
        """Whether the destination's policy has been there for long enough, is not that of another installation, and no
        other policy admits more."""
        self._look()
        needed = self._needed.get(destination)
        if needed is None or not self._is_there(needed) or self._is_anothers(needed) or self._more(destination):
            return False
        now = self.shown.clock()
        return now - self._seen(self.in_cluster[needed.key], now) >= self.seconds

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Why destinations that have to be closed cannot be, in the order of their names."""
        self._look()
        diagnostics: list[Diagnostic] = []
        for name in sorted(self._asked_for):
            diagnostics += self._findings.get(name, ())
            needed = self._needed.get(name)
            if needed is None:
                continue
            service = self._asked_for[name].program.services[name]
            if self._is_anothers(needed):
                diagnostics.append(findings.anothers(service, needed.key, self.in_cluster[needed.key].controller))
            if more := self._more(name):
                diagnostics.append(findings.admits_more(service, more))
            if (why := self._refused.get(needed.key)) and not self._is_there(needed):
                diagnostics.append(findings.not_written(service, needed.key, why))
        return tuple(diagnostics)

    @property
    def pending(self) -> asyncio.Event:
        """Set if `refresh` may have something to do."""
        return self.shown.pending

    def _look(self) -> None:
        """Take note of the changes that the watch has shown."""
        for key, seconds in self.shown.take().items():
            self._sent.pop(key, None)
            policy = self.in_cluster.get(key)
            if policy is None:
                self._since.pop(key, None)
            else:
                self._seen(policy, seconds)
            self._others.clear()

    def plan(self) -> None:
        """Compute the policies anew if selectors have changed, and wake `run`, which writes those that differ: the
        Program that owns them may have changed too."""
        selectors = dict(self.selectors())
        if selectors != self._selected:
            self._plan(selectors)
        self.pending.set()

    def _plan(self, selectors: dict[str, Mapping[str, str]]) -> None:
        """Compute which policies the cluster has to have."""
        self._needed, self._findings, self._selected = {}, {}, selectors
        self._refused.clear()
        taken: dict[Key, str] = {}
        for name, closed in closed_by_selector(self._asked_for, selectors).items():
            targets = self._asked_for[name]
            self._plan_one(targets.program.services[name], frozenset(targets.admitted), closed, taken)
        self._others.clear()
        self._compared.clear()
        self.pending.set()

    def _plan_one(self, service: Service, targets: frozenset[int], closed: Closed, taken: dict[Key, str]) -> None:
        key = _key(service)
        if closed.policy is None:
            self._findings[service.name] = closed.findings
        elif (first := taken.setdefault(key, service.name)) != service.name:
            self._findings[service.name] = (findings.one_name(service, first, key),)
        else:
            self._needed[service.name] = _DestinationPolicy(key, closed.policy, targets)

    async def run(self) -> None:
        """Keep the policies in the cluster as computed, until cancelled."""
        await retry_while_pending(self.pending, self._refresh_when_active, "network policies")

    async def _refresh_when_active(self) -> None:
        while not self.may_write():
            await asyncio.sleep(LOOK_SECONDS)
        await self.refresh()

    async def refresh(self) -> None:
        """Write the policies that the cluster lacks or has in another form. Once `ask` was called, remove the
        installation's policies of all destinations that need not be closed. A policy of another installation stays as
        it is. A policy that the API server refuses does not stop the others. Raises the first `ApiError`."""
        self.pending.clear()
        self._look()
        refused: list[ApiError] = []
        try:
            for request in self._due():
                try:
                    await self._write(request)
                except ApiError as error:
                    if not is_refusal(error):
                        raise
                    refused.append(error)
            if refused:
                raise refused[0]
        except BaseException:
            self.pending.set()
            raise

    def _due(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the requests that have to be made. Whether a request is needed is checked when the caller asks for
        it."""
        for needed in list(self._needed.values()):
            if not self._is_written(needed) and not self._is_anothers(needed):
                yield self._apply(needed)
        for policy in self._useless():
            yield self._delete(policy)

    async def _write(self, request: Coroutine[Any, Any, None]) -> None:
        if self.may_write():
            await request
        else:
            request.close()
            self.pending.set()

    def _is_anothers(self, needed: _DestinationPolicy) -> bool:
        """Whether another installation has a policy of that name."""
        policy = self.in_cluster.get(needed.key)
        return policy is not None and policy.controller not in ("", self.controller)

    def _seen(self, policy: NetworkPolicy, now: float) -> float:
        """Return when this version of a policy was first seen; `now`, if it was not seen before."""
        version, since = self._since.get(policy.key, (None, 0.0))
        if version != policy.version:
            since = now
            self._since[policy.key] = policy.version, since
        return since

    async def _apply(self, needed: _DestinationPolicy) -> None:
        """Apply a policy once, until the watch shows it."""
        body = self._object(needed)
        if self._sent.get(needed.key) != body:
            try:
                await self.api.apply(PATH.format(needed.key), body)
            except ApiError as error:
                if is_refusal(error):
                    self._refused[needed.key] = str(error)
                raise
            self._refused.pop(needed.key, None)
            self._sent[needed.key] = body

    async def _delete(self, policy: NetworkPolicy) -> None:
        try:
            await self.api.delete(PATH.format(policy.key), uid=policy.uid)
        except ApiError as error:
            # If it is gone, or another one has its name, the watch will show that.
            if not error.is_not_found and not error.is_conflict:
                raise

    def _object(self, needed: _DestinationPolicy) -> dict[str, Any]:
        metadata = needed.policy["metadata"]
        return {
            **needed.policy,
            "metadata": {
                **metadata,
                "labels": {**metadata["labels"], CONTROLLER: self.controller},
                "ownerReferences": [self.owner().reference],
            },
        }

    def _is_there(self, needed: _DestinationPolicy) -> bool:
        """Whether the cluster has the policy with the same spec."""
        policy = self.in_cluster.get(needed.key)
        return policy is not None and not policy.is_going and policy.spec == needed.policy["spec"]

    def _is_written(self, needed: _DestinationPolicy) -> bool:
        """Whether the cluster has the policy, its label and its owner."""
        policy = self.in_cluster.get(needed.key)
        if policy is None or not self._is_there(needed):
            return False
        return policy.controller == self.controller and self.owner().uid in policy.owners

    def _useless(self) -> list[NetworkPolicy]:
        if not self._asked:
            return []
        # A policy that cannot be made anew stays as it is: without it its destination would be open.
        kept = {_key(closed.program.services[name]) for name, closed in self._asked_for.items()}
        return [
            policy
            for key, policy in sorted(self.in_cluster.items())
            if policy.controller == self.controller
            and key.name.startswith(NAME_PREFIX)
            and key not in kept
            and not policy.is_going
        ]

    def _more(self, destination: str) -> tuple[Key, ...]:
        """Return the other policies that admit more to a destination."""
        if not self._others:
            self._others.update(self._policies_admitting_more())
        return self._others.get(destination, ())

    def _policies_admitting_more(self) -> dict[str, tuple[Key, ...]]:
        # An altered policy of admc counts as another writer's until it is written again.
        own_keys = {needed.key for needed in self._needed.values() if self._is_there(needed)}
        others: dict[str, list[NetworkPolicy]] = {}
        for key, policy in sorted(self.in_cluster.items()):
            if key not in own_keys:
                others.setdefault(key.namespace, []).append(policy)
        return {
            name: tuple(
                policy.key
                for policy in others.get(needed.key.namespace, ())
                if policy.key != needed.key and self._admits_more(name, needed, policy)
            )
            for name, needed in self._needed.items()
        }

    def _admits_more(self, name: str, needed: _DestinationPolicy, policy: NetworkPolicy) -> bool:
        """Compare once for each version of the other policy: there may be many of both."""
        version, more = self._compared.get((name, policy.key), (None, False))
        if version != policy.version:
            more = admits_more(needed.policy, needed.targets, policy.object)
            self._compared[name, policy.key] = policy.version, more
        return more


def _key(service: Service) -> Key:
    return Key(service.namespace, NAME_PREFIX + kubernetes_name(service.name))
