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

    from admc.cost.profiles.source import NamedProfile
    from admc.istio.implicit import Feature
    from admc.istio.inputs.reading import Source
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.text import SourceText

ALL: Final = "all"
PACKAGES: Final = {"celpy": "cel-python", "jsonschema_rs": "jsonschema-rs"}
"""Module -> the package that brings it."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class AdviseFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    GITHUB = "github"


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
    calls: Annotated[
        Path | None,
        typer.Option(
            "--calls",
            metavar="FILE",
            help="The calls between workloads: what Prometheus answers about `istio_requests_total`, or a topology.",
        ),
    ] = None,
    guess_calls: Annotated[
        bool,
        typer.Option(
            "--guess-calls",
            help="Guess the calls from names of hosts in commands, arguments, environments and ConfigMaps of pods.",
        ),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="FEATURE,...",
            help="What Istio does unasked and is to stay: `mtls`, `retries`, `balancing` and others of the answer.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="Price the sidecars that could go by a profile, a file or a built-in one: what they take at rest.",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="CODE", help="End with exit code 4 if a finding has this code; repeatable."),
    ] = None,
    format_: Annotated[AdviseFormat, typer.Option("--format", help="The format of the advice.")] = AdviseFormat.TEXT,
) -> int:
    """Say which sidecars a mesh with Istio has, which of them do what a resource asks for, and why.

    kubectl get namespaces,services,pods,deployments -A -o yaml | admc advise - mesh/
    """
    from admc.base.findings.report import Format, Report
    from admc.base.terminal import width
    from admc.cli.output import render as render_report
    from admc.cli.output import show_report, write_error, write_out
    from admc.istio.run import Options, run
    from dsl.diagnostics.diagnostic import Diagnostics, Severity

    _check_installed()
    _check_usage(paths, kubeconfig, cluster=cluster)
    if calls is not None and guess_calls:
        raise wrong_usage("ADM801", "`--calls` and `--guess-calls` exclude each other", hint="leave one of them out")
    findings = Diagnostics()
    if cluster:
        sources = _from_cluster(kubeconfig, findings, texts=guess_calls)
    else:
        sources = _from_files(paths or [], findings, raw=raw)
    options = Options(
        _checked(namespace),
        _namespaces(injected),
        keep_going,
        raw,
        _features(keep),
        None if calls is None else _calls(calls),
        guess_calls,
        None if profile is None else _profile(profile),
        _codes(fail_on or []),
    )
    outcome = run(sources, options, findings)
    shown = outcome.findings
    if format_ is AdviseFormat.TEXT and outcome.advice is not None:
        # The text has its own list of what is in force nowhere.
        shown = tuple(item for item in shown if item.severity is not Severity.NOTE)
    report = Report(shown, outcome.exit_code)
    if outcome.advice is not None and format_ is AdviseFormat.JSON:
        from admc.istio.document import json_of
        from admc.istio.facts import document

        write_out(json_of(document(outcome.advice, report)))
        return outcome.exit_code
    if outcome.advice is not None and format_ is AdviseFormat.MARKDOWN:
        from admc.istio import markdown

        write_out(markdown.render(outcome.advice, render_report(report, Format.MARKDOWN)))
        return outcome.exit_code
    show_report(report, Format(format_.value))
    if outcome.advice is not None and format_ is AdviseFormat.TEXT:
        from admc.istio.text import render

        write_out(render(outcome.advice, width(sys.stdout)))
        if outcome.breached:
            write_error(f"`--fail-on`: there are findings with the code {', '.join(outcome.breached)}\n")
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


def _features(keep: str | None) -> tuple[Feature, ...]:
    from admc.istio.implicit import Feature
    from dsl.diagnostics.diagnostic import did_you_mean

    known = [str(feature) for feature in Feature]
    names = keep.split(",") if keep is not None else []
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"known are {', '.join(f'`{other}`' for other in known)}"
            raise wrong_usage("ADM801", f"`--keep` names no feature `{visible(name[:100])}`", hint=hint)
    return tuple(Feature(name) for name in dict.fromkeys(names))


def _codes(codes: list[str]) -> frozenset[str]:
    from admc.istio.codes import CODES

    for code in codes:
        if code not in CODES:
            hint = "`admc advise` has the codes ADM910 to ADM995, and `admc explain CODE` says what each means"
            raise wrong_usage(
                "ADM801", f"`--fail-on` names no code of this command: `{visible(code[:100])}`", hint=hint
            )
    return frozenset(codes)


def _profile(named: str) -> NamedProfile:
    from admc.cost.profiles.source import named_profile

    return named_profile(named)


def _calls(path: Path) -> SourceText:
    from admc.base.files import read_bounded
    from admc.istio.call_files import MAX_BYTES
    from admc.manifests.read import source_of

    return source_of(str(path), read_bounded(path, MAX_BYTES, "the calls"))


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


def _from_cluster(kubeconfig: Path | None, findings: Diagnostics, *, texts: bool) -> Iterator[Source]:
    import asyncio

    from admc.istio.inputs.reading import Source
    from admc.kubernetes.cluster.snapshot import snapshot

    pages, refusals = asyncio.run(snapshot(kubeconfig, texts=texts))
    for finding in refusals:
        findings.add(finding)
    return map(Source, pages)
