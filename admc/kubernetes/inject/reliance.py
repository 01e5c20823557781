"""Compares a template with what the plan relies on: the pods of the service do not go round their ADM, and have
addresses of their own.

In a cluster the server checks the pods for the same (`admc.kubernetes.cluster.core.facts`). A plan that was compiled
from files relies on the program alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.containers import NAMES, is_own
from admc.kubernetes.inject.model import TemplateFinding
from admc.kubernetes.inject.refusals import keeps_net_raw
from admc.kubernetes.inject.security import untrusted
from dsl.diagnostics.diagnostic import Severity
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.kubernetes.inject.model import Template
    from admc.kubernetes.inject.plan_rows import ServiceRow

_NAMED: Final = 3
_SOME_USER: Final = 1000
"""Stands for the user of an image that does not run as root."""


def reliance(template: Template, row: ServiceRow) -> Iterator[TemplateFinding]:
    """Yield the findings about a template that is not malformed."""
    spec = template["spec"]
    yield from _host_network(spec, row)
    yield from _untrusted(template, spec, row)


def listed(names: tuple[str, ...]) -> str:
    """Return some of the names, in words."""
    return few([f"`{name}`" for name in names], _NAMED)


def _host_network(spec: Mapping[str, Any], row: ServiceRow) -> Iterator[TemplateFinding]:
    if spec.get("hostNetwork") is not True or row.host_network or row.needs.captures is not None:
        return  # a pod with an ADM is refused in any case
    if row.selected or row.needs.waits:
        why = (
            f"a NetworkPolicy does not meet a pod on its node's network, and the plan closes {listed(row.selected)}"
            if row.selected
            else "at its address is the whole node, and some ADM tells callers or destinations by it"
        )
        yield TemplateFinding(
            "ADM922",
            Severity.ERROR,
            "the pod is on its node's network, and the plan relies on an address of its own",
            ("spec", "hostNetwork"),
            why,
            "leave `hostNetwork` out, or declare the service `host_network` and compile again",
        )


def _untrusted(template: Template, spec: Mapping[str, Any], row: ServiceRow) -> Iterator[TemplateFinding]:
    if not row.guards and not row.rejecting:
        return
    own = [name for name in NAMES if any(is_own(it) and it["name"] == name for it in spec.get("initContainers") or ())]
    keeps = keeps_net_raw(template)
    why = untrusted(spec, injected=own, keeps_net_raw=keeps)
    if not why:
        return
    context = {"runAsUser": _SOME_USER, "runAsNonRoot": True, **(spec.get("securityContext") or {})}
    certain = untrusted({**spec, "securityContext": context}, injected=own, keeps_net_raw=keeps)
    if not certain and not row.guards:
        return  # that is true of almost every pod
    relying = row.guards or row.rejecting
    yield TemplateFinding(
        "ADM948",
        Severity.ERROR if certain and row.guards else Severity.WARNING,
        f"{certain or why}, and the plan relies on it for {listed(relying)}",
        ("spec", *_place(spec, certain or why)),
        "it can send past its ADM, which enforces the policies on what this pod sends",
        "take that away from the pod, or declare the service `untrusted` and compile again: guards then stay at the "
        "receivers"
        if certain
        else "set `runAsUser` to a number that is neither 0 nor 15001; or declare the service `untrusted` and compile "
        "again: guards then stay at the receivers",
    )


def _place(spec: Mapping[str, Any], why: str) -> tuple[str | int, ...]:
    """Return the place of the container that a reason names."""
    if spec.get("hostPID") is True:
        return ("hostPID",)
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            if why.startswith(f"container `{str(container.get('name'))[:63]}` "):
                return (part, index)
    return ()
