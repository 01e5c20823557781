"""Where a container or volume of the API differs from the one that injection wrote.

    as the API server has it, as written --> differences

The API server fills in defaults, and operators set amounts of resources. The identity webhooks of EKS and Azure add
variables and mounts to the containers of a pod. These are no differences, and all else is: `docs/adr/0045` has the
reasons.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from admc.base.terminal import visible
from admc.kubernetes.inject.images import repository

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Absence(Enum):
    """Stands for a field that one side does not have. None is a value of JSON."""

    ABSENT = "absent"


ABSENT: Final = Absence.ABSENT
IMAGE: Final = ("image",)
RAN: Final = ("status", "image")
"""The place of a difference between the image that ran and those of the installation."""


class Difference(NamedTuple):
    place: tuple[str | int, ...]
    """The keys and positions that lead to it. Variables have their names there, and mounts their paths."""
    stored: object
    written: object

    def within(self, key: str | int) -> Difference:
        return self._replace(place=(key, *self.place))


class Expected(NamedTuple):
    """A container as it was written, prepared for comparison."""

    name: str
    fields: Mapping[str, Any]
    repositories: frozenset[str]
    """Its image is of one of them."""


_ANY: Final = frozenset(("imagePullPolicy", "resizePolicy", "terminationMessagePolicy"))
"""Fields that do not change what a container does: the API server fills them in, or an operator sets them."""
_APART: Final = _ANY | {"image", "resources", "env", "volumeMounts"}
"""Fields that are not compared as they are."""
_AMOUNTS: Final = frozenset(("limits", "requests"))
"""The fields of `resources` that may have any value. A claim of a device may add files and environment variables."""
_DEFAULTS: Final[Mapping[str, object]] = {
    "apiVersion": "v1",
    "appArmorProfile": {"type": "RuntimeDefault"},
    "defaultMode": 0o644,
    "failureThreshold": 3,
    "periodSeconds": 10,
    "privileged": False,
    "procMount": "Default",
    "protocol": "TCP",
    "readOnlyRootFilesystem": False,
    "recursiveReadOnly": "Disabled",
    "scheme": "HTTP",
    "service": "",
    "successThreshold": 1,
    # The kubelet puts an empty file there. At another path it would take the place of a program.
    "terminationMessagePath": "/dev/termination-log",
    "timeoutSeconds": 1,
}
"""The defaults in a container and in volumes: the API server fills most of them in. Those of a security context are
written by policy engines, and the profile of AppArmor by the API server for the annotation of earlier Kubernetes."""
VARIABLES: Final = frozenset(
    (
        # EKS, roles of service accounts: github.com/aws/amazon-eks-pod-identity-webhook
        *("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ROLE_ARN", "AWS_STS_REGIONAL_ENDPOINTS"),
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        # EKS Pod Identity, by the same webhook
        *("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        # Azure: github.com/Azure/azure-workload-identity
        *("AZURE_AUTHORITY_HOST", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID"),
        *("AZURE_KUBERNETES_CA_DATA", "AZURE_KUBERNETES_CA_FILE", "AZURE_KUBERNETES_SNI_NAME"),
        "AZURE_KUBERNETES_TOKEN_PROXY",
    )
)
"""Environment variables that a container may have besides its own, with any value. Neither admc reads them nor an Envoy
with admc's bootstrap."""
MOUNTS: Final = frozenset(
    (
        # The token of the service account, by an admission plugin of the API server.
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/var/run/secrets/eks.amazonaws.com/serviceaccount",
        "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount",
        "/var/run/secrets/azure/tokens",
        "/var/run/secrets/azure/wi",
    )
)
"""Where a container may have read-only mounts of whole volumes besides its own."""
_HIDDEN: Final = frozenset(("args", "env"))
"""Fields whose values may be secrets. A finding shows what admc writes there, and not what stands there instead."""
_SHOWN: Final = 60
"""Characters of a value in a text."""
_PATH: Final = 100
"""Characters of a place in a text."""


def expected(container: Mapping[str, Any], repositories: frozenset[str]) -> Expected:
    """Return a container, as injection writes it, in the form for `container_differences`."""
    return Expected(container["name"], _comparable(container), repositories)


def container_differences(stored: Mapping[str, Any], written: Expected) -> tuple[Difference, ...]:
    different = differences(_comparable(stored), written.fields)
    name = repository(str(stored.get("image", "")))
    return different if name in written.repositories else (Difference(IMAGE, name, written.repositories), *different)


def differences(stored: object, written: object) -> tuple[Difference, ...]:
    """Return where a part of an object of the API is not as it was written, apart from defaults.

    Most values are texts that are as written: the functions below find these without a call of this one.
    """
    if type(stored) is not type(written):
        return (Difference((), stored, written),)
    if isinstance(stored, dict):
        return _of_mappings(stored, cast("dict[str, Any]", written))
    if isinstance(stored, list):
        return _of_lists(stored, cast("list[Any]", written))
    return () if stored == written else (Difference((), stored, written),)


