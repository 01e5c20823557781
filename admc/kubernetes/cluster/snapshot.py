"""Reads the objects of a mesh from a cluster once, with the rights of the caller.

    kinds --snapshot--> texts as those of files, and what the caller may not read

Only lists of the kinds that `admc advise` knows are asked for; of ConfigMaps only those with a mesh configuration,
unless calls are guessed; and no Secret.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.base.terminal import visible
from admc.istio.schemas.data import kinds
from admc.istio.schemas.used_fields import kept, kept_with_texts
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.errors import ApiError
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import SourceText

if TYPE_CHECKING:
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from admc.manifests.yaml_values import Keep

PAGE: Final = 500
"""Objects of one answer."""
PAGE_OF_CONFIG_MAPS: Final = 50
"""ConfigMaps of one answer. Each may have a megabyte."""


class Listed(NamedTuple):
    """A kind whose objects are listed."""

    kind: str
    plural: str
    versions: tuple[str, ...]
    """With its group; the first one that the cluster has is read."""


_KUBERNETES: Final = (
    Listed("Namespace", "namespaces", ("v1",)),
    Listed("Service", "services", ("v1",)),
    Listed("Pod", "pods", ("v1",)),
    Listed("ReplicationController", "replicationcontrollers", ("v1",)),
    Listed("Deployment", "deployments", ("apps/v1",)),
    Listed("StatefulSet", "statefulsets", ("apps/v1",)),
    Listed("DaemonSet", "daemonsets", ("apps/v1",)),
    Listed("ReplicaSet", "replicasets", ("apps/v1",)),
    Listed("Job", "jobs", ("batch/v1",)),
    Listed("CronJob", "cronjobs", ("batch/v1",)),
    Listed("HorizontalPodAutoscaler", "horizontalpodautoscalers", ("autoscaling/v2", "autoscaling/v1")),
    Listed("Istio", "istios", ("sailoperator.io/v1", "sailoperator.io/v1alpha1")),
    Listed("IstioRevisionTag", "istiorevisiontags", ("sailoperator.io/v1", "sailoperator.io/v1alpha1")),
    Listed("IstioOperator", "istiooperators", ("install.istio.io/v1alpha1",)),
)
_WEBHOOKS: Final = Listed(
    "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ("admissionregistration.k8s.io/v1",)
)
_CONFIG_MAPS: Final = Listed("ConfigMap", "configmaps", ("v1",))
_REVISION: Final = "istio.io/rev"
Params = Mapping[str, object]


class Snapshot(NamedTuple):
    texts: tuple[SourceText, ...]
    findings: tuple[Diagnostic, ...]


async def snapshot(kubeconfig: Path | None, *, texts: bool = False) -> Snapshot:
    """`texts`: whether the texts of all ConfigMaps are read, to guess calls. Raises `CommandError` if the API server
    does not answer."""
    keep = kept_with_texts if texts else kept
    page = min(PAGE, PAGE_OF_CONFIG_MAPS)
    read: list[SourceText] = []
    findings: list[Diagnostic] = []
    async with await connect(kubeconfig) as api:
        names = {"istio"}
        for listed in (_WEBHOOKS, *_KUBERNETES, *_of_istio()):
            pages = await _read(api, listed, {"limit": PAGE}, keep, findings)
            read += [text for text, _ in pages]
            if listed is _WEBHOOKS:
                names |= {f"istio-{revision}" for _, items in pages for revision in _revisions(items)}
        only = [{}] if texts else [{"fieldSelector": f"metadata.name={name}"} for name in sorted(names)]
        for params in only:
            read += [text for text, _ in await _read(api, _CONFIG_MAPS, {"limit": page, **params}, keep, findings)]
    return Snapshot(tuple(read), tuple(findings))


def _of_istio() -> Iterator[Listed]:
    for known in kinds().values():
        # The newest first: v1, v1beta1, v1alpha3.
        versions = sorted(known.schemas, key=lambda version: ("alpha" in version, "beta" in version, version))
        yield Listed(known.kind, known.plural, tuple(f"{known.group}/{version}" for version in versions))


async def _read(
    api: Api, listed: Listed, params: Params, keep: Keep, findings: list[Diagnostic]
) -> list[tuple[SourceText, list[Any]]]:
    """The pages of a list, as texts and as their objects; none of a kind that the cluster does not have."""
    for version in listed.versions:
        try:
            return [page async for page in _pages(api, listed, version, params, keep)]
        except ApiError as error:
            if error.is_not_found:
                continue
            findings.append(_refusal(error, listed))
            return []
    return []


async def _pages(
    api: Api, listed: Listed, version: str, params: Params, keep: Keep
) -> AsyncIterator[tuple[SourceText, list[Any]]]:
    path = f"/{'apis' if '/' in version else 'api'}/{version}/{listed.plural}"
    token: dict[str, object] = {}
    number = 1
    while True:
        answer = await api.get(path, **params, **token)
        items = [keep({"apiVersion": version, "kind": listed.kind, **item}) for item in answer.get("items") or ()]
        text = json.dumps({"apiVersion": version, "kind": f"{listed.kind}List", "items": items}, indent=1)
        yield SourceText(f"<{listed.plural} of the cluster, page {number}>", text), items
        further = (answer.get("metadata") or {}).get("continue")
        if not further:
            return
        token, number = {"continue": further}, number + 1


def _revisions(items: list[Any]) -> Iterator[str]:
    for item in items:
        revision = ((item.get("metadata") or {}).get("labels") or {}).get(_REVISION)
        if isinstance(revision, str):
            yield revision


def _refusal(error: ApiError, listed: Listed) -> Diagnostic:
    """Raises `CommandError` if the API server does not answer at all."""
    cause = visible(error.message)
    if error.status == 0:
        hint = "check the address and the authority in the kubeconfig"
        message = "the API server does not answer"
        raise CommandError(Exit.INPUT, [Diagnostic("ADM935", Severity.ERROR, message, None, cause, hint)])
    message = f"the API server does not list {listed.plural}"
    hint = "use an account that may list them in all namespaces; `--keep-going` does without"
    return Diagnostic("ADM986", Severity.ERROR, message, None, f"{error.status}: {cause}", hint)
