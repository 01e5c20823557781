"""The facts of the cluster that a plan relies on (`admc.compile.facts`), and when they change.

    Selection --seen--> facts of each service --state machine--> the document in force

A worse fact counts at once: the plan in force may rely on something that is no longer true. A better fact counts after
five minutes. While a Deployment goes from one template to another, or a pod crashes again and again, a plan for each
state would cause one transition after the other. Facts contain neither pods nor their number, so autoscaling changes
nothing. A service that is scaled to zero keeps its facts, since no pod has shown better ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from admc.compile.facts import ServiceFacts, from_json, to_json
from admc.kubernetes.inject import security

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.kubernetes.cluster.core.selection import Selection

HOLD_SECONDS: Final = 300.0
"""How long a fact stays in force while none of the pods shows it any more."""
ShownFacts = frozenset[tuple[str, str]]
"""Facts (fields of `ServiceFacts`) that the pods of a service show at present, each with a reason."""


class Held(NamedTuple):
    """A fact in force."""

    reason: str
    unseen_since: float | None
    """On the caller's monotonic clock; None while a pod shows it, or the service has no pod."""


class FactState(NamedTuple):
    """The facts in force: (service, field) -> how each is held. Immutable."""

    held: Mapping[tuple[str, str], Held]

    @classmethod
    def restored(cls, document: bytes | None, now: float) -> FactState:
        """Return the state after a restart: facts in force stay, as if a pod had shown them until now. Raises
        `CommandError`."""
        facts = {} if document is None else from_json(document)
        return cls(
            {
                (name, field): Held(reason if isinstance(reason, str) else "", now)
                for name, service_facts in facts.items()
                for field, reason in service_facts._asdict().items()
                if reason
            }
        )

    def observed(self, name: str, seen: ShownFacts, now: float, *, has_pods: bool = True) -> FactState:
        """Return the state after a look at the pods of a service. Without a pod, nothing shows that a fact is over."""
        held = dict(self.held)
        for field in ServiceFacts._fields:
            reasons = {reason for shown, reason in seen if shown == field}
            before = held.get((name, field))
            if reasons:
                # One of several reasons is enough. It stays as long as it is true.
                kept = before is not None and before.reason in reasons
                held[name, field] = Held(before.reason if before is not None and kept else min(reasons), None)
            elif before is not None and not has_pods:
                held[name, field] = before._replace(unseen_since=None)
            elif before is not None and before.unseen_since is None:
                held[name, field] = before._replace(unseen_since=now)
        return self if held == self.held else FactState(held)

    def at(self, now: float) -> FactState:
        """Return the state without the facts that no pod has shown for long enough."""
        held = {key: fact for key, fact in self.held.items() if not _is_over(fact, now)}
        return self if len(held) == len(self.held) else FactState(held)

    def of(self, names: Mapping[str, object]) -> FactState:
        """Return the facts of the services of a program."""
        return FactState({key: fact for key, fact in self.held.items() if key[0] in names})

    @property
    def next_change(self) -> float | None:
        """When `at` will return another state if no pod changes; None if it never will."""
        since = [fact.unseen_since for fact in self.held.values() if fact.unseen_since is not None]
        return min(since) + HOLD_SECONDS if since else None

    def document(self) -> bytes:
        held = self.held
        return to_json({name: _facts(held, name) for name, _ in held})


def seen(selection: Selection, name: str) -> ShownFacts:
    """Return the facts that the pods of a service and their namespace show at present; without pods, those of the
    namespace."""
    return frozenset(_seen(selection, name))


def _seen(selection: Selection, name: str) -> Iterator[tuple[str, str]]:
    namespace = selection.namespace(name)
    if namespace is not None and (why := security.forbids_adms(namespace.labels)):
        yield "no_adm", why
    for pod in selection.pods(name).values():
        if pod.host_network:
            yield "host_network", ""
        if pod.hosts_no_adm:
            yield "no_adm", pod.hosts_no_adm
        if pod.untrusted:
            yield "untrusted", pod.untrusted


def _facts(held: Mapping[tuple[str, str], Held], name: str) -> ServiceFacts:
    no_adm, untrusted = (held.get((name, field)) for field in ("no_adm", "untrusted"))
    return ServiceFacts(
        host_network=(name, "host_network") in held,
        no_adm="" if no_adm is None else no_adm.reason,
        untrusted="" if untrusted is None else untrusted.reason,
    )


def _is_over(held: Held, now: float) -> bool:
    return held.unseen_since is not None and now >= held.unseen_since + HOLD_SECONDS
