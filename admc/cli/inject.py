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
from admc.kubernetes.inject.names import ENVOY_IMAGE, IMAGE

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import Installation
    from admc.serve.observe.injection import InjectionDocument

PORT: Final = 18000
DOCUMENT: Final = "/injection.json"
STANDARD_INPUT: Final = Path("-")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAMES: Final = "a name has at most 63 lower-case letters, digits and `-`, and begins and ends with a letter or digit"
_SERVER: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


def inject(
    files: Annotated[
        list[Path],
        typer.Option("-f", "--filename", metavar="FILE", help="Manifests; `-` is standard input; repeatable."),
    ],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="The plan, such as policies.plan.json, beside its program."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Ask a running server instead: the address of its `--ops`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the manifests to a file."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="The installation that pods belong to; required with --plan."),
    ] = None,
    xds: Annotated[
        str | None,
        typer.Option(
            "--xds",
            metavar="HOST:PORT",
            help=f"The xDS server as pods dial it; that of --server, or admc-NAME.default.svc:{PORT}.",
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

    admc inject --plan policies.plan.json --cluster shop -f app.yaml | kubectl apply -f -
    """
    from admc.base.files import write_whole
    from admc.base.findings.report import Format, Report
    from admc.cli.output import show_report, write_error, write_out
    from admc.kubernetes.inject.rewrite import rewritten, summary

    if (plan is None) == (server is None):
        raise wrong_usage("ADM801", "`admc inject` needs `--plan FILE` or `--server URL`, and not both")
    document = _planned(plan, include) if plan is not None else _asked(server or "")
    installation = _installation(document, cluster, xds, image, envoy_image)
    if namespace is not None and not _NAME.fullmatch(namespace):
        raise wrong_usage("ADM949", f"`{visible(namespace[:100])}` is not the name of a namespace", hint=_NAMES)
    made = rewritten(
        [(str(path), _content(path)) for path in _once(files)],
        document,
        installation,
        namespace=namespace,
        skips_unknown=skip_unknown,
    )
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


def _once(files: list[Path]) -> list[Path]:
    if files.count(STANDARD_INPUT) > 1:
        raise wrong_usage("ADM801", "standard input can be read once", hint="give `-f -` once")
    return files


def _content(path: Path) -> bytes:
    from admc.base.files import read_bounded
    from admc.kubernetes.inject.manifests import MAX_FILE

    if path != STANDARD_INPUT:
        return read_bounded(path, MAX_FILE, "the manifests")
    content = sys.stdin.buffer.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise wrong_usage("ADM802", "standard input is too large", cause=f"it has more than {MAX_FILE // 10**6} MB")
    return content


def _planned(path: Path, include: list[Path] | None) -> InjectionDocument:
    """The document from a plan that `admc serve` would serve."""
    from admc.serve.compiling.inputs import Inputs
    from admc.serve.compiling.reviewed_plan import placed
    from admc.serve.observe.injection import injection_document

    return injection_document([placed(path, Inputs(path, tuple(include or ())))])


def _asked(server: str) -> InjectionDocument:
    """The document from a running server."""
    from admc.cli.status import fetched, no_admc
    from admc.serve.observe.injection import InjectionFormatError, from_json

    try:
        return from_json(fetched(server, DOCUMENT))
    except InjectionFormatError as error:
        raise no_admc(server, str(error)) from error


def _installation(
    document: InjectionDocument, cluster: str | None, xds: str | None, image: str, envoy_image: str
) -> Installation:
    from admc.kubernetes.inject.model import Installation

    if cluster and document.installation and cluster != document.installation:
        raise wrong_usage(
            "ADM929",
            f"the server is that of installation `{visible(document.installation)}`, not of `{visible(cluster)}`",
            hint="leave `--cluster` out, or ask the other server",
        )
    name = cluster or document.installation
    if not name:
        raise wrong_usage(
            "ADM929", "it is not said which installation the pods belong to", hint="give `--cluster NAME`"
        )
    if not _NAME.fullmatch(name):
        raise wrong_usage(
            "ADM929",
            f"`{visible(name[:100])}` is not the name of an installation",
            hint=_NAMES,
        )
    where = xds or document.server or f"admc-{name}.default.svc:{PORT}"
    if not _SERVER.fullmatch(where) or not 0 < int(where.rpartition(":")[2]) < 65536:
        raise wrong_usage(
            "ADM929", f"`{visible(where[:300])}` is not the address of a server", hint="write `--xds HOST:PORT`"
        )
    return Installation(name, where, image, envoy_image)


def _joined(texts: tuple[str, ...]) -> str:
    """The files as one stream of documents. A single file is unchanged."""
    stream = texts[0]
    for text in texts[1:]:
        if stream and not stream.endswith("\n"):
            stream += "\n"
        separated = not stream.strip() or text.startswith(("---", "%"))
        stream += text if separated else f"---\n{text}"
    return stream
