"""Changes of pods that are there, as requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.cluster.guard import pods
from tests.cluster.guard.policy import selector

if TYPE_CHECKING:
    from tests.cluster.guard.policy import Guarded

    Json = dict[str, Any]

ATTACHED: Final[dict[str, Json]] = {
    "the user of the ADM": {"securityContext": {"runAsUser": 15001}},
    "privileged": {"securityContext": {"privileged": True}},
    "NET_ADMIN": {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}},
    "NET_ADMIN in small letters": {"securityContext": {"capabilities": {"add": ["cap_net_admin"]}}},
    "all capabilities": {"securityContext": {"capabilities": {"add": ["ALL"]}}},
    "NET_RAW": {"securityContext": {"capabilities": {"add": ["NET_RAW"]}}},
    "the kernel's settings": {"securityContext": {"procMount": "Unmasked"}},
    "the processes of the ADM": {"targetContainerName": "admc-proxy"},
    "the token": {"volumeMounts": [{"name": "admc-token", "mountPath": "/mine"}]},
}
"""Ephemeral containers that can go round the ADM."""


def furnish(place: Guarded) -> None:
    """Create pods that are older than the guard (`old`, `good`), and pods of no service: without an ADM (`loose`), with
    one (`ready`), and with one that has run another image (`ran`)."""
    made = [
        pods.bare(name="old"),
        pods.rate("good", hostUsers=False),
        {**pods.bare(), "metadata": {"name": "loose"}},
        {**pods.rate(hostUsers=False), "metadata": {"name": "ready"}},
        {**pods.rate(), "metadata": {"name": "ran"}},
        pods.pod(pods.needs_of("caller"), selector("caller"), "waits", hostUsers=False),
    ]
    for each in made:
        status, answer = place.create(each, dry=False)
        assert status == 201, answer
    ended = {"name": "admc-rules", "image": "mine/admc:1", "imageID": "x://mine/admc@sha256:0a"}
    state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    change = {"initContainerStatuses": [{**ended, "ready": True, "restartCount": 0, "state": state}]}
    status, answer = place.merge("ran", {"status": change}, dry=False, part="/status")
    assert status == 200, answer


def labels(service: str) -> Json:
    return {"metadata": {"labels": selector(service)}}


def image(name: str, reference: str) -> Json:
    return {"spec": {"initContainers": [{"name": name, "image": reference}]}}


def attached(name: str = "debugger", **fields: Any) -> Json:
    return {"spec": {"ephemeralContainers": [{"name": name, "image": "busybox", **fields}]}}
