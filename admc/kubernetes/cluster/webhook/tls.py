"""TLS of the webhook: the certificate of the server, which may be replaced while it listens.

    Material --SSLContext--> handshakes, each with the newest certificate

A client that does not trust the certificate ends the handshake: if it is the API server, pods are created without
their ADMs. So failed handshakes are counted and logged.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.kubernetes.cluster.webhook.counts import WebhookCounts
    from admc.serve.auth.tls import Material

LOG: Final = logging.getLogger("admc.cluster")
AGAIN_SECONDS: Final = 60.0
"""The time after which a failed handshake is logged again, for the same reason."""
_TRUST: Final = (
    "if the client is the API server, pods are created without their ADMs: it has to trust the certificate, by "
    "`caBundle` of the MutatingWebhookConfiguration, which the active replica keeps"
)


class WebhookTls:
    """All calls belong on one event loop."""

    def __init__(self, source: Callable[[], Material], counts: WebhookCounts) -> None:
        """`source` returns the present certificate, and raises `CommandError` if that cannot be used."""
        self._source, self._counts = source, counts
        self._logged: dict[str, float] = {}
        """Why handshakes failed -> when that was logged last."""
        self._material = source()
        self._newest = self._context(self._material)
        self.context = self._context(self._material)
        """For the listener."""
        self.context.sni_callback = self._choose

    @property
    def certificate(self) -> bytes:
        return self._material.certificate

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        """OpenSSL calls this in each handshake, before the server shows its certificate."""
        connection.context = self._present()

    def _present(self) -> ssl.SSLContext:
        try:
            material = self._source()
            if material != self._material:
                self._material = material  # first: one that cannot be used is tried once
                self._newest = self._context(material)
        except (CommandError, ssl.SSLError) as error:
            # The message of the library has no part of the key.
            LOG.error("last_good_certificate_stays", extra={"problem": f"the webhook: {error}"})
        return self._newest

    def _context(self, material: Material) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = self._observed()
        _load(context, material)
        return context

    def _observed(self) -> type[ssl.SSLObject]:
        failed = self._failed

        class Observed(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    failed(error)
                    raise

        return Observed

    def _failed(self, error: ssl.SSLError) -> None:
        self._counts.refusals += 1
        why, now = error.reason or type(error).__name__, time.monotonic()
        if now - self._logged.get(why, -AGAIN_SECONDS) >= AGAIN_SECONDS:
            self._logged[why] = now
            LOG.warning("webhook_handshake_failed", extra={"why": why, "text": _TRUST})


def _load(context: ssl.SSLContext, material: Material) -> None:
    """Python reads certificates from files only. This one is in memory, so the key is on no disk."""
    descriptor = os.memfd_create("admc-webhook-certificate", os.MFD_CLOEXEC)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(material.certificate.rstrip() + b"\n" + material.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
