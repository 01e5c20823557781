"""What is in force where, in words that a model and Istio's configuration have in common; and how two answers differ.

    Answer (Istio's), Answer (the model's) --differences--> lines

A `Place` is one protocol of a port at one workload. A workload that cannot see a host has no place for it. Port 0 at
inbound stands for all ports that no Service has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

INBOUND: Final = "inbound"
OUTBOUND: Final = "outbound"
HTTP: Final = "http"
TCP: Final = "tcp"


class Place(NamedTuple):
    workload: str
    """Namespace and name."""
    direction: str
    host: str
    """At outbound the whole name of the host that is called; empty at inbound."""
    port: int
    """At outbound the port of the Service, at inbound that of the pod."""
    protocol: str
    """`http` or `tcp`. A port whose protocol Istio detects has a place for each."""


class Rule(NamedTuple):
    """A rule of an AuthorizationPolicy, as a port enforces it."""

    action: str
    policy: str
    """Namespace and name."""
    number: int
    reads_requests: bool
    """Whether it looks at a field of HTTP. A DENY on TCP loses such fields, and refuses more."""


@dataclass(frozen=True)
class Held:
    """What is in force at a place."""

    resources: frozenset[str] = frozenset()
    """Kind, namespace and name: `DestinationRule shop/cart`. So named are VirtualServices, DestinationRules and
    ServiceEntries; an AuthorizationPolicy is there by its rules, a PeerAuthentication by its mode."""
    routes: tuple[str, ...] = ()
    """The names of the rules of VirtualServices that a request may meet, in their order."""
    rules: frozenset[Rule] = frozenset()
    actions: frozenset[str] = frozenset()
    """The actions of authorization that are enforced. ALLOW without a rule refuses everything."""
    mode: str = ""
    """At inbound that of mutual TLS: `STRICT`, `PERMISSIVE` or `DISABLE`."""
    tls: str = ""
    """At outbound what the client begins: `auto` (by endpoint), `istio_mutual`, `mutual` or `simple`; empty for plain
    text."""


@dataclass(frozen=True)
class Answer:
    places: Mapping[Place, Held]
    registry_only: frozenset[str] = field(default_factory=frozenset)
    """The workloads whose calls to unknown destinations are refused."""


PARTS: Final = ("resources", "routes", "rules", "actions", "mode", "tls")


def differences(istio: Answer, model: Answer, parts: tuple[str, ...] = PARTS) -> list[str]:
    """One line for each thing that only one of them has. `parts` names the fields that the model knows of."""
    return [
        *_of_places(istio.places, model.places, parts),
        *(
            f"{workload}: unknown destinations are refused only by {_owner(workload in istio.registry_only)}"
            for workload in sorted(istio.registry_only ^ model.registry_only)
        ),
    ]


def _of_places(istio: Mapping[Place, Held], model: Mapping[Place, Held], parts: tuple[str, ...]) -> Iterator[str]:
    for place in sorted(istio.keys() | model.keys()):
        one, other = istio.get(place), model.get(place)
        if one is None or other is None:
            yield f"{shown(place)}: only {_owner(one is not None)} has this place"
            continue
        for part in parts:
            theirs, ours = getattr(one, part), getattr(other, part)
            if theirs != ours:
                yield f"{shown(place)}: {part}: Istio has {_value(theirs)}, the model has {_value(ours)}"


def shown(place: Place) -> str:
    host = f"{place.host}:" if place.host else ""
    return f"{place.workload} {place.direction} {host}{place.port} {place.protocol}"


def _owner(is_istio: bool) -> str:
    return "Istio" if is_istio else "the model"


def _value(of: object) -> str:
    if isinstance(of, frozenset):
        return "{" + ", ".join(sorted(map(str, of))) + "}"
    return str(of) or "nothing"
