"""The NetworkPolicies that close destinations (rule R7).

A policy for every caller can be enforced at the senders only if no other caller reaches the ports that it is about. For
each destination in `Placement.closed` there is one object. At the targets of these ports it admits only the parties of
`admitted_parties`, and over UDP and SCTP none. At all other ports it admits every caller: a NetworkPolicy would
otherwise cut metrics and ports of peers. `docs/interception.md` lists the assumptions.

Objects are plain dicts in the shape of `networking.k8s.io/v1`; the order of their keys and lists is canonical.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import Mark, Place
from dsl.syntax.tokens import label_text
from emitters.errors import EmitError
from emitters.yaml_writer import dump
from solver.placement import admitted_parties

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import External, Program, Service
    from solver.placement import Placement

NAME_PREFIX: Final = "admc-close-"
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
LAST_PORT: Final = 65535
_NAMED: Final = 3
"""Most services that a finding names; it counts all others."""
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_LABEL_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check(program: Program, placement: Placement) -> tuple[Diagnostic, ...]:
    """The findings about destinations that no NetworkPolicy can close."""
    try:
        network_policies(program, placement)
    except EmitError as error:
        return error.diagnostics
    return ()


def network_policies(program: Program, placement: Placement) -> tuple[dict[str, object], ...]:
    """One NetworkPolicy for each closed destination, sorted by service.

    Raises `EmitError` with the findings if Kubernetes cannot express a policy: names or labels that are not legal
    there, two services that get one name, labels that cannot tell one service's pods from another's, and senders
    without an address of their own.
    """
    findings = Diagnostics()
    needed_by: dict[str, list[str]] = {}
    for decision in placement.decisions:
        if decision.closes:
            needed_by.setdefault(decision.destination, []).append(decision.policy)
    targets = placement.closed_targets(program)
    admitted = admitted_parties(program, placement)
    parties = _Parties(program, _Selectors(_Labels(program), findings))
    named: dict[tuple[str, str], Service] = {}
    objects = []
    for name in placement.closed:
        service = program.services[name]
        key = (service.namespace, _object_name(service, findings))
        if key in named:
            findings.error(
                "ADM781",
                f"`{named[key].name}` and `{name}` would both be closed by a NetworkPolicy named `{key[1]}`",
                service.span,
                cause="Kubernetes names have no capital letters and no `_`, so different names can become one",
                hint="rename one of them, or move it to another namespace",
                related=(Related(named[key].span, "the other one"),),
            )
        named[key] = service
        by_target = {target: (parties, admitted[name, target]) for target in sorted(targets[name])}
        objects.append(_close(parties, name, key[1], by_target, needed_by.get(name, ()), findings))
    parties.selectors.report(_at_ingress_instead(placement))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(objects)


def _at_ingress_instead(placement: Placement) -> dict[str, list[str]]:
    """Closed destination -> the policies that need it closed, if all of these may be at its ingress as well."""
    policies: dict[str, list[str]] = {}
    bound: set[str] = set()
    for decision in placement.decisions:
        if decision.closes:
            policies.setdefault(decision.destination, []).append(decision.policy)
            if decision.place is Place.BOTH or decision.ruled_out[Place.INGRESS] is not None:
                bound.add(decision.destination)
    return {destination: names for destination, names in policies.items() if destination not in bound}


class Admitted(NamedTuple):
    """The parties that are admitted to a closed target, and the program that declares them."""

    program: Program
    parties: frozenset[str]


class ClosedTargets(NamedTuple):
    """What closes a destination: the program that describes it, and the parties that it admits to each target."""

    program: Program
    admitted: Mapping[int, Admitted]
    """By closed target. During a rollout, targets may be closed by different programs."""
    stated: bool = False
    """Whether a program that closes the destination says `network_policies enforced`."""


class Closed(NamedTuple):
    """The NetworkPolicy of one destination, or None and findings if Kubernetes cannot express it."""

    policy: dict[str, object] | None
    findings: tuple[Diagnostic, ...] = ()


def closed_by_selector(
    destinations: Mapping[str, ClosedTargets], selectors: Mapping[str, Mapping[str, str]]
) -> dict[str, Closed]:
    """The NetworkPolicies of some destinations in a cluster, where the selector of a Service has the labels of its
    pods.

    `selectors` are those of the cluster's Services. A sender without a Service has no pods, so no policy admits it. A
    Service with an empty selector has pods that no label selects.
    """
    programs = {id(it): it for closed in destinations.values() for it in _programs(closed)}
    shared = {
        key: _Parties(program, _Selectors(_Labels(program, selectors), Diagnostics()))
        for key, program in programs.items()
    }
    return {name: _closed_by_selector(name, closed, shared) for name, closed in destinations.items()}


def _programs(closed: ClosedTargets) -> Iterator[Program]:
    yield closed.program
    yield from (admitted.program for admitted in closed.admitted.values())


def _closed_by_selector(name: str, closed: ClosedTargets, shared: Mapping[int, _Parties]) -> Closed:
    findings = Diagnostics()
    own = {key: shared[key].reporting_to(findings) for key in dict.fromkeys(map(id, _programs(closed)))}
    by_target = {
        target: (own[id(admitted.program)], admitted.parties) for target, admitted in sorted(closed.admitted.items())
    }
    object_name = _object_name(closed.program.services[name], findings)
    policy = _close(own[id(closed.program)], name, object_name, by_target, (), findings)
    for parties in own.values():
        parties.selectors.report({})
    return Closed(None if findings.has_errors else policy, tuple(findings.items))


class _Parties:
    """The parties of a program, as a NetworkPolicy names them."""

    def __init__(self, program: Program, selectors: _Selectors) -> None:
        self.program = program
        self.selectors = selectors

    def reporting_to(self, findings: Diagnostics) -> _Parties:
        """The same with findings of its own."""
        return _Parties(self.program, self.selectors.reporting_to(findings))

    def may_send(self, name: str) -> bool:
        """Whether a party may have pods, or is outside of the mesh."""
        return name in self.program.externals or self.selectors.is_there(name)

    def peers(
        self, sender: str, destination: Service, allowed: frozenset[str], findings: Diagnostics
    ) -> tuple[_Peer, ...]:
        """The senders of connections as a NetworkPolicy names them; labels may also select the pods of `allowed`."""
        service = self.program.services.get(sender)
        if service is not None:
            return (_service_peer(service, destination, allowed, self.selectors, findings),)
        return _external_peers(self.program.externals[sender], destination, findings)


def to_yaml(objects: Iterable[Mapping[str, object]]) -> str:
    """The objects as one YAML stream for `kubectl apply -f`; an empty string without objects."""
    return "".join("---\n" + dump(dict(item)) for item in objects)


def kubernetes_name(name: str) -> str:
    """An admc name as part of a Kubernetes object's name: lower case, `_` written as `-`, none at its end."""
    return name.lower().replace("_", "-").rstrip("-")


