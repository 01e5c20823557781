"""What a pod says itself about its ADM, by annotations: that it gets none, or other resources.

    needs of its service, annotations of the pod --overridden--> the needs of the pod, or why an annotation is wrong

An amount without an annotation stays, as far as the API server accepts it beside the others: a request is never above
its limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.terminal import visible
from admc.kubernetes.inject.amounts import in_bytes, least, millicores, most
from admc.kubernetes.inject.model import NOTHING, PodNeeds, TemplateFinding
from admc.kubernetes.inject.names import ADM_CPU, ADM_CPU_LIMIT, ADM_MEMORY, ADM_MEMORY_LIMIT, CPU, INJECT, MEMORY
from admc.kubernetes.inject.spec import Amounts, Resources
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from admc.kubernetes.inject.model import Template
    from admc.manifests.documents import Where

OPTS_OUT: Final = "ADM959"
_SHOWN: Final = 60
"""Characters of a value in a message."""


class _Amount(NamedTuple):
    pattern: str
    value: Callable[[str], int]
    notation: str


_CPU: Final = _Amount(CPU, millicores, "in whole millicores (`500m`) or cores (`2`)")
_MEMORY: Final = _Amount(MEMORY, in_bytes, "in Ki, Mi or Gi (`256Mi`)")
_AMOUNTS: Final = {ADM_CPU: _CPU, ADM_CPU_LIMIT: _CPU, ADM_MEMORY: _MEMORY, ADM_MEMORY_LIMIT: _MEMORY}
_LIMITS: Final = ((ADM_CPU, ADM_CPU_LIMIT), (ADM_MEMORY, ADM_MEMORY_LIMIT))
"""The annotation of a request, and that of its limit."""


class Overridden(NamedTuple):
    needs: PodNeeds
    findings: tuple[TemplateFinding, ...] = ()
    """With an error among them, the needs are those of the service."""


def overridden(template: Template, needs: PodNeeds) -> Overridden:
    """Return the needs of a pod, by its annotations. Annotations that change nothing are not judged."""
    annotations = _annotations(template)
    if not needs.anything:
        return Overridden(needs)
    wrong = tuple(_wrong(annotations, needs))
    if wrong:
        return Overridden(needs, wrong)
    if annotations.get(INJECT) == "false":
        return Overridden(NOTHING, (_opts_out(needs),))
    return Overridden(needs._replace(resources=_resources(annotations, needs.resources)) if needs.adm else needs)


def has_amounts(template: Template, container: Mapping[str, Any]) -> bool:
    """Whether the ADM of a pod has the amounts of resources that the pod's annotations name. The annotations are
    right."""
    resources = container.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    for request, limit in _LIMITS:
        for name, part in ((request, "requests"), (limit, "limits")):
            asked = _annotations(template).get(name)
            amounts = resources.get(part)
            resource = "cpu" if _AMOUNTS[name] is _CPU else "memory"
            stored = amounts.get(resource) if isinstance(amounts, dict) else None
            if asked is not None and not _is_amount(name, stored, asked):
                return False
    return True


def _is_amount(name: str, stored: object, asked: str) -> bool:
    """Whether an amount is the one that is asked for. The API server may write it in another unit."""
    amount = _AMOUNTS[name]
    is_readable = isinstance(stored, str) and re.fullmatch(amount.pattern, stored) is not None
    return is_readable and amount.value(str(stored)) == amount.value(asked)


def _annotations(template: Template) -> Mapping[str, Any]:
    annotations = (template.get("metadata") or {}).get("annotations")
    return annotations or {}


def _wrong(annotations: Mapping[str, Any], needs: PodNeeds) -> Iterator[TemplateFinding]:
    value = annotations.get(INJECT, "true")
    if value not in ("true", "false"):
        yield _finding(
            INJECT, value, '`"false"`, in quotes, keeps the ADM out of the pod, and `"true"` changes nothing'
        )
    if not needs.adm:
        return
    names = [name for name in _AMOUNTS if name in annotations]
    unreadable = [name for name in names if not _is_readable(name, annotations[name])]
    for name in unreadable:
        yield _finding(name, annotations[name], f"write it {_AMOUNTS[name].notation}, in quotes")
    for request, limit in _LIMITS if not unreadable else ():
        if request in names and limit in names:
            value_of = _AMOUNTS[request].value
            if value_of(annotations[request]) > value_of(annotations[limit]):
                yield _finding(request, annotations[request], f"write at most the amount of `{limit}`")


def _is_readable(name: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_AMOUNTS[name].pattern, value) is not None


def _finding(name: str, value: object, hint: str) -> TemplateFinding:
    where: Where = ("metadata", "annotations", name)
    message = f"the annotation `{name}` cannot be `{visible(str(value)[:_SHOWN])}`"
    return TemplateFinding("ADM958", Severity.ERROR, message, where, None, hint)


def _opts_out(needs: PodNeeds) -> TemplateFinding:
    what = "redirection and an ADM" if needs.adm else "the wait for its address"
    return TemplateFinding(
        OPTS_OUT,
        Severity.WARNING,
        f'the pod gets nothing of admc, since its annotation `{INJECT}` is `"false"`',
        ("metadata", "annotations", INJECT),
        f"its service needs {what}: the pod counts as one that lacks that, and its requests may meet no policy",
        "take the annotation out",
    )


def _resources(annotations: Mapping[str, str], planned: Resources) -> Resources:
    limits = planned.limits or Amounts()
    cpu = _pair(annotations, _LIMITS[0], planned.requests.cpu, limits.cpu)
    memory = _pair(annotations, _LIMITS[1], planned.requests.memory, limits.memory)
    given = Amounts(cpu[1], memory[1])
    return Resources(Amounts(cpu[0], memory[0]), None if given == Amounts() else given)


def _pair(
    annotations: Mapping[str, str], names: tuple[str, str], request: str | None, limit: str | None
) -> tuple[str | None, str | None]:
    """Return request and limit. The one that has no annotation follows the other."""
    value = _AMOUNTS[names[0]].value
    asked, asked_limit = (annotations.get(name) for name in names)
    if asked_limit is not None:
        return least(asked or request, asked_limit, value), asked_limit
    return (request, limit) if asked is None else (asked, most(limit, asked, value))
