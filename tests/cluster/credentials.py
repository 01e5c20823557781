"""Certificates, keys and kubeconfigs of one cluster, in a folder."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.serve.pki import Authority, Pair

if TYPE_CHECKING:
    from pathlib import Path

SECONDS: Final = 30 * 86_400.0
MASTERS: Final = "system:masters"
"""The group whose members may do everything."""


@dataclass(frozen=True)
class Credentials:
    """What the API server presents and accepts."""

    folder: Path
    ca: Path
    ca_key: Path
    certificate: Path
    key: Path
    account_key: Path
    """By which tokens of service accounts are signed."""
    account_public_key: Path
    tokens: Path
    """The file of static tokens: the administrator's alone."""
    admin_token: str
    authority: Authority

    def kubeconfig(self, name: str, url: str, user: dict[str, Any] | None = None) -> Path:
        """A kubeconfig file, for the administrator unless a user is given."""
        ca = base64.b64encode(self.ca.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": ca}}],
            "users": [{"name": name, "user": user or {"token": self.admin_token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return path

    def client(self, name: str, group: str) -> dict[str, str]:
        """A user of a kubeconfig, by a certificate."""
        pair = self.authority.issue(name=name, organization=group, seconds=SECONDS)
        return {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }

    def pair(self, file: str, name: str, group: str) -> tuple[Path, Path]:
        """The same as files: certificate and key."""
        return self.authority.issue(name=name, organization=group, seconds=SECONDS).write(self.folder, file)


def make(folder: Path, addresses: tuple[str, ...]) -> Credentials:
    """`addresses`: what the API server's certificate is good for, beside its names."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority("cluster", SECONDS)
    ca, ca_key = Pair(authority.certificate, authority.key).write(folder, "ca")
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    pair = authority.issue(dns=names, addresses=addresses, seconds=SECONDS, name="kube-apiserver")
    certificate, key = pair.write(folder, "server")
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    account_key, account_public_key = folder / "accounts.key", folder / "accounts.pub"
    account_key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    account_public_key.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    token = secrets.token_urlsafe(24)
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{token},admin,admin,{MASTERS}\n", encoding="utf-8")
    return Credentials(folder, ca, ca_key, certificate, key, account_key, account_public_key, tokens, token, authority)