def pod_labels(service: Service) -> dict[str, str]:
    """The labels that select a service's pods: those in the program, or else `app: NAME`."""
    return dict(sorted(service.labels.items())) if service.labels else {"app": service.name}


def _told_apart(labels: Mapping[str, str]) -> str:
    """The `labels` item of a program with one more label, whose value is the service's own name."""
    own = next(key for key in ("app", "name", *(f"app-{number}" for number in range(len(labels)))) if key not in labels)
    few = [label_text(key, value) for key, value in list(labels.items())[:_NAMED]]
    return f"labels {{ {'  '.join([own, *few])}{'  ...' if len(labels) > _NAMED else ''} }}"


def _object_name(service: Service, findings: Diagnostics) -> str:
    name = kubernetes_name(service.name)
    if not name or len(NAME_PREFIX + name) > 253:
        findings.error(
            "ADM782",
            f"`{service.name}` cannot be part of the name of a NetworkPolicy",
            service.span,
            cause="a Kubernetes name has at most 253 letters, digits and `-`, and ends in a letter or digit",
            hint="rename the service",
        )
    return NAME_PREFIX + name


def _close(
    own: _Parties,
    name: str,
    object_name: str,
    by_target: Mapping[int, tuple[_Parties, frozenset[str]]],
    policies: Iterable[str],
    findings: Diagnostics,
) -> dict[str, object]:
    """The NetworkPolicy that closes targets of a destination to all but the parties that each of them admits."""
    service, policies = own.program.services[name], tuple(policies)
    labels = own.selectors.labels(service, allowed=frozenset({name}))
    admitted: dict[str, dict[int, _Parties]] = {}
    for target, (parties, names) in by_target.items():
        for sender in filter(parties.may_send, sorted(names)):
            admitted.setdefault(sender, {})[target] = parties
    # Senders with the same ports share a rule: a long list of equal rules is hard to review.
    rules: dict[tuple[int, ...], list[_Peer]] = {}
    for sender in sorted(admitted):
        # Labels may also select the pods of a sender that may dial at least these ports anyway.
        allowed = frozenset(other for other, its in admitted.items() if its.keys() >= admitted[sender].keys())
        targets: dict[tuple[_Peer, ...], list[int]] = {}
        for parties in dict.fromkeys(admitted[sender].values()):
            peers = parties.peers(sender, service, allowed, findings)
            targets.setdefault(peers, []).extend(at for at, by in admitted[sender].items() if by is parties)
        for peers, numbers in targets.items():
            rules.setdefault(tuple(sorted(numbers)), []).extend(peers)
    ingress: list[dict[str, object]] = [
        {
            "from": [_peer(peer) for peer in peers],
            "ports": [{"protocol": "TCP", "port": target} for target in numbers],
        }
        for numbers, peers in sorted(rules.items())
    ]
    if ranges := tuple(_all_but(by_target)):
        ingress.append({"ports": [_range(protocol, *span) for protocol in PROTOCOLS for span in ranges]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": object_name,
            "namespace": service.namespace,
            "labels": {"app.kubernetes.io/managed-by": "admc"},
            "annotations": {
                "admc/app": own.program.app,
                "admc/closes": name,
                **({"admc/needed-by": ", ".join(policies)} if policies else {}),
                "admc/admits": ", ".join(sorted(admitted)),
            },
        },
        "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _all_but(closed: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last number of each range of ports between closed ones."""
    first = 1
    for target in sorted(closed):
        if first < target:
            yield first, target - 1
        first = target + 1
    if first <= LAST_PORT:
        yield first, LAST_PORT


def _range(protocol: str, first: int, last: int) -> dict[str, object]:
    return {"protocol": protocol, "port": first, **({"endPort": last} if first < last else {})}


class _Pods(NamedTuple):
    """The pods of a service."""

    namespace: str
    labels: tuple[tuple[str, str], ...]


_Peer = _Pods | str
"""Pods, or the `cidr` of a network."""


def _peer(peer: _Peer) -> dict[str, object]:
    if isinstance(peer, str):
        return {"ipBlock": {"cidr": peer}}
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": peer.namespace}},
        "podSelector": {"matchLabels": dict(peer.labels)},
    }


