"""A container of the API server compared with the one that was written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admc.kubernetes.inject.recognised import is_as_written
from emitters.ports import ADM_USER

WRITTEN: dict[str, Any] = {
    "name": "admc-proxy",
    "image": "envoy:1",
    "command": ["envoy"],
    "args": ["-c", "/run/admc/config/bootstrap.yaml"],
    "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "restartPolicy": "Always",
    "startupProbe": {"httpGet": {"path": "/ready", "port": 15021}, "periodSeconds": 1, "failureThreshold": 3600},
    "securityContext": {"runAsUser": ADM_USER, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "admc-config", "mountPath": "/run/admc/config", "readOnly": True}],
}


def stored() -> dict[str, Any]:
    """As the API server has it, with its defaults and the token of the account."""
    found = copy.deepcopy(WRITTEN)
    found |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log", "resources": {}}
    found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    found["startupProbe"] |= {"timeoutSeconds": 1, "successThreshold": 1}
    found["startupProbe"]["httpGet"]["scheme"] = "HTTP"
    account = {"name": "kube-api-access-9x7f2", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    found["volumeMounts"].append({**account, "readOnly": True})
    return found


def test_what_injection_wrote_is_recognised() -> None:
    assert is_as_written(stored(), WRITTEN)


@pytest.mark.parametrize(
    "change",
    [
        {"image": "other"},
        {"command": ["sh"]},
        {"args": ["-c", "/srv/bootstrap.yaml"]},
        {"args": [*WRITTEN["args"], "--log-level", "debug"]},
        {"env": []},
        {"env": [*WRITTEN["env"], {"name": "LD_PRELOAD", "value": "/x.so"}]},
        {"envFrom": [{"configMapRef": {"name": "x"}}]},
        {"lifecycle": {"postStart": {"exec": {"command": ["sh"]}}}},
        {"livenessProbe": {"exec": {"command": ["sh"]}}},
        {"securityContext": {"runAsUser": ADM_USER, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}},
        {"securityContext": {"runAsUser": ADM_USER, "privileged": True, "capabilities": {"drop": ["ALL"]}}},
        {"securityContext": {"runAsUser": float(ADM_USER), "capabilities": {"drop": ["ALL"]}}},
        {"volumeMounts": [{"name": "mine", "mountPath": "/run/admc/config", "readOnly": True}]},
        {"volumeMounts": [*WRITTEN["volumeMounts"], {"name": "mine", "mountPath": "/usr/local/bin"}]},
        {"stdin": True},
        {"name": "admc-prox"},
    ],
)
def test_an_impostor_is_not(change: dict[str, Any]) -> None:
    assert not is_as_written({**stored(), **change}, WRITTEN)


def test_a_field_that_is_missing_is_no_default() -> None:
    for field in WRITTEN:
        assert not is_as_written({key: value for key, value in stored().items() if key != field}, WRITTEN)
