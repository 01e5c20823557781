"""A cluster as identities need it: records of watches, keys, and tokens that a test signs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import dsl
from admc.kubernetes.cluster.identity.keys import ClusterKeys
from admc.kubernetes.cluster.identity.pods import PodIdentifier, PodIdentities
from admc.kubernetes.cluster.program_source import ClusterPrograms
from tests.cluster.objects import pod, service
from tests.cluster.serve.shown import Shown
from tests.serve.test_identity import RSA, jwk, signed
from xds_server.protocol.wire import ClientNode
from xds_server.transport.client import Caller

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod, Service

AUDIENCE = "admc.dev/test"
PROGRAM = """app shop
service search { http 8080  namespace shop }
service rate { http 9000  namespace shop }
call search -> rate
"""
TLS = {"transport_security_type": (b"ssl",)}
RATE = pod("rate-1", "rate", "10.1.0.1", account="shared", created="2026-11-23T08:00:00Z")
"""`RATE` was made at this time, in seconds since 1970."""
CREATED = 1795420800


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys or [jwk(RSA.public_key(), kid="one")]}).encode()


class Cluster:
    """A cluster whose programs `search` and `rate` are in force; it counts requests for keys."""

    def __init__(self) -> None:
        self.shown = Shown()
        self.programs = ClusterPrograms(self.shown, None)
        self.published = key_set()
        self.requests = 0
        self.now = 100.0
        self.keys = ClusterKeys(AUDIENCE, self.fetch, lambda: self.now)
        self.source = PodIdentities(self.keys, self.shown, self.programs, ("system:serviceaccount:ops:admin",))
        self.follow(PROGRAM)

    def follow(self, text: str) -> None:
        """Put a program in force."""
        program = dsl.load_text(text)
        self.programs.in_force([program], [program])
        self.identifier = PodIdentifier(self.source, self.programs, program)

    async def fetch(self) -> bytes:
        self.requests += 1
        return self.published

    async def with_keys(self) -> Cluster:
        await self.keys.fetch_once()
        self.keys.replaced.clear()
        return self

    def services(self, *made: Service) -> Cluster:
        for record in made:
            self.shown.shows(self.shown.services, record.key, record)
        self.programs.advance()
        return self

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A watch shows a change."""
        if old is not None and (new is None or new.key != old.key):
            self.shown.pod_is_gone(old)
        if new is not None:
            self.shown.pod_is(new)
        self.programs.advance()


async def cluster() -> Cluster:
    """With one pod of `rate`."""
    made = await Cluster().with_keys()
    made.services(service("rate"), service("search"))
    made.pod(None, RATE)
    return made


def token(name: str = "rate-1", uid: str = "", *, namespace: str = "shop", account: str = "shared", **more: Any) -> str:
    """A token of a pod, as the kubelet asks for one."""
    bound = {"namespace": namespace, "pod": {"name": name, "uid": uid or f"uid-{name}"}}
    claims = {"aud": [AUDIENCE], "sub": f"system:serviceaccount:shop:{account}", "iat": CREATED + 2, "nbf": CREATED}
    return signed(**{**claims, "kubernetes.io": bound, "exp": int(time.time()) + 3600, **more})


def caller(bearer: str | None = None, *, claims: str = "search") -> Caller:
    metadata = () if bearer is None else (("authorization", f"Bearer {bearer}"),)
    return Caller(ClientNode("says-what-it-likes", claims, "envoy"), "ipv4:10.1.0.1:5", TLS, metadata)
