"""Pod templates in objects of kinds that admc does not know: an Argo Rollout, a Knative Service, any other resource
from which a controller makes pods.

Only the kind's controller knows where such a template is, and what it does with it. So admc finds a template by its
content, and never changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.inject.model import TemplateFinding
from admc.manifests.documents import Where, at
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.manifests.documents import Object

_FIELDS: Final = {
    "containers": ("image", "name"),
    "initContainers": ("image", "name"),
    "container": ("image",),
    "steps": ("image",),
}
"""Field that may have containers -> the fields by which an item of it counts as a container. `container` and `steps`
mean other things in many kinds, so an item of these counts by its image alone."""


class Unknown(NamedTuple):
    """The pod specifications in an object of an unknown kind."""

    where: Where
    """The place of the first pod specification in the object."""
    labels: Mapping[str, Any]
    """The labels of the template around it."""
    places: int
    """The number of pod specifications in the object."""


def unknown(manifest: Object) -> Unknown | None:
    """Return the pod templates of an object whose kind admc does not know; None without one."""
    if manifest.template is not None:
        return None
    places = list(_pods({key: value for key, value in manifest.data.items() if key != "metadata"}, ()))
    if not places:
        return None
    template = places[0][:-1] if places[0][-1:] == ("spec",) else places[0]
    labels = at(manifest.data, (*template, "metadata", "labels"))
    return Unknown(places[0], labels if isinstance(labels, dict) else {}, len(places))


def refusal(manifest: Object, pods: Unknown, service: str | None) -> TemplateFinding:
    """Return the refusal of an object. `service` is the service of the program that its pods belong to; None if none is
    seen."""
    place = ".".join(str(part) for part in pods.where)
    more = f", and {pods.places - 1} more of them" if pods.places > 1 else ""
    of = f"its pods are those of `{service}`, and" if service else "its pods"
    return TemplateFinding(
        "ADM947",
        Severity.ERROR,
        f"admc does not know this kind ({manifest.data.get('apiVersion', 'without `apiVersion`')}), and `{place}` has "
        f"containers{more}",
        pods.where,
        f"{of} would run without an ADM and without a wait: a policy that the plan has there would not be enforced",
        "give admc the Deployment, StatefulSet or other known kind that it stands for, or declare its service `no adm` "
        "and compile again; `--skip-unknown` lets such objects pass as they are",
    )


def _pods(data: Any, where: Where) -> Iterator[Where]:
    if isinstance(data, dict):
        if _has_containers(data):
            yield where
            return
        for key, value in data.items():
            yield from _pods(value, (*where, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _pods(item, (*where, index))


def _has_containers(data: Mapping[str, Any]) -> bool:
    """Whether a mapping has containers. Other kinds use the words `steps` and `container` as well, so an item counts
    there only if it has an image."""
    return any(
        isinstance(item, dict) and any(isinstance(item.get(field), str) for field in fields)
        for name, fields in _FIELDS.items()
        for item in (data[name] if isinstance(data.get(name), list) else [data.get(name)])
    )
