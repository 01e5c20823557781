"""The containers and volumes of an ADM in a pod, and how admc recognises them in a template.

The order in `initContainers`: the rules, Envoy as a native sidecar, the wait, then those of the user. The kubelet
starts a container once the one before has ended with exit code 0 or, for Envoy, once its startup probe succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.amounts import in_bytes, millicores, most
from admc.kubernetes.inject.model import AUDIENCE_PREFIX
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.spec import Amounts, Resources, resources_json
from emitters.interception.pod import arguments
from emitters.ports import ADM_USER, STARTUP_PORT, STOP_PATH, STOP_PORT

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import Installation, PodNeeds

WAIT_USER: Final = 15002
"""The user id of the wait. It is not the ADM's, whose connections the packet filter lets pass."""
TOKEN_VOLUME: Final = "admc-token"  # noqa: S105 - a name
CONFIG_VOLUME: Final = "admc-config"
NAMES: Final = (RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER)
VOLUMES: Final = (CONFIG_VOLUME, TOKEN_VOLUME)
CONFIG_FOLDER: Final = "/run/admc/config"
TOKEN_FOLDER: Final = "/run/admc/token"  # noqa: S105 - a folder
BOOTSTRAP: Final = f"{CONFIG_FOLDER}/bootstrap.yaml"
RULES_COMMAND: Final = ["python", "-m", "admc.pod", "rules"]
WAIT_COMMAND: Final = ["python", "-m", "admc.pod", "wait"]
ENVOY_COMMAND: Final = ["envoy"]
COMMANDS: Final = {RULES_CONTAINER: RULES_COMMAND, ADM_CONTAINER: ENVOY_COMMAND, WAIT_CONTAINER: WAIT_COMMAND}
TOKEN_SECONDS: Final = 3600
"""The kubelet replaces the token after four fifths of this time."""
DRAIN_SECONDS: Final = 45
OF_OTHERS: Final = Resources(Amounts("10m", "64Mi"))
"""The resources of the rules and of the wait, where the ADM has no limits."""
STARTUP_SECONDS: Final = 3600
"""How long Envoy may wait for its configuration before the kubelet restarts it. A pod without a server waits."""


class Form(IntEnum):
    """A version of the containers and volumes. A release writes its newest form. Pods outlive the release that injected
    them, so servers recognise every form. A form that is released is not changed: another one is added, and
    `tests/inject/forms` has the containers and volumes of each."""

    FIRST = 1
    WITH_HOOK = 2
    """The ADM ends its connections when its pod ends."""


FORMS: Final = tuple(sorted(Form, reverse=True))
"""The newest one first: it is the one that injection writes."""
CHANGES: Final[Mapping[Form, Mapping[str, Mapping[str, Any]]]] = {
    Form.FIRST: {},
    Form.WITH_HOOK: {
        ADM_CONTAINER: {"lifecycle": {"preStop": {"httpGet": {"path": STOP_PATH, "port": STOP_PORT}}}},
    },
}
"""Form -> container -> the fields that it has besides those of the first form, or in their place."""


def containers(needs: PodNeeds, installation: Installation, form: Form = FORMS[0]) -> list[dict[str, Any]]:
    """Return the init containers that a pod needs, in their order, as this form has them."""
    adm = [_rules(needs, installation), _envoy(needs, installation)] if needs.adm else []
    first = [*adm, _wait(needs, installation)] if needs.waits else adm
    return [{**container, **CHANGES[form].get(container["name"], {})} for container in first]


def volumes(needs: PodNeeds, installation: Installation) -> list[dict[str, Any]]:
    if not needs.anything:
        return []
    token = {"audience": AUDIENCE_PREFIX + installation.name, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    return [
        {"name": CONFIG_VOLUME, "configMap": {"name": f"admc-{installation.name}"}},
        {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}},
    ]


def is_own(container: dict[str, Any]) -> bool:
    """Whether admc wrote a container that has one of admc's names."""
    name = container.get("name")
    return name in NAMES and not not_own(container)


def not_own(container: dict[str, Any]) -> str:
    """Return why admc did not write a container that has one of admc's names; empty if admc wrote it."""
    command = COMMANDS[container["name"]]
    if container.get("command") != command:
        return f"its `command` is not `{' '.join(command)}`"
    if command is ENVOY_COMMAND and BOOTSTRAP not in _list(container.get("args")):
        return f"its `args` do not have `{BOOTSTRAP}`"
    return ""


def is_own_volume(volume: dict[str, Any]) -> bool:
    if volume.get("name") == CONFIG_VOLUME:
        source = volume.get("configMap")
        return isinstance(source, dict) and str(source.get("name", "")).startswith("admc-")
    projected = volume.get("projected") if volume.get("name") == TOKEN_VOLUME else None
    sources = _list(projected.get("sources")) if isinstance(projected, dict) else []
    tokens = [item.get("serviceAccountToken") for item in sources if isinstance(item, dict)]
    return any(isinstance(it, dict) and str(it.get("audience", "")).startswith(AUDIENCE_PREFIX) for it in tokens)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _rules(needs: PodNeeds, installation: Installation) -> dict[str, Any]:
    assert needs.captures is not None  # noqa: S101 - the caller has checked it
    return {
        "name": RULES_CONTAINER,
        "image": installation.image,
        "command": list(RULES_COMMAND),
        "args": list(arguments(needs.service, needs.captures)),
        "resources": _resources(needs.resources.limits),
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _envoy(needs: PodNeeds, installation: Installation) -> dict[str, Any]:
    # The kubelet replaces `$(POD_NAME)`. The server trusts neither name: it identifies the proxy by its token.
    options = ["-c", BOOTSTRAP, "--service-node", "$(POD_NAME)"]
    options += ["--service-cluster", needs.service.rpartition("/")[2]]
    options += ["--disable-hot-restart", "--drain-time-s", str(DRAIN_SECONDS), "--log-level", "warn"]
    return {
        "name": ADM_CONTAINER,
        "image": installation.envoy_image,
        "command": list(ENVOY_COMMAND),
        "args": options,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "restartPolicy": "Always",
        "startupProbe": {
            "httpGet": {"path": "/ready", "port": STARTUP_PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": STARTUP_SECONDS,
        },
        "resources": resources_json(needs.resources),
        "securityContext": _unprivileged(ADM_USER),
        "volumeMounts": _mounts(),
    }


def _wait(needs: PodNeeds, installation: Installation) -> dict[str, Any]:
    files = ["--ca", f"{CONFIG_FOLDER}/ca.crt", "--token", f"{TOKEN_FOLDER}/token"]
    return {
        "name": WAIT_CONTAINER,
        "image": installation.image,
        "command": list(WAIT_COMMAND),
        "args": ["--server", installation.server, *files, "--name", installation.name],
        "resources": _resources(needs.resources.limits),
        "securityContext": _unprivileged(WAIT_USER),
        "volumeMounts": _mounts(),
    }


def _resources(limits: Amounts | None) -> dict[str, Any]:
    """Return the resources of the rules and of the wait. `limits` are those of the ADM: a quota of limits asks for them
    in every container."""
    if limits is None:
        return resources_json(OF_OTHERS)
    least = OF_OTHERS.requests
    cpu, memory = most(limits.cpu, least.cpu, millicores), most(limits.memory, least.memory, in_bytes)
    return resources_json(Resources(least, Amounts(cpu, memory)))


def _unprivileged(user: int) -> dict[str, Any]:
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _mounts() -> list[dict[str, Any]]:
    return [
        {"name": CONFIG_VOLUME, "mountPath": CONFIG_FOLDER, "readOnly": True},
        {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True},
    ]
