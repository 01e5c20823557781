"""Answers one AdmissionReview of the API server. Pure.

    bytes --review--> Answer: the pod as it is, or with its ADM, or why it passes without one

No pod is refused: the guard in the API server does that, also while no replica answers. A pod that should have an ADM
and cannot get it passes unchanged, with a warning for the client that creates it; it counts as one that lacks its ADM.
"""

from __future__ import annotations

import base64
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from admc.base.terminal import visible
from admc.kubernetes.cluster.names import reserved
from admc.kubernetes.inject.admitted import injected_pod, patch
from admc.kubernetes.inject.model import NOTHING, TemplateFinding
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.overrides import OPTS_OUT
from admc.kubernetes.inject.security import MIRROR
from admc.kubernetes.inject.services import needs_of, service_of
from admc.kubernetes.inject.spec import InjectionError
from admc.kubernetes.inject.template import has_own
from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.spec import InjectionSpec

VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CREATED: Final = {"operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"}}
"""What the API server asks about."""
MAX_WARNING: Final = 256
"""Characters of a warning. The API server may cut longer ones."""
MAX_WARNINGS: Final = 8
"""Together they have less than the 4,096 characters that the API server passes on."""
_SHOWN: Final = 100
"""Characters of a name from outside in a message."""


class Outcome(StrEnum):
    INJECTED = "injected"
    """The pod is changed."""
    UNCHANGED = "unchanged"
    """It needs nothing, or has what it needs."""
    WARNED = "warned"
    """It passes without what it needs."""
    FAILED = "failed"
    """There is no answer that the API server can use: it goes on without one."""


class ReviewError(Exception):
    """What was sent is no AdmissionReview that can be answered."""


class Known(NamedTuple):
    """What a replica knows when it is asked."""

    installation: Installation
    """Its images count; the address of the server is that in the `Injection`."""
    specs: Mapping[str, InjectionSpec | InjectionError]
    """Namespace -> the spec of its `Injection`, or why that cannot be used."""
    namespace: str
    """The one of the server itself, whose pods are not injected."""


class Answer(NamedTuple):
    body: bytes
    outcome: Outcome
    pod: str
    """`NAMESPACE/NAME`; the name is that before the API server adds random letters."""
    service: str = ""
    parts: tuple[str, ...] = ()
    """The names of admc's containers in the pod."""
    warnings: tuple[str, ...] = ()
    is_dry_run: bool = False


class _Verdict(NamedTuple):
    outcome: Outcome
    service: str = ""
    pod: Mapping[str, Any] | None = None
    """The pod as it becomes; None if it stays as it is."""
    findings: tuple[TemplateFinding, ...] = ()


def review(content: bytes, known: Known) -> Answer:
    """Raises `ReviewError`."""
    request = _request(content)
    pod, namespace = request.get("object"), request.get("namespace")
    uid = request["uid"]
    if not _is_about_a_new_pod(request) or not isinstance(namespace, str) or not isinstance(pod, dict):
        verdict, pod = _Verdict(Outcome.WARNED, findings=(_other_question(request),)), {}
    else:
        verdict = _verdict(pod, namespace, known)
    warnings = tuple(_warnings(verdict))
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    outcome = verdict.outcome
    if verdict.pod is not None and (operations := patch(pod, verdict.pod)):
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(operations, separators=(",", ":")).encode()).decode()
        outcome = Outcome.INJECTED if outcome is Outcome.UNCHANGED else outcome
    body = json.dumps({"apiVersion": VERSION, "kind": KIND, "response": response}, separators=(",", ":")).encode()
    parts = _parts(pod if verdict.pod is None else verdict.pod)
    is_dry_run = request.get("dryRun") is True
    return Answer(body, outcome, _named(pod, namespace), verdict.service, parts, warnings, is_dry_run)


