"""Changes of pods that are there, as requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.cluster.guard import pods
from tests.cluster.guard.policy import selector

if TYPE_CHECKING:
    from collections.abc import Collection

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
    one (`ready`), with one that has run another image (`ran`), and with one of which the node has reported the first
    container alone (`young`)."""
    made = [
        pods.bare(name="old"),
        pods.rate("good", hostUsers=False),
        {**pods.bare(), "metadata": {"name": "loose"}},
        {**pods.rate(hostUsers=False), "metadata": {"name": "ready"}},
        {**pods.rate(), "metadata": {"name": "ran"}},
        {**pods.rate(nodeName="somewhere"), "metadata": {"name": "young"}},
        pods.pod(pods.needs_of("caller"), selector("caller"), "waits", hostUsers=False),
    ]
    for each in made:
        status, answer = place.create(each, dry=False)
        assert status == 201, answer
    other = reported(["admc-rules"])
    other["status"]["initContainerStatuses"] = other["status"]["initContainerStatuses"][:1]
    other["status"]["initContainerStatuses"][0] |= {"image": "mine/admc:1", "imageID": "x://mine/admc@sha256:0a"}
    for name, change in (("ran", other), ("young", reported(["admc-rules"]))):
        status, answer = place.merge(name, change, dry=False, part="/status")
        assert status == 200, answer


def reported(ran: Collection[str]) -> Json:
    """The status of a pod of `rate`: the node has reported that these containers of admc have run, and shows the images
    in the specification for the others."""
    statuses = []
    for each in pods.rate()["spec"]["initContainers"]:
        has_run = each["name"] in ran
        ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        statuses.append(
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": f"x://{each['image'].rpartition(':')[0]}@sha256:0a" if has_run else "",
                "ready": False,
                "restartCount": 0,
                "state": ended if has_run else {"waiting": {"reason": "ImagePullBackOff"}},
            }
        )
    return {"status": {"initContainerStatuses": statuses}}


def labels(service: str) -> Json:
    return {"metadata": {"labels": selector(service)}}


def image(name: str, reference: str) -> Json:
    return {"spec": {"initContainers": [{"name": name, "image": reference}]}}


def attached(name: str = "debugger", **fields: Any) -> Json:
    return {"spec": {"ephemeralContainers": [{"name": name, "image": "busybox", **fields}]}}
