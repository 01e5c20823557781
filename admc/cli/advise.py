"""`admc advise`: reads the manifests of a mesh with Istio, and says what its sidecars do. It writes nothing."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.cli.plan import KubeconfigOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.inputs.reading import Source
    from dsl.diagnostics.diagnostic import Diagnostics

ALL: Final = "all"
PACKAGES: Final = {"celpy": "cel-python", "jsonschema_rs": "jsonschema-rs"}
"""Module -> the package that brings it."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class AdviseFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def advise(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH...]", help="Manifests, or folders of manifests; `-` is standard input."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Read the objects of a cluster, with your own rights, instead of files.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    injected: Annotated[
        str | None,
        typer.Option(
            "--injected",
            metavar="all|NS,...",
            help="The namespaces whose pods have sidecars, where no label, annotation or container says it.",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Of the objects that name none.")
    ] = "default",
    raw: Annotated[
        bool, typer.Option("--raw", help="Read templates and sources of a kustomization as they are.")
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Leave out what cannot be read, and say how much is missing.")
    ] = False,
    format_: Annotated[AdviseFormat, typer.Option("--format", help="The format of the advice.")] = AdviseFormat.TEXT,
) -> int:
    """Say which sidecars a mesh with Istio has, and what is known of the resources that they enforce.

    kubectl get namespaces,services,pods,deployments -A -o yaml | admc advise - mesh/
    """
    from admc.base.findings.report import Format, Report
    from admc.base.terminal import width
    from admc.cli.output import show_report, write_out
    from admc.istio.run import Options, run
    from dsl.diagnostics.diagnostic import Diagnostics

    _check_installed()
    _check_usage(paths, kubeconfig, cluster=cluster)
    findings = Diagnostics()
    sources = _from_cluster(kubeconfig, findings) if cluster else _from_files(paths or [], findings, raw=raw)
    options = Options(_checked(namespace), _namespaces(injected), keep_going, raw)
    outcome = run(sources, options, findings)
    facts: dict[str, object] = {}
    if outcome.advice is not None and format_ is AdviseFormat.JSON:
        from admc.istio.facts import facts as facts_of

        facts = facts_of(outcome.advice)
    report = Report(outcome.findings, outcome.exit_code, "", facts)
    show_report(report, Format(format_.value))
    if outcome.advice is not None and format_ is AdviseFormat.TEXT:
        from admc.istio.text import render

        write_out(render(outcome.advice, width(sys.stdout)))
    return outcome.exit_code


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise wrong_usage(
            "ADM987",
            f"`admc advise` needs packages that are not installed: {', '.join(missing)}",
            hint="install them with `pip install 'admc[istio]'`",
        )


def _check_usage(paths: list[str] | None, kubeconfig: Path | None, *, cluster: bool) -> None:
    if bool(paths) == cluster:
        raise wrong_usage(
            "ADM801",
            "`admc advise` needs paths or `--cluster`, and not both",
            hint="`admc advise mesh/`, or `kubectl get ... -o yaml | admc advise -`",
        )
    if kubeconfig is not None and not cluster:
        raise wrong_usage("ADM801", "`--kubeconfig` is for `--cluster`", hint="leave it out, or give `--cluster`")


def _namespaces(injected: str | None) -> frozenset[str] | None:
    if injected is None:
        return frozenset()
    return None if injected == ALL else frozenset(_checked(name) for name in injected.split(","))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "a name has at most 63 lower-case letters, digits and `-`; several are separated by commas"
        raise wrong_usage("ADM801", f"`{visible(name[:100])}` is not the name of a namespace", hint=hint)
    return name


def _from_files(paths: list[str], findings: Diagnostics, *, raw: bool) -> Iterator[Source]:
    from admc.istio.inputs.files import STANDARD_INPUT, chart_of, content_of, find_files
    from admc.istio.inputs.reading import Source
    from admc.manifests.read import source_of

    files = find_files(paths, raw=raw)
    for finding in files.findings:
        findings.add(finding)
    for path in files.paths:
        try:
            text = source_of("<standard input>" if path == STANDARD_INPUT else path, content_of(path))
        except CommandError as error:
            for finding in error.diagnostics:
                findings.add(finding)
        else:
            yield Source(text, path in files.named, None if path == STANDARD_INPUT else chart_of(path))


def _from_cluster(kubeconfig: Path | None, findings: Diagnostics) -> Iterator[Source]:
    import asyncio

    from admc.istio.inputs.reading import Source
    from admc.kubernetes.cluster.snapshot import snapshot

    pages, refusals = asyncio.run(snapshot(kubeconfig))
    for finding in refusals:
        findings.add(finding)
    return map(Source, pages)
