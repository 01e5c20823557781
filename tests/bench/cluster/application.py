"""The program of the benchmark, and how many pods each of its services has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import dsl
from admc.kubernetes.inject.model import PodNeeds
from admc.serve.observe.injection import injection_document
from emitters.interception.pod import PodCaptures
from solver.place import place
from tests.generate import generate

if TYPE_CHECKING:
    from collections.abc import Mapping

SEED: Final = 1


class Size(NamedTuple):
    services: int
    calls: int
    policies: int
    pods: int
    clients: int

    def __str__(self) -> str:
        return (
            f"{self.services:,} services, {self.calls:,} calls, {self.policies:,} policies; {self.pods:,} pods, "
            f"{self.clients:,} of them with an ADM"
        )


class Application(NamedTuple):
    text: str
    pods: Mapping[str, int]
    """Service -> how many pods it has."""
    objects: Mapping[str, str]
    """Service -> the name of its Kubernetes Service."""
    ports: Mapping[str, tuple[int, ...]]
    wanted: Mapping[str, PodNeeds]
    """Service -> what its pods have of admc's."""

    @property
    def adms(self) -> int:
        return sum(each.adm for each in self.wanted.values())


def application(size: Size, namespace: str) -> Application:
    """A program that puts an ADM into as many pods as there are to be clients. Raises `ValueError` where it needs more.

    Which services have one follows from its policies. The other services share the rest of the pods.
    """
    text = generate(size.services, size.calls, size.policies, SEED)
    text = re.sub(r"(replicas \d+)", rf"\1  namespace {namespace}", text)
    program = dsl.load_text(text)
    document = injection_document([(program, place(program))])
    hosts = [name for name, row in document.services.items() if row.captures is not None]
    others = [name for name, row in document.services.items() if row.captures is None]
    if not 0 < len(hosts) <= size.clients:
        raise ValueError(f"the program has {len(hosts)} ADMs, and is to have 1 to {size.clients}")
    wanted = {
        name: PodNeeds(
            f"{program.app}/{name}",
            None
            if row.captures is None
            else PodCaptures(frozenset(row.captures.ingress), frozenset(row.captures.egress)),
            row.awaited,
        )
        for name, row in document.services.items()
    }
    return Application(
        text,
        {**_shared(size.clients, hosts), **_shared(size.pods - size.clients, others)},
        {name: row.object for name, row in document.services.items()},
        {name: tuple(port.number for port in service.ports) for name, service in program.services.items()},
        wanted,
    )


def _shared(count: int, names: list[str]) -> dict[str, int]:
    return {name: count // len(names) + (number < count % len(names)) for number, name in enumerate(names)}
