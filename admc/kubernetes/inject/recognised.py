"""Which containers of a pod in the cluster are exactly as injection writes them, so that admc can rely on them.

A name proves nothing: a container with the ADM's name and another command may open any connection as the ADM's user. So
the containers are built again from the arguments of the pod's rules container, and compared. They have to come first,
since a container that runs before the rules is not redirected.

The tag of an image may differ: pods outlive a release. The image that runs has to be of the same repository too: the
image in a pod's spec can be changed after its container has ended.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.containers import NAMES, containers, volumes
from admc.kubernetes.inject.model import PodNeeds
from emitters.interception.pod import ArgumentsError, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.inject.model import Installation

NOTHING: Final[frozenset[str]] = frozenset()
RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER = NAMES


def recognised(pod: Mapping[str, Any], installation: Installation) -> frozenset[str]:
    """Return the names of the containers that injection wrote; none if any of them was altered."""
    spec = pod["spec"]
    listed = spec.get("initContainers") or []
    names = [container.get("name") for container in listed if container.get("name") in NAMES]
    if not names:
        return NOTHING
    needs = _needs(listed, names)
    if needs is None:
        return NOTHING
    written, mounts = _written(needs, installation)
    if len(names) != len(written) or len(listed) < len(written):
        return NOTHING
    if not all(is_as_written(_untagged(one), other) for one, other in zip(listed, written, strict=False)):
        return NOTHING
    if not _ran_as_listed(pod, written):
        return NOTHING
    mounted = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    if not all(is_stored_form(mounted.get(volume["name"]), volume) for volume in mounts):
        return NOTHING
    return frozenset(container["name"] for container in written)


def _needs(listed: list[dict[str, Any]], names: list[str]) -> PodNeeds | None:
    """Return the needs of the pod, by its own containers; None if these do not belong together."""
    waits = WAIT_CONTAINER in names
    rules = listed[0] if listed[0].get("name") == RULES_CONTAINER else None
    if rules is None:
        return PodNeeds("", None, waits) if names == [WAIT_CONTAINER] else None
    if ADM_CONTAINER not in names:
        return None
    try:
        rules_arguments = parse_arguments(rules.get("args") or ())
    except ArgumentsError:
        return None
    return PodNeeds(rules_arguments.service, rules_arguments.captures, waits)


@lru_cache(maxsize=1 << 12)
def _written(needs: PodNeeds, installation: Installation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the containers and volumes for these needs. All pods of a service have the same ones."""
    return [_untagged(container) for container in containers(needs, installation)], volumes(needs, installation)


def _untagged(container: Mapping[str, Any]) -> dict[str, Any]:
    return {**container, "image": repository(str(container.get("image", "")))}


def repository(image: str) -> str:
    """An image without its tag and digest.

    >>> repository("registry:5000/admc:1.2@sha256:0a")
    'registry:5000/admc'
    """
    name = image.partition("@")[0]
    before, _, tag = name.rpartition(":")
    return before if before and "/" not in tag else name


def _ran_as_listed(pod: Mapping[str, Any], written: list[dict[str, Any]]) -> bool:
    """Whether these containers run, or have run, the images that they should have."""
    repositories = {container["name"]: familiar(container["image"]) for container in written}
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if status.get("name") in repositories:
            # One image may have several names, of which a runtime reports one, or its digest alone.
            images = {familiar(repository(status.get(field) or "")) for field in ("image", "imageID")} - _NAMELESS
            if images and repositories[status["name"]] not in images:
                return False
    return True


_NAMELESS: Final = frozenset(("", "sha256"))


def familiar(name: str) -> str:
    """A repository as people write it. Runtimes report it with the registry that a short name stands for.

    >>> familiar("docker.io/library/admc"), familiar("docker-pullable://docker.io/shop/admc")
    ('admc', 'shop/admc')
    """
    name = name.rpartition("://")[2]
    for prefix in ("docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(prefix)
    return name


# ---- containers as the API server stores them ----

_ANY: Final = frozenset(("imagePullPolicy", "resources", "terminationMessagePolicy"))
"""Fields that do not change what a container does: the API server fills them in, or an operator sets them."""
_AMOUNTS: Final = frozenset(("limits", "requests"))
"""The fields that `resources` may have. A claim of a device may add files and environment variables."""
_DEFAULTS: Final[Mapping[str, object]] = {
    "apiVersion": "v1",
    "defaultMode": 0o644,
    "failureThreshold": 3,
    "periodSeconds": 10,
    "protocol": "TCP",
    "recursiveReadOnly": "Disabled",
    "scheme": "HTTP",
    "service": "",
    "successThreshold": 1,
    # The kubelet puts an empty file there. At another path it would take the place of a program.
    "terminationMessagePath": "/dev/termination-log",
    "timeoutSeconds": 1,
}
"""The defaults that the API server fills in, in a container and in volumes."""
_ACCOUNT_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where an admission plugin mounts the token of the service account, in every container."""


def is_as_written(stored: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Whether a container of the API is one that injection wrote, apart from what the API server fills in.

    A name proves nothing: a container with the ADM's name and another command may do anything as its user.
    """
    if not (stored.get("resources") or {}).keys() <= _AMOUNTS:
        return False
    mounts = [mount for mount in stored.get("volumeMounts") or () if not _is_account(mount)]
    own = {key: value for key, value in stored.items() if key not in _ANY} | {"volumeMounts": mounts}
    expected = {"volumeMounts": [], **{key: value for key, value in written.items() if key not in _ANY}}
    return is_stored_form(own, expected)


def _is_account(mount: Mapping[str, Any]) -> bool:
    return mount.get("mountPath") == _ACCOUNT_MOUNT and mount.get("readOnly") is True and "subPath" not in mount


def is_stored_form(stored: object, written: object) -> bool:
    """Whether a part of an object of the API is as it was written, apart from defaults."""
    if isinstance(stored, dict) and isinstance(written, dict):
        return written.keys() <= stored.keys() and all(
            is_stored_form(value, written[key]) if key in written else _DEFAULTS.get(key, _ANY) == value
            for key, value in stored.items()
        )
    if isinstance(stored, list) and isinstance(written, list):
        return len(stored) == len(written) and all(map(is_stored_form, stored, written))
    return type(stored) is type(written) and stored == written
