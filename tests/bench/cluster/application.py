"""The program of the benchmark, and how many pods each of its services has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import dsl
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.needs import needs_of_plan
from emitters.interception.pod import PodCaptures
from emitters.kubernetes import kubernetes_name
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
    needs = {at.service: own for at, own in needs_of_plan(program, place(program)).items()}
    hosts = [name for name, own in needs.items() if own.captures is not None]
    others = [name for name, own in needs.items() if own.captures is None]
    if not 0 < len(hosts) <= size.clients:
        raise ValueError(f"the program has {len(hosts)} ADMs, and is to have 1 to {size.clients}")
    wanted = {
        name: PodNeeds(
            f"{program.app}/{name}",
            None
            if own.captures is None
            else PodCaptures(frozenset(own.captures.ingress), frozenset(own.captures.egress)),
            own.waits,
        )
        for name, own in needs.items()
    }
    return Application(
        text,
        {**_shared(size.clients, hosts), **_shared(size.pods - size.clients, others)},
        {name: kubernetes_name(name) for name in program.services},
        {name: tuple(port.number for port in service.ports) for name, service in program.services.items()},
        wanted,
    )


def _shared(count: int, names: list[str]) -> dict[str, int]:
    return {name: count // len(names) + (number < count % len(names)) for number, name in enumerate(names)}
