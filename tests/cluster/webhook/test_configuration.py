"""`caBundle` of the configuration at a real API server, and findings if the API server may not trust the webhook."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.webhook.configuration import PATH, WEBHOOK, WebhookConfiguration
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

SECONDS = 60.0


class Kept:
    """A configuration that is kept, as one replica does it."""

    def __init__(self, server: ApiServer, api: Api) -> None:
        self.server, self.name = server, f"k{secrets.token_hex(4)}"
        self.authority = Authority()
        self.bundle = self.authority.certificate.decode()
        self.certificate: bytes | None = None
        self.may_write = True
        self.kept = WebhookConfiguration(api, self.name, "system", lambda: self.bundle, lambda: self.certificate)

    @property
    def path(self) -> str:
        return PATH.format(f"admc-{self.name}")

    def apply(self, name: str = WEBHOOK, bundle: str = "") -> None:
        client: dict[str, Any] = {"service": {"name": f"admc-{self.name}-webhook", "namespace": "system"}}
        if bundle:
            client["caBundle"] = base64.b64encode(bundle.encode()).decode()
        webhook = {"name": name, "clientConfig": client, "admissionReviewVersions": ["v1"], "sideEffects": "None"}
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        body = {**kind, "metadata": {"name": f"admc-{self.name}"}, "webhooks": [{**webhook, "rules": []}]}
        self.server.apply(self.path, body)

    def stored(self) -> str:
        (webhook,) = self.server.request("GET", self.path)["webhooks"]
        return base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()

    def codes(self) -> list[str]:
        return [finding.code for finding in self.kept.findings]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def keeping(server: ApiServer, kubeconfig: Path | None = None) -> AsyncIterator[Kept]:
    async with await connect(kubeconfig or server.kubeconfig) as api:
        it = Kept(server, api)
        running = asyncio.create_task(it.kept.run(lambda: it.may_write))
        try:
            yield it
        finally:
            running.cancel()
            await asyncio.wait({running})
            with contextlib.suppress(Exception):
                server.request("DELETE", it.path)


async def test_the_bundle_follows_the_authorities(cluster_api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.webhook.configuration.AGAIN_SECONDS", 3.0)
    async with keeping(cluster_api) as it:
        await it.until(lambda: it.codes() == ["ADM972"])
        assert it.kept.is_shown(it.bundle), "no API server asks a replica"
        it.apply("pods.other.dev")
        await asyncio.sleep(4)
        assert it.codes() == ["ADM972"], "another webhook"
        assert it.stored() == ""
        it.server.request("DELETE", it.path)
        it.apply()
        await it.until(lambda: it.stored() == it.bundle and not it.codes())
        assert it.kept.is_shown(it.bundle)
        both = it.bundle + Authority("next").certificate.decode()
        assert not it.kept.is_shown(both)
        it.bundle = both
        await it.until(lambda: it.kept.is_shown(both))
        assert it.stored() == both
        it.apply(bundle=Authority("stranger").certificate.decode())
        await it.until(lambda: it.stored() == both)
        it.may_write, before = False, it.bundle
        it.bundle = it.authority.certificate.decode()
        await asyncio.sleep(5)
        assert it.stored() == before, "another replica is active"


async def test_what_the_api_server_refuses_is_said_and_holds_a_new_authority_up(cluster_api: ApiServer) -> None:
    stranger = cluster_api.credentials.client("stranger", "none")
    kubeconfig = cluster_api.credentials.kubeconfig("webhook-stranger", cluster_api.url, stranger)
    async with keeping(cluster_api, kubeconfig) as it:
        it.apply()
        await it.until(lambda: it.codes() == ["ADM973"])
        assert not it.kept.is_shown(it.bundle)
        (finding,) = it.kept.findings
        assert 'User "stranger" cannot get resource "mutatingwebhookconfigurations"' in str(finding.cause)


async def test_a_certificate_that_is_not_for_the_service_is_said(
    cluster_api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.webhook.configuration.AGAIN_SECONDS", 1.0)
    async with keeping(cluster_api) as it:
        it.apply()
        it.certificate = it.authority.issue(dns=(f"admc-{it.name}.system.svc",)).certificate
        await it.until(lambda: it.codes() == ["ADM974"])
        (finding,) = it.kept.findings
        assert f"is not for `admc-{it.name}-webhook.system.svc`" in finding.message
        it.certificate = it.authority.issue().certificate
        await asyncio.sleep(3)
        assert it.codes() == ["ADM974"], "it has no name at all"
        for name in ("*.system.svc", f"admc-{it.name}-webhook.system.svc"):
            it.certificate = it.authority.issue(dns=(name,)).certificate
            await it.until(lambda: not it.codes())
            it.certificate = it.authority.issue(dns=("other",)).certificate
            await it.until(lambda: it.codes() == ["ADM974"])