def _request(content: bytes) -> dict[str, Any]:
    """Return the request of a review, of which its `uid` alone has been checked. Raises `ReviewError`."""
    try:
        with no_collection():
            document = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # what was sent may be secret
        raise ReviewError(f"the content is no JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise ReviewError("the content is no JSON object")
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != VERSION or kind != KIND:
        raise ReviewError(f"the content is `{_shown(kind)}` of `{_shown(version)}`, and not `{KIND}` of `{VERSION}`")
    request = document.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(uid, str) or not uid:
        raise ReviewError("the review has no request with a `uid`")
    return request


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _is_about_a_new_pod(request: Mapping[str, Any]) -> bool:
    return all(request.get(name) == value for name, value in CREATED.items()) and not request.get("subResource")


def _verdict(pod: dict[str, Any], namespace: str, known: Known) -> _Verdict:
    metadata = _mapping(pod.get("metadata"))
    spec = known.specs.get(namespace)
    if reserved(namespace, known.namespace) or spec is None or MIRROR in _mapping(metadata.get("annotations")):
        return _Verdict(Outcome.UNCHANGED)
    if isinstance(spec, InjectionError):
        return _Verdict(Outcome.WARNED, findings=(_unusable(spec, known.installation.name),))
    service = service_of(spec, _mapping(metadata.get("labels")))
    if isinstance(service, TemplateFinding):
        return _Verdict(Outcome.WARNED, findings=(service,))
    if service is None and not has_own(pod):
        return _Verdict(Outcome.UNCHANGED)
    needs = NOTHING if service is None else needs_of(spec, service)
    made = injected_pod(pod, needs, known.installation._replace(server=spec.server))
    lacks = made.template is None or any(finding.code == OPTS_OUT for finding in made.findings)
    outcome = Outcome.WARNED if lacks else Outcome.UNCHANGED
    return _Verdict(outcome, service or "", made.template, made.findings)


def _unusable(error: InjectionError, name: str) -> TemplateFinding:
    hint = (
        "update this server of admc" if error.is_newer else "the active server writes it again; look at `managedFields`"
    )
    message = f"the `Injection` `{name}` of its namespace cannot be used: {error}"
    return TemplateFinding("ADM970", Severity.ERROR, message, (), None, hint)


def _other_question(request: Mapping[str, Any]) -> TemplateFinding:
    resource = _mapping(request.get("resource")).get("resource")
    about = f"{_shown(request.get('operation'))} of `{_shown(resource)}`"
    message = f"the webhook of admc is for new pods, and the API server asks it about {about}"
    hint = "restore its MutatingWebhookConfiguration from the chart"
    return TemplateFinding("ADM971", Severity.ERROR, message, (), None, hint)


def _warnings(verdict: _Verdict) -> list[str]:
    prefix = "no ADM: " if verdict.outcome is Outcome.WARNED else ""
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    ordered = [*errors, *(finding for finding in verdict.findings if finding not in errors)]
    texts = [_warning(finding, prefix) for finding in ordered[:MAX_WARNINGS]]
    more = len(ordered) - len(texts)
    return [*texts, f"admc: and {more} more findings; `admc inject` shows all of them"] if more else texts


def _warning(finding: TemplateFinding, prefix: str) -> str:
    """The message of a finding, with what to do as far as there is room."""
    text = visible(f"admc: {prefix}{finding.code}: {finding.message}")
    whole = f"{text}; {visible(finding.hint)}" if finding.hint else text
    shown = whole if len(whole) <= MAX_WARNING else text
    return shown if len(shown) <= MAX_WARNING else f"{shown[: MAX_WARNING - 3]}..."


def _named(pod: Mapping[str, Any], namespace: object) -> str:
    metadata = _mapping(pod.get("metadata"))
    return f"{_shown(namespace)}/{_shown(metadata.get('name') or metadata.get('generateName'))}"


def _parts(pod: Mapping[str, Any]) -> tuple[str, ...]:
    listed = _mapping(pod.get("spec")).get("initContainers")
    containers: Sequence[Any] = listed if isinstance(listed, list) else ()
    names = [container.get("name") for container in containers if isinstance(container, dict)]
    return tuple(name for name in (RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER) if name in names)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    return visible(value[:_SHOWN]) if isinstance(value, str) else "-"
