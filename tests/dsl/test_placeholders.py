"""Arguments in which a `*`, or what a rewrite elsewhere fills in, would stand for itself."""

from __future__ import annotations

import pytest

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from tests.fidelity.samples import FILES

PROGRAM = "app p\nservice a {{ http 1 }}\nservice b {{ http 2 }}\ncall a -> b\npolicy p = {policy} on a -> b\n"
REFUSED = (
    'remove_request_header(name: "x-*")',
    'remove_response_header(name: "*")',
    'set_request_header(name: "x-*", value: "1")',
    'load_balancing(policy: ring_hash, hash: "x-*")',
    'rewrite_path(prefix: "/a/*", to: "/b/")',
    'rewrite_path(prefix: "/a/", to: "/b/*")',
    'rewrite_path(prefix: "/a*", to: "/b/")',
    'rewrite_path(prefix: "/a/**/b", to: "/b/")',
    'rewrite_path(prefix: "/a/(.*)", to: "/b/")',
    'rewrite_path(prefix: "/a", to: "/b/$1")',
    'rewrite_path(prefix: "/users/:id", to: "/u")',
    'jwt(issuer: "https://*.example", jwks: "keys.json")',
    'jwt(issuer: "i", jwks: "keys.json", audiences: ["shop", "*"])',
    'cors(origins: ["*"], methods: ["*"], credentials: true)',
    'cors(origins: ["*"], headers: ["x-a", "*"], credentials: true)',
    'cors(origins: ["*"], expose: ["*"], credentials: true)',
)
FINE = (
    'set_request_header(name: "x-a", value: "*")',
    'rewrite_path(prefix: "/v1/things:old", to: "/$metadata")',
    'rewrite_path(prefix: "/a*b", to: "/b")',
    'jwt(issuer: "https://issuer.example", jwks: "keys.json", audiences: ["shop"])',
    'cors(origins: ["*"], methods: ["*"], headers: ["*"], expose: ["*"])',
    'cors(origins: ["*"], credentials: true)',
)


@pytest.mark.parametrize("policy", REFUSED)
def test_it_is_refused(policy: str) -> None:
    with pytest.raises(ProgramError) as caught:
        dsl.load_text(PROGRAM.format(policy=policy), "test.adm", FILES.__getitem__)
    assert [each.code for each in caught.value.diagnostics if each.severity.value == "error"] == ["ADM222"]


@pytest.mark.parametrize("policy", FINE)
def test_what_means_itself_is_accepted(policy: str) -> None:
    dsl.load_text(PROGRAM.format(policy=policy), "test.adm", FILES.__getitem__)
