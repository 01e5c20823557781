"""A certificate of cert-manager, as docs/cluster/install.md asks for one: the server uses its Secret, and a renewed one
without a restart.

cert-manager and the API server are real. The test stands in for the kubelet, which mounts a Secret as files: it writes
a new folder, and then changes one link.
"""

from __future__ import annotations

import base64
import itertools
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.cluster.cert_manager import applied, cert_manager
from tests.cluster.serve.test_own_authority import config_map, shown
from tests.cluster.serve.test_webhook import AT_EGRESS, OURS, hooks
from tests.cluster.tools import MissingError
from tests.deploy.chart import NAME, NAMESPACE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.serve.installation import Installation

    Json = dict[str, Any]

FILES: Final = ("tls.crt", "tls.key", "ca.crt")
NUMBERS: Final = itertools.count(1)


@pytest.fixture
def issuing(shop: Installation, tmp_path: Path) -> Iterator[Installation]:
    """With cert-manager, and an issuer `internal` in the namespace of the server."""
    try:
        with cert_manager(shop.api, tmp_path):
            applied(shop.api, shop.system, "Issuer", "self-signed", {"selfSigned": {}})
            authority: Json = {"isCA": True, "commonName": "internal", "secretName": "authority"}
            authority |= {"issuerRef": {"name": "self-signed"}}
            applied(shop.api, shop.system, "Certificate", "authority", authority)
            applied(shop.api, shop.system, "Issuer", "internal", {"ca": {"secretName": "authority"}})
            yield shop
    except MissingError as error:
        pytest.skip(str(error))


def on_the_page(shop: Installation) -> Json:
    """The Certificate of docs/cluster/install.md, for this installation, which clients reach as `localhost`."""
    page = (ROOT / "docs" / "cluster" / "install.md").read_text(encoding="utf-8")
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Certificate" in text)
    spec: Json = yaml.safe_load(block.replace(NAMESPACE, shop.system).replace(NAME, f"admc-{shop.name}"))["spec"]
    assert spec["dnsNames"] == [f"admc-{shop.name}{part}.{shop.system}.svc" for part in ("", "-webhook")]
    return {**spec, "dnsNames": [*spec["dnsNames"], "localhost"]}


def secret(shop: Installation, name: str) -> dict[str, bytes]:
    listed = shop.api.request("GET", f"/api/v1/namespaces/{shop.system}/secrets")["items"]
    stored_secret = next((each for each in listed if each["metadata"]["name"] == name), {})
    return {key: base64.b64decode(value) for key, value in stored_secret.get("data", {}).items()}


def mounted(folder: Path, data: dict[str, bytes]) -> None:
    """Write the files of a Secret as a kubelet does."""
    new = folder / f"..{next(NUMBERS)}"
    new.mkdir(parents=True)
    for name in FILES:
        (new / name).write_bytes(data[name])
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..new"
    link.symlink_to(new.name)
    link.rename(folder / "..data")


def renew(shop: Installation, path: str) -> None:
    """What `cmctl renew` does."""
    now = f"{datetime.now(UTC):%FT%TZ}"
    condition = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "lastTransitionTime": now}
    stored = shop.api.request("GET", path)
    others = [each for each in stored["status"]["conditions"] if each["type"] != "Issuing"]
    change = {"status": {"conditions": [*others, {**condition, "message": "renewed"}]}}
    shop.api.request("PATCH", f"{path}/status", change, "application/merge-patch+json")


def shows(shop: Installation, data: dict[str, bytes]) -> bool:
    """Whether the server shows the certificate of a Secret to a client that trusts its authority."""
    return data["tls.crt"].startswith(shown(shop.port, data["ca.crt"].decode()))


def test_the_server_uses_the_secret_of_cert_manager_and_a_renewed_one(issuing: Installation, tmp_path: Path) -> None:
    shop, folder = issuing, tmp_path / "tls"
    spec = on_the_page(shop)
    path = applied(shop.api, shop.system, "Certificate", f"admc-{shop.name}", spec)
    first: dict[str, bytes] = shop.until(
        lambda: data if set(FILES) <= set(data := secret(shop, spec["secretName"])) else None
    )
    mounted(folder, first)
    given = (f"--tls-cert={folder / 'tls.crt'}", f"--tls-key={folder / 'tls.key'}", f"--tls-ca={folder / 'ca.crt'}")
    with hooks(shop) as hooked, hooked.server(*given, own_authority=True) as server:
        shop.program(AT_EGRESS)
        assert shows(shop, first)
        shop.until(lambda: config_map(shop).get("ca.crt") == first["ca.crt"].decode())
        hooked.until_injected()

        renew(shop, path)
        second: dict[str, bytes] = shop.until(
            lambda: data if (data := secret(shop, spec["secretName"]))["tls.crt"] != first["tls.crt"] else None
        )
        assert second["tls.key"] != first["tls.key"], "cert-manager makes a new key with each certificate"
        mounted(folder, second)
        shop.until(lambda: shows(shop, second))
        assert hooked.create().names == OURS, "the API server trusts the renewed one, too"
        assert not [
            event for event in server.events() if event["level"] in ("warning", "error") and "tls" in str(event)
        ]
        assert len(server.events("webhook_listening")) == 1, "it was not restarted"
