"""The JSON of `admc advise`: what it writes, and what `admc report` draws.

    Advice, findings -> [facts.document] -> AdviceDocument -> [json_of] -> JSON -> [advice_of] -> AdviceDocument

`admc/advice.schema.json` is the published form, with the docstrings here as descriptions. A file that is read may be
hostile, cut short or written by another version, and is then refused. This module imports nothing that only `admc
advise` needs, so `admc report` works without the extra `istio`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from admc.base.exits import wrong_usage
from admc.base.findings.json import FindingRow
from admc.base.terminal import visible
from admc.istio.in_force.effects import Cause, Layer, What
from admc.istio.mesh.model import Counting, Declaration, Proxy
from dsl.documents import Amount, Count, Digest, DocumentError, Json, LineNumber, Name, plain, read, record

SCHEMA_VERSION: Final = 1
MAX_REASONS: Final = 2_000_000
"""The most reasons of all workloads together that are read."""


@record
class Line:
    """A line of a manifest."""

    path: str
    line: LineNumber


@record
class DeclaredPods:
    """Pods with one declaration."""

    by: Declaration
    pods: Count


@record
class Sidecars:
    today: Count
    at_least: bool
    """Whether more of them may run: one a node, those of an autoscaler, those of a job."""
    pods: Count
    """Of all workloads."""
    gateways: Count
    """Pods that are gateways or waypoints."""
    ambient: Count
    """Pods whose traffic the proxy of their node carries."""
    by_declaration: tuple[DeclaredPods, ...]
    """The sidecars, by what says that the pods have one; most first."""
    without_proxy: tuple[DeclaredPods, ...]
    """Pods without a proxy, by what says so."""


@record
class GuessRow:
    """A call that is guessed, since a text of the caller's pods has the name of the host."""

    namespace: str
    """Of the caller."""
    workload: str
    host: Name
    location: Line


@record
class CallsRow:
    """The calls that were given or guessed."""

    source: str
    guessed: bool
    days: Amount | None
    """Over how many days they were measured; null where the file does not say it."""
    calls: Count
    without_caller: Count
    """Series whose caller has no sidecar, and so no name."""
    without_host: Count
    """Series of calls to hosts that Istio does not know."""
    guesses: tuple[GuessRow, ...]
    """Where each call is guessed from; empty if they are no guesses."""


@record
class KeptSidecars:
    """Sidecars that do something that a resource, or a feature of `--keep`, asks for."""

    sidecars: Count
    of_layer_4_alone: Count
    """Those that ztunnel could replace."""
    features: tuple[Name, ...]
    """Those of `--keep`."""


@record
class PriceRow:
    """What the sidecars without a reason take at rest, by a profile: the least that goes with them."""

    sidecars: Count
    profile: str
    sha256: Digest
    machine: str
    at_least: bool
    """Always true: what their traffic costs is not known."""
    cores: Amount | None
    """Null if the profile has no such figure."""
    bytes: Amount | None


@record
class GroupRow:
    """The reasons of one group together."""

    group: Name
    sidecars: Count
    of_layer_7: Count


@record
class ReasonRow:
    """A resource that is in force at some sidecars, or a feature of `--keep`."""

    group: Name
    reason: Name
    """Kind, namespace and name of the resource, or the title of the feature."""
    location: Line | None
    """The first line of the resource that is in force."""
    does: tuple[What, ...]
    layer: Layer
    sidecars: Count
    alone: Count
    """Sidecars for which there is no other reason."""


@record
class UnaskedRow:
    """A feature of Istio that no resource asks for, and what keeping it costs."""

    feature: Name
    """Its name in `--keep`."""
    title: Name
    sidecars: Count
    """Those that have it."""
    added: Count
    """Those of them that no resource keeps."""
    kept_in_all: Count
    """All that are kept with this feature, those before it, and what is written."""


@record
class NotInForceRow:
    """A resource, or a part of one, that is in force nowhere."""

    kind: Name
    namespace: str
    name: str
    location: Line
    cause: Cause
    by: Line | None
    """The resource that goes before it."""


@record
class ResourceRow:
    namespace: str
    name: str
    location: Line


@record
class ResourcesRow:
    """The resources of one kind that concern the same proxies."""

    kind: Name
    concerns: Name
    resources: tuple[ResourceRow, ...]


@record
class CitedRow:
    """A reason at one workload."""

    reason: Name
    location: Line | None
    does: tuple[What, ...]
    layer: Layer


@record
class CommonReasonsRow:
    """Reasons that many workloads have in common, each once."""

    reasons: tuple[CitedRow, ...]
    lists: tuple[tuple[Count, ...], ...]
    """For each class of clients the places of its reasons in `reasons`, from 0."""


@record
class ReferenceRow:
    """The common reasons of one workload: those of a list, but for some."""

    list: Count
    """The place of the list in `lists`, from 0."""
    without: tuple[Count, ...]
    """Places in `reasons` of those that the workload lacks, or has among its own with something else."""


@record
class WorkloadRow:
    namespace: str
    kind: Name
    name: str
    pods: Count
    counted_by: Counting
    proxy: Proxy
    """Of its first pod, or of its template where no pod was read."""
    by: Declaration
    """What says so."""
    revision: str | None
    """The revision of Istio that injects it, where a label says so."""
    declared: Line | None
    """The declaration itself; null if it is no field."""
    sidecars: Count
    reasons: tuple[CitedRow, ...]
    """Why its sidecars are there. Without a reason they could go."""
    common_reasons: ReferenceRow | None
    """Further reasons; null if all are in `reasons`."""
    location: Line


