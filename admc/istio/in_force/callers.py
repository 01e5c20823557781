"""Callers, by the identities that rules of an AuthorizationPolicy name."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from glob import escape
from typing import TYPE_CHECKING, NamedTuple

from admc.istio.in_force.authorization import conditions, is_by_identity, rules
from admc.istio.in_force.registry import pod_spec
from admc.istio.mesh.model import Place, Workload
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.istio.in_force.authorization import Condition
    from admc.manifests.documents import Object


class Account(NamedTuple):
    """A service account, which is the identity of pods."""

    namespace: str
    name: str


class Asked(NamedTuple):
    """The callers that have to show who they are, each with the first rule for which they have to."""

    of_all: Place | None
    of_namespaces: Mapping[str, Place]
    """For all callers of a namespace."""
    of_accounts: Mapping[Account, Place]


class _Named(NamedTuple):
    namespaces: Iterable[str] = ()
    accounts: Iterable[Account] = ()


def identity(workload: Workload) -> Account:
    return Account(workload.namespace, str(at(pod_spec(workload), ("serviceAccountName",)) or "default"))


class Callers:
    """The identities of workloads, by their principals and namespaces."""

    def __init__(self, workloads: Iterable[Workload], trust_domain: str) -> None:
        self._trust_domain = trust_domain
        self._namespaces: dict[str, set[Account]] = defaultdict(set)
        for workload in workloads:
            self._namespaces[workload.namespace].add(identity(workload))
        self._principals = {
            f"{trust_domain}/ns/{it.namespace}/sa/{it.name}": it for own in self._namespaces.values() for it in own
        }
        self._known: dict[str, _Named] = {}

    def named(self, condition: Condition, manifest: Object) -> Iterable[_Named]:
        """Those that a field of a rule names: whole namespaces, and single ones."""
        for value in condition.values:
            if condition.name == "principals":
                yield self._by_principal(value)
            elif condition.name == "namespaces":
                yield _Named(_alike(value, self._namespaces))
            elif condition.name == "trustDomains":
                yield _Named(self._namespaces if _like(value, self._trust_domain) else ())
            else:
                namespace, _, name = value.rpartition("/")
                yield _Named((), (Account(namespace or manifest.namespace, name),))

    def _by_principal(self, value: str) -> _Named:
        if value not in self._known:
            own = {self._principals[it] for it in _alike(value, self._principals)}
            whole = {name for name in {it.namespace for it in own} if self._namespaces[name] <= own}
            self._known[value] = _Named(whole, tuple(it for it in own if it.namespace not in whole))
        return self._known[value]


def asked(manifest: Object, callers: Callers) -> Asked:
    """The callers for which a policy has a rule by identity: it names the caller, or all but some."""
    namespaces: dict[str, Place] = {}
    accounts: dict[Account, Place] = {}
    for index, rule in enumerate(rules(manifest)):
        place = Place(manifest, ("spec", "rules", index))
        by_identity = [it for it in conditions(rule) if is_by_identity(it)]
        if any(it.is_negative for it in by_identity):
            return Asked(place, namespaces, accounts)
        for named in (it for condition in by_identity for it in callers.named(condition, manifest)):
            for name in named.namespaces:
                namespaces.setdefault(name, place)
            for account in named.accounts:
                accounts.setdefault(account, place)
    return Asked(None, namespaces, accounts)


def _alike(pattern: str, texts: Mapping[str, object]) -> list[str]:
    """Those of some texts that a pattern with `*` matches."""
    if "*" not in pattern:
        return [pattern] if pattern in texts else []
    return [text for text in texts if _like(pattern, text)]


def _like(pattern: str, text: str) -> bool:
    """`fnmatchcase` takes no way back, so that a name with many `*` takes little time."""
    return fnmatchcase(text, "*".join(map(escape, pattern.split("*"))))