def _of_lists(stored: list[Any], written: list[Any]) -> tuple[Difference, ...]:
    if len(stored) != len(written):
        return (Difference((), stored, written),)
    inside: list[Difference] = []
    for index, (item, other) in enumerate(zip(stored, written, strict=True)):
        if not (type(item) is str and item == other) and (unlike := differences(item, other)):
            inside += [difference.within(index) for difference in unlike]
    return tuple(inside)


def _of_mappings(stored: dict[str, Any], written: dict[str, Any]) -> tuple[Difference, ...]:
    inside: list[Difference] = []
    for key, value in stored.items():
        if key not in written:
            default = _DEFAULTS.get(key, ABSENT)
            if type(value) is not type(default) or value != default:
                inside.append(Difference((key,), value, ABSENT))
        elif not (type(value) is str and value == written[key]) and (unlike := differences(value, written[key])):
            inside += [difference.within(key) for difference in unlike]
    if not written.keys() <= stored.keys():
        inside += [Difference((key,), ABSENT, value) for key, value in written.items() if key not in stored]
    return tuple(inside)


def _comparable(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that decide what a container does: variables by their names, and mounts by their paths."""
    fields = {key: value for key, value in container.items() if key not in _APART}
    fields["env"] = _by("name", container.get("env"), _is_known_variable)
    fields["volumeMounts"] = _by("mountPath", container.get("volumeMounts"), _is_known_mount)
    resources = container.get("resources") or {}
    is_as_in_the_api = isinstance(resources, dict)
    fields["resources"] = (
        {key: value for key, value in resources.items() if key not in _AMOUNTS} if is_as_in_the_api else resources
    )
    return fields


def _by(key: str, listed: object, is_left_out: Callable[[Mapping[str, Any]], bool]) -> object:
    """Return items by a field. A second one with the same value has a key of its own, which no written item has. What
    is no list of mappings, which the API does not have, stays as it is, and is like nothing that is written."""
    if listed is not None and not (isinstance(listed, list) and all(isinstance(item, dict) for item in listed)):
        return listed
    by_key: dict[str, Mapping[str, Any]] = {}
    for item in listed or ():
        if not is_left_out(item):
            name = str(item.get(key))
            by_key[f"{name} (again)" if name in by_key else name] = item
    return by_key


def _is_known_variable(variable: Mapping[str, Any]) -> bool:
    name = variable.get("name")
    return isinstance(name, str) and name in VARIABLES and variable.keys() <= {"name", "value"}


def _is_known_mount(mount: Mapping[str, Any]) -> bool:
    path = mount.get("mountPath")
    return (
        isinstance(path, str)
        and path in MOUNTS
        and mount.get("readOnly") is True
        and mount.keys() == {"name", "mountPath", "readOnly"}
    )


# ---- in words ----


def described(difference: Difference) -> str:
    """Return a difference in words. Values that may be secret are not shown.

    >>> described(Difference(("args", 3), "x", "9000")), described(Difference(("tty",), True, ABSENT))
    ('`args[3]` is another text, and admc writes `9000`', '`tty` is true, and admc does not write it')
    """
    place, stored, written = difference
    if place in (IMAGE, RAN):
        return _other_image(difference)
    path = f"`{_path(place)}`"
    hides = place[0] in _HIDDEN
    if stored is ABSENT:
        return f"{path} is missing"
    if written is ABSENT:
        is_shown = not hides and not isinstance(stored, dict | list)
        return f"{path} is {_value(stored)}, and admc does not write it" if is_shown else f"{path} is added"
    if isinstance(stored, list) and isinstance(written, list):
        return f"{path} has {len(stored):,} items, and admc writes {len(written)}"
    return f"{path} is {_value(stored, hides=hides)}, and admc writes {_value(written)}"


def _other_image(difference: Difference) -> str:
    what = "its image" if difference.place == IMAGE else "the image that ran"
    listed = difference.written if isinstance(difference.written, frozenset) else frozenset[str]()
    those = " or ".join(f"`{visible(name[:_SHOWN])}`" for name in sorted(listed)[:2])
    return f"{what} is of `{visible(str(difference.stored)[:_SHOWN])}`, and not of {those}"


def _path(place: tuple[str | int, ...]) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
    return visible(text if len(text) <= _PATH else f"{text[: _PATH - 3]}...")


def _value(value: object, *, hides: bool = False) -> str:
    if isinstance(value, str):
        return "another text" if hides else f"`{visible(value[:_SHOWN])}`"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return json.dumps(value)
