"""`admc plan`: the plan that a cluster has in force, read from its ConfigMaps."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import command, visible

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.errors import ApiError
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.program.plan_objects import PlanReference


KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="How to reach the cluster; unless given, KUBECONFIG, the service account of this pod, or ~/.kube/config.",
    ),
]


def unreadable(error: ApiError, what: str) -> CommandError:
    """The error for an object that the API server does not return."""
    cause = visible(error.message)
    if error.status in (401, 403):
        hint = "use an account that may read it, or name another kubeconfig with `--kubeconfig`"
        return wrong_usage("ADM935", f"the API server does not permit to read {what}", cause=cause, hint=hint)
    if error.status == 0:
        hint = "check the address and the authority in the kubeconfig"
        return wrong_usage("ADM935", "the API server does not answer", cause=cause, hint=hint)
    return wrong_usage("ADM935", f"the API server does not show {what}", cause=f"{error.status}: {cause}")


ATTEMPTS: Final = 4
"""The attempts to read the plan, which the server may replace during a read."""
PAUSE_SECONDS: Final = 0.5


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def plan(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The Program.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the plan here.")] = None,
    facts: Annotated[
        Path | None,
        typer.Option(
            "--facts",
            metavar="FILE",
            help="Write the facts of the cluster that the plan rests on here, for `--facts` of compile and diff.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Where the server keeps the plan; unless given, what the status of the Program says.",
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    format_: Annotated[
        PlanFormat, typer.Option("--format", help="A summary as text, or the plan itself.")
    ] = PlanFormat.TEXT,
) -> int:
    """Show the plan of a Program in a cluster.

    It is the plan that the server of its installation compiled last. Its digest is checked.
    """
    import asyncio

    from admc.cli.output import write_out
    from admc.compile.plan.read import named_plan

    _check_names(name, namespace)
    content, shown = asyncio.run(_read(name, namespace, kubeconfig))
    compiled = named_plan(content, f"admc-{name}-plan")
    if facts is not None and shown is None:
        raise _no_facts(name)
    notes = [_written(path, text) for path, text in ((output, content), (facts, shown)) if path and text is not None]
    if format_ is PlanFormat.JSON:
        write_out(content.decode("utf-8"))
        return Exit.DONE
    import sys

    from admc.base.terminal import takes_colour, width
    from admc.compile.plan import summary_text
    from admc.compile.plan.summary import summary_of

    colour = takes_colour(sys.stdout)
    write_out(summary_text.render(summary_of(compiled), "", notes, colour=colour, width=width(sys.stdout)))
    return Exit.DONE


def _written(path: Path, content: bytes) -> str:
    from admc.base.files import write_whole

    return f"wrote `{visible(str(path))}`" if write_whole(path, content) else f"`{visible(str(path))}` is up to date"


def _no_facts(name: str) -> CommandError:
    return wrong_usage(
        "ADM938",
        f"the facts of the cluster are not kept beside the plan of `{name}`",
        cause="an earlier release of admc wrote it",
        hint="start a server of this release; it writes them",
    )


def _check_names(name: str, namespace: str | None) -> None:
    from admc.kubernetes.cluster.program.spec import LABEL

    for what, given in (("Program", name), ("namespace", namespace)):
        if given is not None and not LABEL.fullmatch(given):
            hint = "it has at most 63 small letters, digits and `-`"
            if what == "Program" and given.endswith((".adm", ".json")):
                line = command("compile", given)
                hint = f"`admc plan` shows the plan of a Program in a cluster; `{line}` makes the plan of a file"
            raise wrong_usage("ADM801", f"`{visible(given[:200])}` is no name of a {what}", hint=hint)


async def _read(name: str, namespace: str | None, kubeconfig: Path | None) -> tuple[bytes, bytes | None]:
    """The plan, and the facts with which it was compiled. Raises `CommandError`."""
    from admc.kubernetes.cluster.api.connection import connect
    from admc.kubernetes.cluster.program.plan_objects import PlanReference, index_name

    async with await connect(kubeconfig) as api:
        if namespace is not None:
            return await _plan(api, name, PlanReference(namespace, index_name(name), ""))
        return await _plan(api, name, await _reference(api, name))


async def _reference(api: Api, name: str) -> PlanReference:
    """Where the plan is, from the status of the Program. Raises `CommandError`."""
    from admc.kubernetes.cluster.api.errors import ApiError
    from admc.kubernetes.cluster.names import PROGRAMS
    from admc.kubernetes.cluster.program.plan_objects import CONFIG_MAP_NAME, PlanReference
    from admc.kubernetes.cluster.program.spec import LABEL

    try:
        document = await api.get(f"{PROGRAMS}/{name}")
    except ApiError as error:
        if error.is_not_found:
            raise await _no_program(api, name) from error
        raise unreadable(error, f"the Program `{name}`") from error
    status = document.get("status") or {}
    given = status.get("plan") or {}
    namespace, index = str(given.get("namespace", "")), str(given.get("name", ""))
    if not LABEL.fullmatch(namespace) or not CONFIG_MAP_NAME.fullmatch(index):
        raise wrong_usage("ADM939", f"the Program `{name}` has no plan yet", cause=_why(status))
    return PlanReference(namespace, index, "")


def _why(status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Accepted" and condition.get("status") != "True":
            return visible(str(condition.get("message", "")).replace("\n", "; ")[:1000])
    return "no server of its installation has compiled it, or none is running"


async def _no_program(api: Api, name: str) -> CommandError:
    from admc.kubernetes.cluster.api.errors import ApiError
    from admc.kubernetes.cluster.names import PROGRAMS
    from dsl.diagnostics.diagnostic import did_you_mean

    try:
        page = await api.get(PROGRAMS, limit=500)
    except ApiError as error:
        if error.is_not_found:
            hint = "install admc in the cluster, with the chart in `deploy/chart` or with `deploy/install.yaml`"
            return wrong_usage("ADM939", "the cluster does not have the kind `Program`", hint=hint)
        return unreadable(error, "the Programs")
    names = [item["metadata"]["name"] for item in page.get("items") or ()]
    listed = ", ".join(f"`{program}`" for program in sorted(names)[:10])
    there = f"there are {listed}" if names else "the cluster has none: `kubectl apply` one"
    hint = did_you_mean(name, names) or there
    return wrong_usage("ADM939", f"there is no Program `{name}`", hint=hint)


async def _plan(api: Api, name: str, reference: PlanReference) -> tuple[bytes, bytes | None]:
    """Raises `CommandError`."""
    import asyncio

    from admc.kubernetes.cluster.api.errors import ApiError
    from admc.kubernetes.cluster.program.plan_objects import PlanObjectError
    from admc.kubernetes.cluster.program.plan_store import stored_plan_and_facts

    cause = ""
    for attempt in range(ATTEMPTS):
        await asyncio.sleep(PAUSE_SECONDS if attempt else 0)
        try:
            return await stored_plan_and_facts(api, reference.namespace, reference.name)
        except PlanObjectError as error:
            cause = str(error)
        except ApiError as error:
            if not error.is_not_found:
                raise unreadable(error, f"the ConfigMaps of namespace `{reference.namespace}`") from error
            cause = visible(error.message)
    raise wrong_usage(
        "ADM938",
        f"the plan of `{name}` in namespace `{reference.namespace}` cannot be used",
        cause=cause,
        hint="the server writes it again within seconds: check that it is running, and try again",
    )
