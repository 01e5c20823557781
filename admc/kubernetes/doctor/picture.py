"""What the checks of an installation read. Nothing is written, and no Secret is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.names import CONTROLLER, GROUP, PROGRAMS, VERSION
from admc.kubernetes.doctor.policies import Object, One, policies_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api

PAGE: Final = 500
MAX_PAGES: Final = 40
"""Of one list. A cluster has at most some 5,000 nodes and 10,000 namespaces."""
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"

Many = tuple[Object, ...] | ApiError


class Picture(NamedTuple):
    version: Object
    kinds: One
    """The kinds of the API group of admc."""
    nodes: Many
    deployments: Many
    """Of servers with the name of the installation, in all namespaces."""
    leases: Mapping[str, One]
    """Namespace of a Deployment -> the Lease of its replicas."""
    policies: Mapping[str, One]
    """Name of a policy of admission -> the policy."""
    bindings: Mapping[str, One]
    """The same for its binding."""
    webhook: One
    """The MutatingWebhookConfiguration."""
    endpoints: Mapping[str, Many]
    """Namespace of a Deployment -> the EndpointSlices of the webhook's Service."""
    namespaces: Many
    """Those with the label of the installation."""
    programs: Many


async def look(name: str, kubeconfig: Path | None) -> Picture:
    """Raises `CommandError`, and `ApiError` if the API server does not even show its version."""
    async with await connect(kubeconfig) as api:
        version = await api.get("/version")
        selector = f"app.kubernetes.io/name=admc,app.kubernetes.io/instance={name}"
        deployments = await _many(api, "/apis/apps/v1/deployments", selector)
        servers = () if isinstance(deployments, ApiError) else deployments
        spaces = sorted({str(at(server, ("metadata", "namespace"))) for server in servers})
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{{}}/leases/admc-{name}"
        slices = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
        names = [policy.name for policy in policies_of(name)]
        return Picture(
            version,
            await _one(api, f"/apis/{GROUP}/{VERSION}"),
            await _many(api, "/api/v1/nodes"),
            deployments,
            {space: await _one(api, lease.format(space)) for space in spaces},
            {it: await _one(api, f"{ADMISSION}/validatingadmissionpolicies/{it}") for it in names},
            {it: await _one(api, f"{ADMISSION}/validatingadmissionpolicybindings/{it}") for it in names},
            await _one(api, f"{ADMISSION}/mutatingwebhookconfigurations/admc-{name}"),
            {
                space: await _many(api, slices.format(space), f"kubernetes.io/service-name=admc-{name}-webhook")
                for space in spaces
            },
            await _many(api, "/api/v1/namespaces", f"{CONTROLLER}={name}"),
            await _many(api, PROGRAMS),
        )


def name_of(document: Object) -> str:
    return str(at(document, ("metadata", "name")))


async def _one(api: Api, path: str) -> One:
    try:
        return await api.get(path)
    except ApiError as error:
        return error


async def _many(api: Api, path: str, selector: str = "") -> Many:
    items: list[Object] = []
    more = {"labelSelector": selector} if selector else {}
    try:
        for _ in range(MAX_PAGES):
            page = await api.get(path, limit=PAGE, **more)
            items += [item for item in page.get("items") or () if isinstance(item, dict)]
            token = at(page, ("metadata", "continue"))
            if not token:
                return tuple(items)
            more["continue"] = token
    except ApiError as error:
        return error
    return ApiError(0, "TooMany", f"there are more than {PAGE * MAX_PAGES:,} objects")
