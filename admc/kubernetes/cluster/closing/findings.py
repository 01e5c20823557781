"""Why a destination cannot be closed: one finding for each cause, at the line of its service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.kubernetes.cluster.records import Key
    from dsl.program import Service

SHOWN: Final = 3


def admits_more(service: Service, others: Sequence[Key]) -> Diagnostic:
    names = few([f"`{key.namespace}/{key.name}`" for key in others], SHOWN)
    what = "NetworkPolicy" if len(others) == 1 else "NetworkPolicies"
    return Diagnostic(
        "ADM937",
        Severity.ERROR,
        f"`{service.name}` is not closed: the {what} {names} may admit callers that the plan does not",
        service.span,
        cause="NetworkPolicies add up: what one of them admits is admitted",
        hint="narrow its selector or its rules, or pin the policies of this destination at ingress",
    )


def anothers(service: Service, key: Key, controller: str) -> Diagnostic:
    return Diagnostic(
        "ADM936",
        Severity.ERROR,
        f"`{service.name}` is not closed: the NetworkPolicy `{key.namespace}/{key.name}` is that of installation "
        f"`{controller}`",
        service.span,
        cause="two installations close one service, and each would overwrite what the other writes",
        hint="leave the service to one of them",
    )


def not_written(service: Service, key: Key, why: str) -> Diagnostic:
    return Diagnostic(
        "ADM935",
        Severity.ERROR,
        f"`{service.name}` is not closed: the NetworkPolicy `{key.namespace}/{key.name}` cannot be written",
        service.span,
        cause=why,
        hint="give the server's account the verbs `create`, `patch` and `delete` of NetworkPolicies; the server tries "
        "again by itself",
    )


def one_name(service: Service, other: str, key: Key) -> Diagnostic:
    return Diagnostic(
        "ADM781",
        Severity.ERROR,
        f"`{other}` and `{service.name}` would both be closed by a NetworkPolicy named `{key.name}`",
        service.span,
        cause="Kubernetes names have no capital letters and no `_`, so different names can become one",
        hint="rename one of them, or move it to another namespace",
    )
