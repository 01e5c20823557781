"""How long the API server takes to create a pod, with the webhook and the guard and without both.

Bare pods are created one after the other, by turns in a namespace that takes part and in one that does not: there the
API server asks no webhook and evaluates no guard. With services in the namespace, each pod is one of a guarded service,
so it gets its ADM from the webhook, and the guard judges it.

Creation[services] --measured--> Created --show--> table
"""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.table import Table

from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.inject.spec import Captures, Required, ServiceInjection, injection_spec, to_json
from tests.bench.cluster.report import percentile
from tests.bench.cost import usage
from tests.bench.errors import SkippedError
from tests.cluster.api_server import api_server
from tests.cluster.guard.policy import Connection, guard, install
from tests.cluster.node.cluster import path_of
from tests.cluster.objects import container
from tests.cluster.serve.installation import installation
from tests.cluster.serve.test_webhook import hooks
from tests.golang import BuildError, MissingError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tests.cluster.serve.installation import Installation
    from tests.serve.server_process import Served

SERVICES: Final = (0, 200, 2_000)
PODS: Final = 5_000
SECONDS: Final = 60.0
NEEDS: Final = Required(waits=True, captures=Captures((9000,), (27017,)))


class Created(NamedTuple):
    services: int
    """Guarded ones in the namespace that takes part."""
    with_admc: list[float]
    """Milliseconds of each creation."""
    without: list[float]
    cpu: float
    """Milliseconds of CPU of the server for each pod that it was asked about."""
    memory: int
    """Of the server, bytes."""


def creation(console: Console, folder: Path, number: int = PODS) -> list[Created]:
    """Measure and print. Raises `SkippedError`."""
    try:
        rows = [_alone(folder, services, number) for services in SERVICES]
    except (MissingError, BuildError) as error:
        raise SkippedError(f"{error}. Skipped without it: creation of pods") from None
    console.print(_table(rows, number))
    return rows


def _alone(folder: Path, services: int, number: int) -> Created:
    """With an API server of its own: its store does not hold the pods of an earlier row."""
    with api_server() as api:
        return _created(installation(api, folder), services, number)


def _created(shop: Installation, services: int, number: int) -> Created:
    """In an installation of its own."""
    free = copy.copy(shop)
    free.namespace = f"{shop.namespace}-free"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": free.namespace}}
    shop.api.apply(f"/api/v1/namespaces/{free.namespace}", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    shop.api.apply(f"/api/v1/namespaces/{free.namespace}/serviceaccounts/default", account)
    with ExitStack() as stack:
        hooked = stack.enter_context(hooks(shop))
        install(shop.api, guard(shop.injection))
        _write(shop, services)
        server = stack.enter_context(hooked.server(stands_by=True))
        ask = Connection(shop.api)
        stack.callback(ask.close)
        _until_injected(ask, shop, bool(services))
        before, times = _usage(server), ([], [])
        places = (shop.namespace, free.namespace)
        for index in range(number):
            for column, namespace in zip(times, places, strict=True):
                column.append(_seconds(ask, namespace, f"pod-{index}"))
        after = _usage(server)
    with_admc, without = ([1_000 * seconds for seconds in column] for column in times)
    return Created(services, with_admc, without, 1_000 * (after[0] - before[0]) / number, after[1])


def _write(shop: Installation, services: int) -> None:
    """Define this many guarded services, by an `Injection` as the server writes it."""
    rows = {
        f"service-{index}": ServiceInjection(
            {"app": f"service-{index}", "tier": "back"}, NEEDS.waits, captures=NEEDS.captures, required=NEEDS
        )
        for index in range(services)
    }
    spec = to_json(injection_spec("shop", shop.reach, rows))
    metadata = {"name": shop.name, "namespace": shop.namespace, "labels": {CONTROLLER: shop.name}}
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": metadata, "spec": spec}
    shop.api.apply(path_of(body), body)


def _until_injected(ask: Connection, shop: Installation, is_expected: bool) -> None:
    """Until the webhook and the guard take part."""
    path = f"/api/v1/namespaces/{shop.namespace}/pods?dryRun=All"

    def is_injected() -> bool:
        status, document = ask("POST", path, _pod("tried"))
        return status == 201 and bool(document["spec"].get("initContainers"))

    if is_expected:
        shop.until(is_injected, SECONDS)


def _seconds(ask: Connection, namespace: str, name: str) -> float:
    began = time.perf_counter()
    status, answer = ask("POST", f"/api/v1/namespaces/{namespace}/pods", _pod(name))
    took = time.perf_counter() - began
    assert status == 201, answer
    return took


def _pod(name: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "service-0", "tier": "back"}}
    spec = {"containers": [container()], "serviceAccountName": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _usage(server: Served) -> tuple[float, int]:
    """Seconds of CPU so far, and bytes of memory."""
    return usage.cpu(server.process.pid), usage.memory([server.process.pid]).pss


def _table(found: list[Created], number: int) -> Table:
    table = Table(title=f"Creation of {number:,} pods, ms", title_justify="left")
    for name in ("guarded services", "p50 with", "p50 without", "ratio", "p99 with", "p99 without"):
        table.add_column(name, justify="right")
    table.add_column("server: CPU a pod, ms", justify="right")
    table.add_column("memory, MB", justify="right")
    for created in found:
        one, other = median(created.with_admc), median(created.without)
        table.add_row(
            f"{created.services:,}",
            f"{one:.2f}",
            f"{other:.2f}",
            f"{one / other:.2f}",
            f"{percentile(sorted(created.with_admc), 99):.2f}",
            f"{percentile(sorted(created.without), 99):.2f}",
            f"{created.cpu:.2f}",
            f"{created.memory / 1e6:.0f}",
        )
    return table