@record
class SettingRow:
    value: Json
    default: bool
    """Whether it is Istio's default, since no value is given."""


@record
class RevisionRow:
    """An installation of Istio, with its configuration."""

    name: str
    location: Line | None
    settings: Mapping[str, SettingRow]


@record
class AdviceDocument:
    """What `admc advise --format json` writes if it advises. An error ends it before that, without `--keep-going`, and
    then only the fields that every command has are there: up to `exit_code`, and `diagnostics`."""

    schema_version: Literal[1]
    tool: Literal["admc"]
    version: str
    """Of admc."""
    exit_code: Literal[0, 1, 4]
    schemas: Mapping[str, str]
    """The versions of the modules whose schemas the resources fit."""
    sidecars: Sidecars
    calls: CallsRow | None
    """Null without calls: each workload may call every host that it sees."""
    kept: KeptSidecars
    free: Count
    """Sidecars without a reason."""
    price: PriceRow | None
    """Null without `--profile`."""
    groups: tuple[GroupRow, ...]
    reasons: tuple[ReasonRow, ...]
    """Those that alone keep the most sidecars first."""
    unasked: tuple[UnaskedRow, ...]
    not_in_force: tuple[NotInForceRow, ...]
    skipped: Count
    """Documents and objects that were refused, and are missing in all numbers."""
    resources: tuple[ResourcesRow, ...]
    common_reasons: CommonReasonsRow | None
    """Null if each workload has all its reasons itself: no more than 100 are common to a class of clients."""
    workloads: tuple[WorkloadRow, ...]
    revisions: tuple[RevisionRow, ...]
    diagnostics: tuple[FindingRow, ...]


def json_of(document: AdviceDocument) -> str:
    """The document as text, in pure ASCII."""
    return json.dumps(plain(document), indent=2) + "\n"


def with_all_reasons(document: AdviceDocument) -> AdviceDocument:
    """The same advice without common reasons: each workload has its own. Raises `DocumentError`."""
    common = document.common_reasons or CommonReasonsRow((), ())
    references = [it.common_reasons for it in document.workloads if it.common_reasons is not None]
    if any(it.list >= len(common.lists) for it in references):
        raise DocumentError("a workload refers to a list of `common_reasons` that is not there")
    if any(place >= len(common.reasons) for listed in common.lists for place in listed):
        raise DocumentError("a list of `common_reasons` refers to a reason that is not there")
    number = sum(len(common.lists[it.list]) for it in references)
    if number > MAX_REASONS:
        raise DocumentError(
            f"its workloads have {number:,} reasons, and at most {MAX_REASONS:,} are read: `--calls` of `admc advise` "
            "narrows them to those of the calls"
        )
    sets = [frozenset(listed) for listed in common.lists]
    if any(len(own) != len(listed) for own, listed in zip(sets, common.lists, strict=True)):
        raise DocumentError("a list of `common_reasons` has a reason twice")
    if not all(sets[it.list].issuperset(it.without) for it in references):
        raise DocumentError("a workload lacks a reason of `common_reasons` that its list does not have")
    order = _Order(document.reasons)
    workloads = tuple(_with_all_reasons(it, common, order) for it in document.workloads)
    return replace(document, common_reasons=None, workloads=workloads)


class _Order:
    """The order of all reasons, for those of a workload."""

    def __init__(self, reasons: tuple[ReasonRow, ...]) -> None:
        self._end = len(reasons)
        self._named: dict[str, list[tuple[int, ReasonRow]]] = defaultdict(list)
        for position, reason in enumerate(reasons):
            self._named[reason.reason].append((position, reason))
        self._known: dict[tuple[str, tuple[What, ...]], int] = {}

    def place(self, cited: CitedRow) -> int:
        """One resource may be two reasons, connection pools and mTLS say: what it does tells which of them it is."""
        key = cited.reason, cited.does
        if key not in self._known:
            named = self._named.get(cited.reason, ())
            fitting = (position for position, reason in named if set(cited.does) <= set(reason.does))
            self._known[key] = next(fitting, self._end)
        return self._known[key]


def _with_all_reasons(workload: WorkloadRow, common: CommonReasonsRow, order: _Order) -> WorkloadRow:
    reference = workload.common_reasons
    if reference is None:
        return workload
    without = frozenset(reference.without)
    shared = (common.reasons[place] for place in common.lists[reference.list] if place not in without)
    return replace(workload, common_reasons=None, reasons=tuple(sorted((*shared, *workload.reasons), key=order.place)))


def advice_of(content: bytes, path: Path) -> AdviceDocument:
    """The advice in the content of a file, where each workload has all its reasons. Raises `CommandError` (exit 1) if
    that is no valid advice."""
    try:
        return with_all_reasons(read(AdviceDocument, content))
    except DocumentError as error:
        raise wrong_usage(
            "ADM994",
            f"`{visible(str(path))}` is not an advice that admc can read",
            cause=error.message,
            hint="write it again: `admc advise PATH... --format json > ADVICE.json`; with an error in the manifests it "
            "has findings alone, unless `--keep-going` is given",
        ) from error
