"""Injects into a pod as the API server shows it to a webhook: with defaults, and perhaps changed by other webhooks.

    pod, needs --injected_pod--> pod --patch--> JSON Patch

The API server asks a webhook again after other webhooks have changed the pod, and pods may come from injected
manifests. What is there already in the present form stays as it is, with the defaults and amounts of resources that it
has by now, so that a second time changes nothing. All else is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.containers import is_own, is_own_volume
from admc.kubernetes.inject.model import Injection
from admc.kubernetes.inject.names import ADM_CONTAINER
from admc.kubernetes.inject.overrides import has_amounts, overridden
from admc.kubernetes.inject.recognised import is_present_form
from admc.kubernetes.inject.template import injected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.kubernetes.inject.model import Installation, PodNeeds, Template

    Patch = list[dict[str, Any]]

_OWN: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {"initContainers": is_own, "volumes": is_own_volume}
_PARTS: Final = {"metadata": ("annotations",), "spec": ("initContainers", "containers", "volumes")}
"""The parts of a pod that injection changes."""


def injected_pod(pod: Template, needs: PodNeeds, installation: Installation) -> Injection:
    """Return what `injected` returns, in which everything that the pod has in the present form stays as it is."""
    made = injected(pod, needs, installation)
    if made.template is None:
        return made
    needs = overridden(pod, needs).needs
    if not (needs.anything and is_present_form(pod, needs, installation) and _has_its_amounts(pod)):
        return made
    spec = {**made.template["spec"]}
    for part, own in _OWN.items():
        stored = {item["name"]: item for item in pod["spec"].get(part) or () if own(item)}
        spec[part] = [stored[item["name"]] if own(item) else item for item in spec[part]]
    if _sorted(spec["volumes"]) == _sorted(pod["spec"]["volumes"]):
        spec["volumes"] = pod["spec"]["volumes"]  # their order means nothing
    return made._replace(template={**made.template, "spec": spec})


def patch(before: Template, after: Template) -> Patch:
    """Return the JSON Patch that makes one pod of another: the parts that differ, each as a whole."""
    return [operation for part, fields in _PARTS.items() for operation in _operations(before, after, part, fields)]


def _has_its_amounts(pod: Template) -> bool:
    return all(has_amounts(pod, item) for item in pod["spec"]["initContainers"] if item["name"] == ADM_CONTAINER)


def _sorted(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(volumes, key=lambda volume: str(volume["name"]))


def _operations(before: Template, after: Template, part: str, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    old, new = before.get(part), after.get(part) or {}
    if not isinstance(old, dict):
        if new:
            yield {"op": "add", "path": f"/{part}", "value": new}
        return
    for field in fields:
        if field in new and (field not in old or old[field] != new[field]):
            yield {"op": "add", "path": f"/{part}/{field}", "value": new[field]}
        if field in old and field not in new:
            yield {"op": "remove", "path": f"/{part}/{field}"}
