"""Reads the `Injection` objects of an installation with the account of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.injections.objects import KIND, PATH
from admc.kubernetes.cluster.names import reserved
from admc.kubernetes.cluster.program.spec import LABEL
from admc.kubernetes.inject.spec import InjectionError, InjectionSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api

DEFINITION: Final = "deploy/install.yaml"


async def specs_in(name: str, namespaces: Iterable[str], kubeconfig: Path | None) -> dict[str, InjectionSpec]:
    """Return the spec of the object `name` in each of these namespaces. Raises `CommandError`."""
    async with await connect(kubeconfig) as api:
        return {namespace: await _spec(api, namespace, name) for namespace in namespaces}


async def _spec(api: Api, namespace: str, name: str) -> InjectionSpec:
    if not LABEL.fullmatch(namespace):
        message = f"`{visible(namespace[:100])}` is not the name of a namespace"
        raise wrong_usage("ADM957", message, hint="correct `metadata.namespace` in the manifests")
    try:
        document = await api.get(PATH.format(namespace, name))
    except ApiError as error:
        raise _unreadable(error, namespace, name) from error
    try:
        return read_spec(document.get("spec"))
    except InjectionError as error:
        what = f"the `{KIND}` `{name}` in namespace `{namespace}` cannot be used"
        hint = (
            "use the release of admc that the server has, or a newer one"
            if error.is_newer
            else "if the server is of a newer release, use that release of admc; otherwise another writer has changed "
            "it: look at its `managedFields`; the active server writes it again"
        )
        raise wrong_usage("ADM957", what, cause=visible(str(error)), hint=hint) from error


def _unreadable(error: ApiError, namespace: str, name: str) -> CommandError:
    what, cause = f"the `{KIND}` `{name}` in namespace `{namespace}`", visible(error.message)
    if error.status in (401, 403):
        hint = "use an account that has the verb `get` on `injections.admc.dev` there, or name another kubeconfig"
        return wrong_usage("ADM935", f"the API server does not permit to read {what}", cause=cause, hint=hint)
    if error.status == 0:
        hint = "check the address and the authority in the kubeconfig"
        return wrong_usage("ADM935", "the API server does not answer", cause=cause, hint=hint)
    if not error.is_not_found:
        return wrong_usage("ADM935", f"the API server does not show {what}", cause=f"{error.status}: {cause}")
    if not error.message.startswith("injections."):  # the API server knows no such path
        hint = f"apply `{DEFINITION}`, and start a server of the installation"
        return wrong_usage("ADM957", f"the cluster does not have the kind `{KIND}`", cause=cause, hint=hint)
    absent = f"there is no `{KIND}` `{name}` in namespace `{namespace}`"
    if why := reserved(namespace, own=""):
        hint = "give the pods another namespace, or apply the manifests without `admc inject`"
        return wrong_usage("ADM957", absent, cause=f"{why}, so it takes part in no installation", hint=hint)
    return wrong_usage(
        "ADM957",
        absent,
        cause="the active server of the installation writes it where pods need an ADM or a wait",
        hint=f"look whether the namespace has the label `admc.dev/controller={name}`, and whether a Program is in "
        "force (`kubectl get programs`); where no pod needs anything, apply the manifests without `admc inject`",
    )
