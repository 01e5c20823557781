"""Why an `Injection` object is not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.kubernetes.cluster.api.errors import UNKNOWN_FIELD
from admc.kubernetes.cluster.injections.objects import KIND
from admc.kubernetes.inject.spec import MAX_BYTES
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.api.errors import ApiError


def too_large(namespace: str, name: str, bytes_of: int) -> Diagnostic:
    return Diagnostic(
        "ADM955",
        Severity.ERROR,
        f"the `{KIND}` `{name}` of namespace `{namespace}` would be too large",
        None,
        f"it would have {bytes_of:,} bytes, for all services there that need an ADM or a wait, and may have "
        f"{MAX_BYTES:,}",
        "distribute the services over several namespaces, or give their Services selectors with fewer labels",
    )


def refusals(refused: Mapping[str, ApiError]) -> dict[str, Diagnostic]:
    return {namespace: not_written(error, namespace) for namespace, error in refused.items()}


def not_written(error: ApiError, namespace: str = "") -> Diagnostic:
    """`namespace` is empty if the API server does not answer for any."""
    cause = str(error)
    if error.is_not_found and not error.message.startswith("namespaces "):
        cause += f"; `deploy/install.yaml` defines the kind `{KIND}`"
    elif error.status in (401, 403):
        cause += "; `deploy/install.yaml` has the rights of the server's account"
    elif UNKNOWN_FIELD in error.message:
        cause += f"; the definition of `{KIND}` is that of another release, and `deploy/install.yaml` has this one's"
    one = f"the `{KIND}` object of namespace `{namespace}`" if namespace else f"an `{KIND}` object"
    what = f"{one} cannot be written, so new pods may not get what they need"
    return Diagnostic("ADM956", Severity.ERROR, what, None, cause)
