"""`admc inject`: puts ADMs, and the wait for them, into the pod templates of manifests."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import visible
from admc.cli.options import IncludeOption
from admc.cli.plan import KubeconfigOption
from admc.kubernetes.inject.names import ENVOY_IMAGE, IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.rewrite import Manifests, Rewritten

PORT: Final = 18000
STANDARD_INPUT: Final = Path("-")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAMES: Final = "a name has at most 63 lower-case letters, digits and `-`, and begins and ends with a letter or digit"
_SERVER: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


def inject(
    files: Annotated[
        list[Path],
        typer.Option("-f", "--filename", metavar="FILE", help="Manifests; `-` is standard input; repeatable."),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The installation whose server has written what pods need."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="Without NAME: the plan, such as policies.plan.json, beside its program."
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the manifests to a file."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="With --plan: the installation that pods belong to."),
    ] = None,
    xds: Annotated[
        str | None,
        typer.Option(
            "--xds",
            metavar="HOST:PORT",
            help=f"With --plan: the xDS server as pods dial it, unless it is admc-NAME.default.svc:{PORT}.",
        ),
    ] = None,
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image with admc and iptables.")] = IMAGE,
    envoy_image: Annotated[
        str, typer.Option("--envoy-image", metavar="IMAGE", help="The image with Envoy.")
    ] = ENVOY_IMAGE,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Of the objects that name none, as for kubectl; one that names another is refused.",
        ),
    ] = None,
    skip_unknown: Annotated[
        bool,
        typer.Option("--skip-unknown", help="Let pod templates of unknown kinds pass as they are, without an ADM."),
    ] = False,
    include: IncludeOption = None,
) -> int:
    """Put ADMs into the pod templates of manifests.

    A pod whose service has an ADM gets redirection and Envoy; a pod whose address some ADM needs waits at its start
    until the ADM has it. All other text stays as it is. A second time changes nothing.

    admc inject main -f app.yaml | kubectl apply -f -
    """
    from admc.base.files import write_whole
    from admc.base.findings.report import Format, Report
    from admc.cli.output import show_report, write_error, write_out
    from admc.kubernetes.inject.rewrite import manifests_of, summary

    if (plan is None) == (name is None):
        raise wrong_usage(
            "ADM801",
            "`admc inject` needs the name of an installation or `--plan FILE`, and not both",
            hint="`admc inject main -f app.yaml` reads what the server of installation `main` has written; `--plan` "
            "works without a cluster",
        )
    if namespace is not None and not _NAME.fullmatch(namespace):
        raise wrong_usage("ADM949", f"`{visible(namespace[:100])}` is not the name of a namespace", hint=_NAMES)
    if name is not None:
        _check_alone({"--cluster": cluster, "--xds": xds, "--include": include})
        check_installation(name)
    elif kubeconfig is not None:
        raise wrong_usage("ADM801", "`--plan` and `--kubeconfig` contradict each other", hint="leave one of them out")
    manifests = manifests_of([(str(path), _content(path)) for path in _once(files)], namespace)
    if plan is not None:
        installation = _installation(cluster, xds, image, envoy_image)
        made = _by_plan(plan, include, manifests, installation, skips_unknown=skip_unknown)
    else:
        made = _by_cluster(name or "", kubeconfig, manifests, image, envoy_image, skips_unknown=skip_unknown)
    if made.refused:
        raise CommandError(Exit.INPUT, made.findings)
    text = _joined(made.texts)
    if output is None:
        write_out(text)
    else:
        write_whole(output, text.encode(), inputs=() if plan is None else (plan,))
    if made.findings:
        show_report(Report(made.findings, Exit.DONE, ""), Format.TEXT)
    write_error("".join(f"{visible(line)}\n" for line in summary(made.outcomes)))
    return Exit.DONE


def _check_alone(others: Mapping[str, object]) -> None:
    given = [option for option, value in others.items() if value]
    if given:
        raise wrong_usage(
            "ADM801",
            f"`{given[0]}` is for `--plan`, and the name of an installation is given",
            cause="the `Injection` objects of the installation say it",
            hint="leave it out",
        )


def _once(files: list[Path]) -> list[Path]:
    if files.count(STANDARD_INPUT) > 1:
        raise wrong_usage("ADM801", "standard input can be read once", hint="give `-f -` once")
    return files


def _content(path: Path) -> bytes:
    from admc.base.files import read_bounded
    from admc.manifests.read import MAX_FILE

    if path != STANDARD_INPUT:
        return read_bounded(path, MAX_FILE, "the manifests")
    content = sys.stdin.buffer.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise wrong_usage("ADM802", "standard input is too large", cause=f"it has more than {MAX_FILE // 10**6} MB")
    return content


def _by_plan(
    path: Path,
    include: list[Path] | None,
    manifests: Manifests,
    installation: Installation,
    *,
    skips_unknown: bool,
) -> Rewritten:
    """Inject by a plan that `admc serve` would serve."""
    from admc.compile.plan.read import read_plan
    from admc.kubernetes.inject.needs import estimates_of
    from admc.kubernetes.inject.plan_rows import plan_rows
    from admc.kubernetes.inject.rewrite import rewritten
    from admc.kubernetes.inject.services import Services
    from admc.serve.compiling.inputs import Inputs
    from admc.serve.compiling.reviewed_plan import placed

    rows = plan_rows(*placed(path, Inputs(path, tuple(include or ()))))
    services = Services(rows, manifests.objects, installation.server, estimates_of(read_plan(path)))
    return rewritten(manifests, services.injections, installation, services, skips_unknown=skips_unknown)


def _by_cluster(
    name: str, kubeconfig: Path | None, manifests: Manifests, image: str, envoy_image: str, *, skips_unknown: bool
) -> Rewritten:
    """Inject by the `Injection` objects of an installation."""
    import asyncio

    from admc.kubernetes.cluster.injections.reading import specs_in
    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.rewrite import rewritten

    namespaces = manifests.namespaces(skips_unknown=skips_unknown)
    specs = asyncio.run(specs_in(name, namespaces, kubeconfig)) if namespaces else {}
    return rewritten(manifests, specs, Installation(name, "", image, envoy_image), skips_unknown=skips_unknown)


def check_installation(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise wrong_usage("ADM929", f"`{visible(name[:100])}` is not the name of an installation", hint=_NAMES)


def _installation(cluster: str | None, xds: str | None, image: str, envoy_image: str) -> Installation:
    from admc.kubernetes.inject.model import Installation

    if not cluster:
        raise wrong_usage(
            "ADM929", "it is not said which installation the pods belong to", hint="give `--cluster NAME`"
        )
    check_installation(cluster)
    where = xds or f"admc-{cluster}.default.svc:{PORT}"
    if not _SERVER.fullmatch(where) or not 0 < int(where.rpartition(":")[2]) < 65536:
        raise wrong_usage(
            "ADM929", f"`{visible(where[:300])}` is not the address of a server", hint="write `--xds HOST:PORT`"
        )
    return Installation(cluster, where, image, envoy_image)


def _joined(texts: tuple[str, ...]) -> str:
    """The files as one stream of documents. A single file is unchanged."""
    stream = texts[0]
    for text in texts[1:]:
        if stream and not stream.endswith("\n"):
            stream += "\n"
        separated = not stream.strip() or text.startswith(("---", "%"))
        stream += text if separated else f"---\n{text}"
    return stream
