"""Documents that may be wrong, and why Istio refuses some of them, in words of our own.

`istioctl validate` and the webhook of istiod have the same checks: the form of a document, and then its meaning. admc
has the schemas and the CEL rules of the custom resources, as an API server has. What the checks of a meaning refuse
beyond that is in `MEANINGS`: an API server without the webhook stores it, and istiod reads it, so admc reads it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.istio.objects import NETWORKING, SECURITY, Json, thing
from tests.istio.samples import changed, right

CHANGES: Final = 30
"""Changed copies of each sample."""
FORM: Final = "its form"
OTHER: Final = "another reason"


class Meaning(NamedTuple):
    pattern: str
    """A part of Istio's message."""
    words: str


MEANINGS: Final = (
    Meaning("bad port", "a port that is no number"),
    Meaning("unknown attribute", "an unknown key of a condition"),
    Meaning("`from.source` must not be nil", "a source without fields"),
    Meaning("not supported with CUSTOM", "an identity in a CUSTOM rule"),
    Meaning("without `rules` is meaningless", "a DENY without rules"),
    Meaning("duplicate subset names", "two subsets of one name"),
    Meaning("cannot have exportTo beyond|cannot have multiple entries", "a rule for some workloads that is exported"),
    Meaning("duplicate entries in exportTo", "a namespace twice in `exportTo`"),
    Meaning("duplicate hosts", "a host within a wildcard beside it"),
    Meaning("attempts are set to 0", "settings of retries that are off"),
    Meaning("(HTTP|TCP) route.* is required", "a rule without a destination"),
    Meaning("domain name .* invalid|empty domain name", "a name that is no host"),
    Meaning("endpoint port .* is not defined", "a port of an endpoint that the entry lacks"),
    Meaning("listeners must be unique", "two listeners of one port"),
    Meaning("empty configuration provided", "a Sidecar without settings"),
    Meaning("at least one server", "a Gateway without servers"),
    Meaning("TLS settings for plain text", "TLS of a server for plain text"),
    Meaning("supported protocols", "an unknown protocol"),
    Meaning("mesh/namespace peer authentication", "ports of a PeerAuthentication without a selector"),
)
"""The first that fits says why. `OTHER` is no explanation: the test of this list fails for it."""


def documents() -> Iterator[Json]:
    """The samples of Istio's kinds, copies with small changes (an API server judges these, too), and wrong meanings."""
    for number, document in enumerate(right()):
        if ".istio.io/" in document["apiVersion"]:
            yield document
            for seed in range(CHANGES):
                yield changed(document, number * 1000 + seed)
    yield from _wrong_meanings()


def _wrong_meanings() -> Iterator[Json]:
    """What Istio refuses although the schema takes it."""
    route = {"destination": {"host": "cart"}}
    hosts = ["*.shop.svc.cluster.local", "cart.shop.svc.cluster.local"]
    retries = {"attempts": 0, "retryOn": "5xx"}
    selector = {"matchLabels": {"app": "web"}}
    judge = {"action": "CUSTOM", "provider": {"name": "judge"}}
    yield _of("VirtualService", hosts=hosts, http=[{"route": [route]}])
    yield _of("VirtualService", hosts=["cart"], http=[{"route": [route], "retries": retries}])
    yield _of("VirtualService", hosts=["cart"], exportTo=[".", "shop"], http=[{"route": [route]}])
    yield _of("DestinationRule", host="cart", workloadSelector=selector, exportTo=["bank"])
    yield _of("DestinationRule", host="cart", workloadSelector=selector, exportTo=[".", "bank"])
    yield _of("Sidecar", workloadSelector={"labels": {"app": "web"}})
    yield _of("AuthorizationPolicy", action="DENY")
    yield _of("AuthorizationPolicy", **judge, rules=[{"from": [{"source": {"namespaces": ["shop"]}}]}])


def _of(kind: str, **spec: object) -> Json:
    return thing(SECURITY if kind == "AuthorizationPolicy" else NETWORKING, kind, "x", spec=spec)


def reason(verdict: Json) -> str:
    """Why Istio refuses a document; empty if it does not."""
    if verdict.get("form"):
        return FORM
    message = verdict.get("meaning", "")
    return next((it.words for it in MEANINGS if re.search(it.pattern, message)), OTHER) if message else ""