def _service_peer(
    sender: Service, destination: Service, allowed: frozenset[str], selectors: _Selectors, findings: Diagnostics
) -> _Pods:
    if sender.host_network:
        findings.error(
            "ADM783",
            f"no NetworkPolicy can admit `{sender.name}` to `{destination.name}` alone",
            sender.place(Mark.HOST_NETWORK),
            cause="its pods share their node's address with everything else on the node",
            hint=f"take it off the host's network, or pin the policies on `{destination.name}` at ingress",
        )
    labels = selectors.labels(sender, allowed, admitted_to=destination.name)
    return _Pods(sender.namespace, tuple(labels.items()))


def _external_peers(sender: External, destination: Service, findings: Diagnostics) -> tuple[str, ...]:
    if not sender.cidrs:
        findings.error(
            "ADM783",
            f"no NetworkPolicy can admit `{sender.name}` to `{destination.name}` alone",
            sender.span,
            cause="nothing says from which addresses it calls",
            hint="give it a `cidr`",
        )
    networks = {ipaddress.ip_network(cidr, strict=False) for cidr in sender.cidrs}
    return tuple(map(str, sorted(networks, key=lambda n: (n.version, int(n.network_address), n.prefixlen))))


class _Shared(NamedTuple):
    """A service whose labels other services have, too, and the reason for selecting it: to close it, or to admit it."""

    service: Service
    admitted_to: str | None
    others: set[str]


