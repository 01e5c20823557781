"""Options of commands that read a cluster, and the errors that its API server gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.errors import ApiError

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="How to reach the cluster; unless given, KUBECONFIG, the service account of this pod, or ~/.kube/config.",
    ),
]


def unreadable(error: ApiError, what: str) -> CommandError:
    """The API server does not show something that a command reads."""
    cause = visible(error.message)
    if error.status in (401, 403):
        hint = "use an account that may read it, or name another kubeconfig with `--kubeconfig`"
        return wrong_usage("ADM935", f"the API server does not permit to read {what}", cause=cause, hint=hint)
    if error.status == 0:
        hint = "check the address and the authority in the kubeconfig"
        return wrong_usage("ADM935", "the API server does not answer", cause=cause, hint=hint)
    return wrong_usage("ADM935", f"the API server does not show {what}", cause=f"{error.status}: {cause}")
