"""A real API server accepts what `admc inject` writes, and admc recognises it in what the API server stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.inject.model import NOTHING
from admc.kubernetes.inject.template import injected
from admc.manifests.documents import TEMPLATES, at
from tests.inject.test_template import CALLER, CALM, HERE, RATE

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hardened": {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 2000,
            "supplementalGroups": [3000],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "automountServiceAccountToken": False,
        "shareProcessNamespace": True,
        "hostUsers": False,
    },
    "with containers of its own": {
        "initContainers": [
            {"name": "migrate", "image": "m", "securityContext": {"capabilities": {"add": ["NET_RAW", "CHOWN"]}}},
            {"name": "log", "image": "l", "restartPolicy": "Always"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "image": "m",
                "ports": [{"name": "main", "containerPort": 9000}],
                "livenessProbe": {"exec": {"command": ["true"]}},
                "readinessProbe": {"httpGet": {"port": 9999}},
                "securityContext": {"privileged": True},
            }
        ],
    },
}
METADATA = {"name": "rate", "namespace": "default"}
KINDS = {
    "pods": ("v1", "Pod", {}),
    "deployments": ("apps/v1", "Deployment", {}),
    "statefulsets": ("apps/v1", "StatefulSet", {"serviceName": "rate"}),
    "daemonsets": ("apps/v1", "DaemonSet", {}),
    "replicasets": ("apps/v1", "ReplicaSet", {}),
    "replicationcontrollers": ("v1", "ReplicationController", {}),
    "podtemplates": ("v1", "PodTemplate", {}),
    "jobs": ("batch/v1", "Job", {}),
    "cronjobs": ("batch/v1", "CronJob", {"schedule": "0 * * * *"}),
}


def made(name: str, template: dict[str, Any]) -> dict[str, Any]:
    version, kind, more = KINDS[name]
    labels = template["metadata"]["labels"]
    whole: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": METADATA}
    if kind == "Pod":
        return {**whole, "metadata": {**METADATA, "labels": labels}, "spec": template["spec"]}
    if kind == "PodTemplate":
        return {**whole, "template": template}
    if kind == "ReplicationController":
        return {**whole, "spec": {"selector": labels, "template": template}}
    if version == "batch/v1":
        template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
        job = {"template": template}
        return {**whole, "spec": {"jobTemplate": {"spec": job}, **more} if more else job}
    return {**whole, "spec": {"selector": {"matchLabels": labels}, "template": template, **more}}


def test_every_kind_is_tried() -> None:
    assert {(version, kind) for version, kind, _ in KINDS.values()} == TEMPLATES.keys()


@pytest.mark.parametrize("spec", SPECS)
def test_the_api_server_accepts_it_and_admc_recognises_it_there(cluster_api: ApiServer, spec: str) -> None:
    template = {
        "metadata": {"labels": {"app": "rate"}},
        # The API server of the tests does not set the account, which every pod has.
        "spec": {"serviceAccountName": "default", "containers": [{"name": "main", "image": "m"}], **SPECS[spec]},
    }
    for wanted in (RATE, CALM, CALLER):
        found = injected(template, wanted, HERE).template
        assert found is not None
        for name, (version, _, _) in KINDS.items():
            path = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/default/{name}"
            stored = cluster_api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", made(name, dict(found)))
            there = at(stored, TEMPLATES[version, KINDS[name][1]])
            own = [item["name"] for item in there["spec"]["initContainers"]]
            assert own[: 2 * wanted.adm + wanted.waits] == [
                *(["admc-rules", "admc-proxy"] if wanted.adm else []),
                *(["admc-wait"] if wanted.waits else []),
            ]
            # The API server adds its defaults; all that is admc's goes when nothing is wanted any more.
            without = injected(there, NOTHING, HERE).template
            assert without is not None
            assert "admc-" not in str([without["spec"].get("initContainers"), without["spec"].get("volumes")])
            again = injected(there, wanted, HERE).template
            assert again is not None
            count = 2 * wanted.adm + wanted.waits
            assert again["spec"]["initContainers"][:count] == found["spec"]["initContainers"][:count]