class _Labels:
    """The labels that select the pods of each service: those of the program, or of the cluster's Services."""

    def __init__(self, program: Program, selectors: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.services = program.services
        self._selectors = selectors
        self._by_label: dict[tuple[str, str, str], set[str]] = {}
        for service in program.services.values():
            for key, value in self.of(service).items():
                self._by_label.setdefault((service.namespace, key, value), set()).add(service.name)

    def of(self, service: Service) -> Mapping[str, str]:
        """The labels of a service; empty if no label selects its pods."""
        if self._selectors is None:
            return pod_labels(service)
        return dict(sorted(self._selectors.get(service.name, {}).items()))

    def is_there(self, name: str) -> bool:
        return self._selectors is None or name in self._selectors

    def selected(self, service: Service) -> set[str]:
        """The services whose pods the labels of `service` select, itself included."""
        with_label = [self._by_label[service.namespace, *item] for item in self.of(service).items()]
        return set.intersection(*sorted(with_label, key=len)) if with_label else {service.name}


class _Selectors:
    """The labels of services, each checked once: they are legal in Kubernetes, and select no other service's pods."""

    def __init__(self, labels: _Labels, findings: Diagnostics) -> None:
        self._labels = labels
        self._services = labels.services
        self._findings = findings
        self._checked: set[str] = set()
        self._shared: dict[tuple[str, tuple[tuple[str, str], ...]], _Shared] = {}

    def reporting_to(self, findings: Diagnostics) -> _Selectors:
        """Selectors of the same labels, of which none is checked yet."""
        return _Selectors(self._labels, findings)

    def is_there(self, name: str) -> bool:
        return self._labels.is_there(name)

    def labels(self, service: Service, allowed: frozenset[str], admitted_to: str | None = None) -> dict[str, str]:
        """Labels of a service that is to be closed, or admitted to another one; `allowed` may be selected too."""
        labels = dict(self._labels.of(service))
        if service.name not in self._checked:
            self._checked.add(service.name)
            self._check_legal(service, labels)
            if not labels:
                self._report_none(service, admitted_to)
        others = self._labels.selected(service) - allowed
        if others:
            key = service.namespace, tuple(labels.items())
            self._shared.setdefault(key, _Shared(service, admitted_to, set())).others.update(others)
        return labels

    def _report_none(self, service: Service, admitted_to: str | None) -> None:
        """Reports a service without labels: an empty selector would select all pods of the namespace."""
        done = "close" if admitted_to is None else "admit"
        to = "" if admitted_to is None else f" to `{admitted_to}`"
        self._findings.error(
            "ADM783",
            f"no NetworkPolicy can {done} `{service.name}`{to}",
            service.span,
            cause="no Service of it in the cluster has a selector, so no label tells which pods are its own",
            hint=f"give its Service a selector, or pin the policies on `{admitted_to or service.name}` at ingress",
        )

    def report(self, at_ingress: Mapping[str, Sequence[str]]) -> None:
        """Reports labels that also select pods of other services, with one finding for each such set of labels.

        `at_ingress` has the policies that a pin at ingress would keep where a destination needs no closing for them.
        """
        for (_namespace, labels), (service, admitted_to, selected) in self._shared.items():
            others = sorted(selected - {service.name})
            shown = ", ".join(f'`{key} = "{value}"`' for key, value in labels)
            quoted = [f"`{name}`" for name in others[:_NAMED]]
            more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
            done = "closed" if admitted_to is None else f"admitted to `{admitted_to}`"
            pins = [f"`pin {name} at ingress`" for name in at_ingress.get(admitted_to or service.name, ())]
            self._findings.error(
                "ADM784",
                f"the labels of `{service.name}`, {shown}, also select the pods of {', '.join(quoted)}{more}",
                service.span,
                cause=f"a NetworkPolicy selects pods by their labels alone: all pods with these would be {done}",
                hint=f"give each of them a label that tells it apart, as in `{_told_apart(dict(labels))}`: a label "
                "without a value has the service's own name"
                + (f"; or write {' and '.join(pins[:_NAMED])}, so that nothing needs to be closed" if pins else ""),
                related=tuple(
                    Related(self._services[other].span, f"`{other}` has these labels too") for other in others[:_NAMED]
                ),
            )

    def _check_legal(self, service: Service, labels: Mapping[str, str]) -> None:
        wrong = [f'{key} = "{value}"' for key, value in labels.items() if not _legal_label(key, value)]
        if wrong:
            self._findings.error(
                "ADM782",
                f"{', '.join(f'`{label}`' for label in wrong)} of `{service.name}` is no legal Kubernetes label",
                service.span,
                hint="give the service labels of at most 63 letters, digits, `-`, `_` and `.`, "
                "beginning and ending in a letter or digit",
            )
        if not _NAMESPACE.fullmatch(service.namespace):
            self._findings.error(
                "ADM782",
                f"`{service.namespace}` of `{service.name}` is no legal Kubernetes namespace",
                service.span,
                hint="use at most 63 lower-case letters, digits and `-`, beginning and ending in a letter or digit",
            )


def _legal_label(key: str, value: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _LABEL_PREFIX.fullmatch(prefix)):
        return False
    if not (len(name) <= 63 and _LABEL_NAME.fullmatch(name)):
        return False
    return value == "" or (len(value) <= 63 and _LABEL_NAME.fullmatch(value) is not None)
