"""Injects into one pod template the ADM and the init container that waits until the address of the pod is published.

`injected` is a pure function. It first takes out the containers and volumes that admc wrote earlier, which it
recognises by name and content, and restores the probes that it pointed at the ADM. So a second injection changes
nothing, and a newer plan replaces what an older one needed. One thing stays: a container that dropped NET_RAW still
drops it, since nothing shows who wrote that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject import probes
from admc.kubernetes.inject.annotations import SEPARATORS, skipping_own
from admc.kubernetes.inject.containers import containers, is_own, is_own_volume, volumes
from admc.kubernetes.inject.model import NOTHING, Injection, TemplateFinding
from admc.kubernetes.inject.overrides import overridden
from admc.kubernetes.inject.refusals import CONTAINERS, capability, is_windows, keeps_net_raw, refusals
from admc.manifests.documents import Where
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.kubernetes.inject.model import Installation, PodNeeds, Template

_LISTS: Final = (*CONTAINERS, "volumes")


def injected(template: Template, needs: PodNeeds, installation: Installation) -> Injection:
    """Return the template with what its pods need, and without what an earlier injection wrote; its annotations may say
    otherwise. If the pods get an ADM, their containers drop NET_RAW, unless the template keeps it. With an error among
    the findings there is no template."""
    malformed = tuple(_malformed(template))
    if malformed:
        return Injection(None, malformed)
    template = {**template, "spec": _with_containers(template["spec"], probes.restored)}
    needs, by_annotations = overridden(template, needs)
    findings = (*by_annotations, *refusals(template, needs, installation))
    if any(finding.severity is Severity.ERROR for finding in findings):
        return Injection(None, findings)
    bare = _without_own(template["spec"])
    if is_windows(bare):
        needs = NOTHING  # it needed the wait alone, which does not run on Windows
    spec = _with(bare, "initContainers", containers(needs, installation), first=True)
    spec = _with(spec, "volumes", volumes(needs, installation), first=False)
    captures = needs.captures
    if captures is not None:
        spec = _with_containers(spec, lambda container: probes.pointed(container, captures))
        if not keeps_net_raw(template):
            spec = _with_containers(spec, _without_net_raw)
    return Injection({**_annotated(template, is_injected=needs.anything), "spec": spec}, findings)


def has_own(template: object) -> bool:
    """Whether a template, of which nothing has been checked, has a container or a probe that injection wrote."""
    spec = template.get("spec") if isinstance(template, dict) else None
    listed = {part: spec.get(part) if isinstance(spec, dict) else None for part in CONTAINERS}
    init, others = (
        [it for it in items if isinstance(it, dict)] if isinstance(items, list) else [] for items in listed.values()
    )
    return any(map(is_own, init)) or any(map(probes.paths, (*init, *others)))


def _malformed(template: Template) -> Iterator[TemplateFinding]:
    spec = template.get("spec")
    if not isinstance(spec, dict):
        yield _not_a("a mapping", ("spec",))
        return
    if not spec.get("containers"):
        yield _not_a("a list with a container", ("spec", "containers"))
    for part in _LISTS:
        listed = spec.get(part)
        if listed is not None and not isinstance(listed, list):
            yield _not_a("a list", ("spec", part))
            continue
        for index, item in enumerate(listed or ()):
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                yield _not_a("a mapping with a name", ("spec", part, index))
            elif part in CONTAINERS:
                yield from _malformed_container(item, ("spec", part, index))
    yield from _malformed_annotations(template)
    if not isinstance(spec.get("securityContext") or {}, dict):
        yield _not_a("a mapping", ("spec", "securityContext"))


def _malformed_annotations(template: Template) -> Iterator[TemplateFinding]:
    metadata = template.get("metadata") or {}
    annotations = (metadata.get("annotations") or {}) if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        yield _not_a("a mapping", ("metadata",) if annotations is None else ("metadata", "annotations"))
        return
    for key in SEPARATORS:
        if not isinstance(annotations.get(key, ""), str):
            yield _not_a("a text", ("metadata", "annotations", key))


def _malformed_container(container: dict[str, Any], where: Where) -> Iterator[TemplateFinding]:
    ports = container.get("ports") or []
    if not isinstance(ports, list) or not all(isinstance(port, dict) for port in ports):
        yield _not_a("a list of mappings", (*where, "ports"))
    context = container.get("securityContext") or {}
    capabilities = (context.get("capabilities") or {}) if isinstance(context, dict) else None
    if not isinstance(context, dict) or not isinstance(capabilities, dict):
        yield _not_a("a mapping", (*where, "securityContext"))
        return
    for name in ("add", "drop"):
        if not isinstance(capabilities.get(name) or [], list):
            yield _not_a("a list", (*where, "securityContext", "capabilities", name))


def _not_a(what: str, where: Where) -> TemplateFinding:
    path = ".".join(str(part) for part in where)
    return TemplateFinding("ADM920", Severity.ERROR, f"`{path}` of the pod template is not {what}", where)


def _annotated(template: Template, *, is_injected: bool) -> dict[str, Any]:
    metadata = template.get("metadata") or {}
    before = metadata.get("annotations") or {}
    annotations = skipping_own(before, is_injected=is_injected)
    if annotations == before:
        return dict(template)
    others = {key: value for key, value in metadata.items() if key != "annotations" or annotations}
    return {**template, "metadata": {**others, "annotations": annotations} if annotations else others}


def _without_own(spec: dict[str, Any]) -> dict[str, Any]:
    bare = dict(spec)
    for part, own in (("initContainers", is_own), ("volumes", is_own_volume)):
        others = _others(spec.get(part) or (), own)
        if len(others) < len(spec.get(part) or ()):
            bare[part] = others
            if not others:
                del bare[part]
    return bare


def _others(listed: Any, own: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    return [item for item in listed if not own(item)]


def _with(spec: dict[str, Any], part: str, new: list[dict[str, Any]], *, first: bool) -> dict[str, Any]:
    if not new:
        return dict(spec)
    old = spec.get(part) or []
    return {**spec, part: [*new, *old] if first else [*old, *new]}


def _with_containers(spec: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The spec with other containers in the place of the user's."""
    listed = {part: [it if is_own(it) else change(it) for it in spec[part]] for part in CONTAINERS if spec.get(part)}
    return {**spec, **listed}


def _without_net_raw(container: dict[str, Any]) -> dict[str, Any]:
    context = container.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    added, dropped = capabilities.get("add") or [], capabilities.get("drop") or []
    others = [item for item in added if capability(item) != "NET_RAW"]
    drops = {capability(item) for item in dropped} & {"ALL", "NET_RAW"}
    if drops and len(others) == len(added):
        return container
    new = {**capabilities, "drop": dropped if drops else [*dropped, "NET_RAW"]}
    if added:
        new["add"] = others
        if not others:
            del new["add"]
    return {**container, "securityContext": {**context, "capabilities": new}}
