"""Keeps `caBundle` of the MutatingWebhookConfiguration, by which the API server trusts the replicas.

authorities --apply--> MutatingWebhookConfiguration admc-NAME --get--> findings

The chart makes the object, and the active replica changes this one field of it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509

from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.authority.certificates import normal_name
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from admc.kubernetes.cluster.api.requests import Api

LOG: Final = logging.getLogger("admc.cluster")
GROUP: Final = "admissionregistration.k8s.io"
PATH: Final = f"/apis/{GROUP}/v1/mutatingwebhookconfigurations/{{0}}"
WEBHOOK: Final = "pods.admc.dev"
"""The name of the webhook in the configuration."""
AGAIN_SECONDS: Final = 30.0
"""The time between two looks at the configuration."""
LOOK_SECONDS: Final = 2.0
"""The time between two looks whether there are other authorities, or this replica may write by now."""
REQUEST_SECONDS: Final = 10.0


class WebhookConfiguration:
    """All calls belong on one event loop."""

    def __init__(
        self,
        api: Api,
        installation: str,
        namespace: str,
        bundle: Callable[[], str],
        certificate: Callable[[], bytes | None],
    ) -> None:
        """`bundle` returns the authorities in PEM, and `certificate` that of the webhook, None if it is not known yet;
        both may change."""
        self._api, self._bundle, self._certificate = api, bundle, certificate
        self._name = f"admc-{installation}"
        self._host = f"{self._name}-webhook.{namespace}.svc"
        self._shown = ""
        """The authorities that the configuration has."""
        self._is_absent = False
        self.findings: tuple[Diagnostic, ...] = ()
        """Why the API server may not reach or trust the webhook."""

    def is_shown(self, bundle: str) -> bool:
        """Whether an API server that asks the webhook trusts these authorities. One without the configuration asks no
        replica, and does not hold a new authority up."""
        return self._is_absent or self._shown == bundle

    async def run(self, may_write: Callable[[], bool]) -> None:
        """Keep the configuration while this replica may write, until cancelled."""
        backoff, due, bundle = Backoff(), 0.0, ""
        while True:
            now = time.monotonic()
            if may_write() and self._bundle() and (now >= due or self._bundle() != bundle):
                due, bundle = now + AGAIN_SECONDS, self._bundle()
                try:
                    self._report(await self._keep(bundle))
                    backoff.reset()
                except (ApiError, TimeoutError) as error:
                    self._shown, self._is_absent = "", False
                    self._report((_unwritten(self._name, error),))
                    due = now + backoff.seconds(error.retry_after if isinstance(error, ApiError) else None)
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep(self, bundle: str) -> tuple[Diagnostic, ...]:
        """Raises `ApiError` and `TimeoutError`."""
        async with asyncio.timeout(REQUEST_SECONDS):
            client = await self._client()
            if client is None:
                self._shown, self._is_absent = "", True
                return (_absent(self._name),)
            wanted = base64.b64encode(bundle.encode()).decode()
            if client.get("caBundle") != wanted:
                await self._api.apply(PATH.format(self._name), self._body(wanted))
                LOG.info("webhook_authority_written", extra={"configuration": self._name})
        self._shown, self._is_absent = bundle, False
        return tuple(self._about_the_certificate(client))

    async def _client(self) -> Mapping[str, Any] | None:
        """Return how the API server reaches the webhook, by the configuration; None without it."""
        try:
            document = await self._api.get(PATH.format(self._name))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        for webhook in document.get("webhooks") or ():
            if webhook["name"] == WEBHOOK:
                client: Mapping[str, Any] = webhook["clientConfig"]
                return client
        return None

    def _body(self, bundle: str) -> dict[str, Any]:
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [{"name": WEBHOOK, "clientConfig": {"caBundle": bundle}}],
        }

    def _about_the_certificate(self, client: Mapping[str, Any]) -> list[Diagnostic]:
        """Return what is wrong with the server's certificate, where the API server dials the Service of the webhook."""
        certificate = self._certificate()
        if "service" not in client or certificate is None:
            return []
        try:
            names = (
                x509.load_pem_x509_certificate(certificate)
                .extensions.get_extension_for_class(x509.SubjectAlternativeName)
                .value
            )
            listed = {normal_name(name) for name in names.get_values_for_type(x509.DNSName)}
        except x509.ExtensionNotFound:
            listed = set()
        wildcard = f"*.{self._host.partition('.')[2]}"
        return [] if listed & {self._host, wildcard} else [_other_names(self._host)]

    def _report(self, findings: tuple[Diagnostic, ...]) -> None:
        if findings and findings != self.findings:
            texts = [f"{item.code}: {item.message}; {item.hint}" for item in findings]
            LOG.warning("webhook_not_ready", extra={"why": texts})
        if self.findings and not findings:
            LOG.info("webhook_ready", extra={"configuration": self._name})
        self.findings = findings


_LOST: Final = "pods are created without the ADMs that they need, unless their manifests have them"


def _warning(code: str, message: str, hint: str, cause: str = _LOST) -> Diagnostic:
    return Diagnostic(code, Severity.WARNING, message, None, cause, hint)


def _absent(name: str) -> Diagnostic:
    message = f"there is no MutatingWebhookConfiguration `{name}` with the webhook `{WEBHOOK}`"
    hint = "install the chart again; or set its value `webhook` to false, and use `admc inject`"
    return _warning("ADM972", message, hint)


def _unwritten(name: str, error: ApiError | TimeoutError) -> Diagnostic:
    message = f"the `caBundle` of the MutatingWebhookConfiguration `{name}` cannot be kept"
    cause = str(error) if isinstance(error, ApiError) else "the API server did not answer in time"
    return _warning("ADM973", message, "the chart has the right that the server needs for it", f"{cause}; {_LOST}")


def _other_names(host: str) -> Diagnostic:
    message = f"the certificate of `--tls-cert` is not for `{host}`, where the API server reaches the webhook"
    return _warning("ADM974", message, f"add `{host}` to its names")
