"""What the webhook counts, for `/metrics`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.webhook.review import Outcome
from admc.serve.observe.metrics import counter, histogram, number
from xds_server.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

_OUTCOMES: Final = tuple(map(str, sorted(Outcome)))


@dataclass(slots=True)
class WebhookCounts:
    reviews: Counter[str] = field(default_factory=Counter)
    """Questions about pods, by outcome."""
    seconds: Histogram = field(default_factory=Histogram)
    """From the head of a question to its answer."""
    refusals: int = 0
    """TLS handshakes that failed."""

    def metrics(self) -> Iterator[Metric]:
        text = "Questions of the API server about pods"
        yield counter("admc_webhook_reviews", text, self.reviews, "outcome", _OUTCOMES)
        yield histogram("admc_webhook_seconds", "From the head of a question to its answer", self.seconds)
        yield number("admc_webhook_tls_refusals", "Failed TLS handshakes at the webhook", self.refusals)
