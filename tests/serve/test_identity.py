"""Identities of services: rules, files, certificates and tokens, each by itself."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import dsl
from admc.base.exits import CommandError
from admc.serve.auth.identity import Identities, Proof, Settings, by_service_account, from_json, is_loopback, load
from admc.serve.auth.tokens import LATEST_EXPIRY, load_keys
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS
from tests.serve.pki import Authority
from xds_server.protocol.wire import ClientNode
from xds_server.transport.client import Admission, Caller, DeniedError

if TYPE_CHECKING:
    from pathlib import Path

AUTHORITY = Authority()
TLS = {"transport_security_type": (b"ssl",)}
SERVICES = {"search": "shop", "geo": "shop", "web": "default"}
PROGRAM = """app shop
service search, geo { http 80  namespace shop }
service web { http 80 }
call web -> search, geo
"""
SHORT = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - it is to be refused
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def caller(
    cluster: str = "", *uris: str, token: str | None = None, peer: str = "ipv4:10.0.0.1:5", **options: Any
) -> Caller:
    auth = dict(TLS)
    if uris or options:
        auth["x509_pem_cert"] = (AUTHORITY.issue(*uris, **options).certificate,)
    metadata = (("user-agent", "test"), *([("authorization", f"Bearer {token}")] if token is not None else []))
    return Caller(ClientNode("n", cluster, ""), peer, auth, metadata)


def settings(proof: Proof = Proof.CERTIFICATE, **options: Any) -> Settings:
    return Settings(proof, **options)


def allowed(text: str) -> Identities:
    return Identities(Proof.CERTIFICATE, frozenset(SERVICES), from_json(text.encode(), SERVICES))


def denied(identities: Identities, who: Caller) -> tuple[str, str]:
    with pytest.raises(DeniedError) as caught:
        identities.identify(who)
    return caught.value.reason, str(caught.value)


# ---- certificates ----


def test_without_a_file_a_service_is_its_own_service_account() -> None:
    identities = load(settings(), dsl.load_text(PROGRAM))
    found = identities.identify(caller("web", "spiffe://cluster.local/ns/shop/sa/search"))
    assert (found.group, found.identity) == ("search", "spiffe://cluster.local/ns/shop/sa/search")
    assert found.expires == pytest.approx(time.time() + 3600, abs=60)
    assert identities.identify(caller("", "spiffe://cluster.local/ns/default/sa/web")).group == "web"
    for uri in (
        "spiffe://cluster.local/ns/default/sa/search",
        "spiffe://other.domain/ns/shop/sa/search",
        "spiffe://cluster.local/ns/shop/sa/search/x",
    ):
        assert denied(identities, caller("search", uri)) == ("unmapped", f"no service has the identity `{uri}`")


def test_the_trust_domain_can_be_said() -> None:
    identities = load(settings(trust_domain="prod.example"), dsl.load_text(PROGRAM))
    assert identities.identify(caller("", "spiffe://prod.example/ns/shop/sa/geo")).group == "geo"
    with pytest.raises(CommandError, match="is not a trust domain"):
        load(settings(trust_domain="not/one"), dsl.load_text(PROGRAM))


def test_names_with_the_same_form_in_kubernetes_get_no_identity() -> None:
    found = by_service_account({"a_b": "default", "a-b": "default", "c_d": "default", "e": "x", "E": "x"}, "t")
    assert set(found) == {"spiffe://t/ns/default/sa/c-d", "system:serviceaccount:default:c-d"}


def test_the_node_chooses_among_the_services_of_its_identity_only() -> None:
    identities = allowed(
        '{"services": {"search": ["spiffe://t/sa"], "geo": ["spiffe://t/sa"], "web": ["spiffe://t/w"]}}'
    )
    assert identities.identify(caller("geo", "spiffe://t/sa")).group == "geo"
    assert identities.identify(caller("search", "spiffe://t/sa")).group == "search"
    assert denied(identities, caller("web", "spiffe://t/sa"))[0] == "ambiguous"
    assert denied(identities, caller("", "spiffe://t/sa"))[0] == "ambiguous"
    assert identities.identify(caller("geo", "spiffe://t/w")).group == "web"


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (caller("search"), "certificate"),
        (caller("search", name="search"), "certificate"),
        (caller("search", dns=("search",)), "certificate"),
        (caller("search", "spiffe://t/a", "spiffe://t/b"), "certificate"),
        (caller("search", "https://t/a"), "certificate"),
        (caller("search", "spiffe://t"), "certificate"),
        (caller("search", "spiffe://t/../a%00"), "certificate"),
        (caller("search", "spiffe://t/" + "a" * 3000), "certificate"),
        (caller("search", "spiffe://t/a", seconds=-5), "expired"),
        (Caller(ClientNode("", "search", ""), "", {**TLS, "x509_pem_cert": (b"no certificate",)}), "certificate"),
    ],
)
def test_a_certificate_without_exactly_one_spiffe_uri_is_denied(who: Caller, reason: str) -> None:
    identities = allowed('{"services": {"search": ["spiffe://t/a", "spiffe://t/b"]}}')
    assert denied(identities, who)[0] == reason


def test_what_is_wrong_with_the_names_of_a_certificate_is_said() -> None:
    identities = allowed('{"services": {"search": ["spiffe://t/a", "spiffe://t/b"]}}')
    assert "has no URI" in denied(identities, caller("search", dns=("search",)))[1]
    assert "has 2 URIs" in denied(identities, caller("search", "spiffe://t/a", "spiffe://t/b"))[1]
    assert "`https://t/a` in its certificate" in denied(identities, caller("search", "https://t/a"))[1]


def test_the_certificate_of_an_authority_is_denied() -> None:
    """Its holder can issue certificates for others."""
    who = caller("search", "spiffe://t/a", authority=True)
    identities = allowed('{"services": {"search": ["spiffe://t/a"]}}')
    assert denied(identities, who) == ("certificate", "its certificate is that of a certificate authority")


# ---- plain text ----


def test_in_plain_text_the_node_is_believed() -> None:
    identities = load(settings(Proof.NONE), dsl.load_text(PROGRAM))
    assert identities.identify(caller("geo")) == Admission("geo")
    assert denied(identities, caller("goe\x1b"))[1] == r"the program has no service `goe\x1b`"


@pytest.mark.parametrize(
    ("peer", "found"),
    [
        ("ipv4:127.0.0.1:5", True),
        ("ipv4:127.9.0.1:5", True),
        ("ipv6:%5B::1%5D:5", True),
        ("ipv6:[::1]:5", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5", True),
        ("ipv4:10.0.0.1:5", False),
        ("ipv6:%5B::ffff:10.0.0.1%5D:5", False),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", False),
        ("unix:/run/x", False),
        ("", False),
    ],
)
def test_loopback(peer: str, found: bool) -> None:
    assert is_loopback(peer) is found


def test_administrators() -> None:
    plain = Identities(Proof.NONE, frozenset(SERVICES))
    assert plain.may_administer(caller(peer="ipv4:127.0.0.1:5"))
    assert not plain.may_administer(caller(peer="ipv4:10.0.0.1:5"))
    some = Identities(Proof.CERTIFICATE, frozenset(SERVICES), {}, frozenset({"spiffe://t/admin"}))
    assert some.may_administer(caller("", "spiffe://t/admin"))
    assert not some.may_administer(caller("", "spiffe://t/other"))
    assert not some.may_administer(caller("", "spiffe://t/admin", seconds=-5))
    assert not some.may_administer(caller("", peer="ipv4:127.0.0.1:5"))
    with pytest.raises(CommandError, match="`root` is not an identity"):
        load(settings(admins=("root",)), dsl.load_text(PROGRAM))


# ---- the identities file ----


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("{", "line 1 is not JSON", "its shape is"),
        ('{"services": ' + "[" * 100_000, "nested too deeply", "its shape is"),
        ("[]", "it is not a JSON object", "its shape is"),
        ("{}", "`the document` lacks `services`", "its shape is"),
        (
            '{"service": {}, "services": {}}',
            "unknown field `service`",
            "did you mean `services`?",
        ),
        ('{"services": []}', "`services` must be an object", "its shape is"),
        ('{"services": {"serch": []}}', "the program has no service `serch`", "search"),
        ('{"services": {"search": "spiffe://t/a"}}', "`services.search` must be a list", "its shape is"),
        ('{"services": {"search": ["spiffe://T/a"]}}', "`services.search` has `spiffe://T/a`, which is no", "SERVICE"),
        ('{"services": {"search": [7]}}', "`services.search[0]` must be a string", "its shape is"),
        ('{"services": {"search": ["\\u001b[2J"]}}', r"has `\x1b[2J`, which is not an identity", "spiffe://"),
        ('{"services": {"geo": [], "geo": ["spiffe://t/a"]}}', "`services` has `geo` twice", "its shape is"),
    ],
)
def test_a_file_with_nonsense_is_refused_whole(text: str, message: str, hint: str) -> None:
    with pytest.raises(CommandError) as caught:
        from_json(text.encode(), SERVICES)
    (found,) = caught.value.diagnostics
    assert found.code == "ADM820"
    assert message in found.message
    assert hint.lower() in (found.hint or "").lower()


WORDS = st.sampled_from(["services", "search", "geo", "x"])
DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
)


@given(DOCUMENTS)
def test_any_json_is_read_or_refused(document: Any) -> None:
    found: Any = {}
    codes: set[str] = set()
    try:
        found = from_json(json.dumps(document).encode(), SERVICES)
    except CommandError as error:
        codes = {item.code for item in error.diagnostics}
    assert codes <= {"ADM820"}
    assert all(names <= SERVICES.keys() for names in found.values())


@pytest.mark.long
def test_a_large_file_full_of_nonsense_is_refused_at_once() -> None:
    """A revocation must not wait until all errors of a large file are found."""
    services = [f"service_number_{number}" for number in range(10)]
    unknown = {f"service_numbr_{number}": [] for number in range(30_000)}
    for document in ({"services": unknown}, {**unknown, "services": {}}, {"services": {services[0]: [0] * 200_000}}):
        started = time.process_time()
        with pytest.raises(CommandError) as caught:
            from_json(json.dumps(document).encode(), services)
        assert time.process_time() - started < 5.0  # and a minute if each were looked at
        assert len(caught.value.diagnostics) <= MAX_DIAGNOSTICS
    with pytest.raises(CommandError) as caught:
        from_json(json.dumps({"services": {"x" * 1_000_000: []}}).encode(), services)
    assert len(caught.value.diagnostics[0].message) < 300


def test_all_findings_of_a_file_are_said_at_once() -> None:
    with pytest.raises(CommandError) as caught:
        from_json(b'{"services": {"serch": [], "geo": ["x", "y"]}}', SERVICES)
    assert len(caught.value.diagnostics) == 3


# ---- tokens ----


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    algorithm: Any = jwt.algorithms.OKPAlgorithm
    if isinstance(key, rsa.RSAPublicKey):
        algorithm = jwt.algorithms.RSAAlgorithm
    elif isinstance(key, ec.EllipticCurvePublicKey):
        algorithm = jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(key, as_dict=True), **more}


def written(folder: Path, *keys: dict[str, Any]) -> Path:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": keys}))
    return path


LASTS = 86_400
"""Seconds. Tokens are signed when tests are collected, and the last of them may run long after that."""


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {
        "iss": "https://kubernetes.default.svc",
        "aud": ["admc"],
        "sub": "system:serviceaccount:shop:search",
        "iat": now,
        "nbf": now,
        "exp": now + LASTS,
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(key: Any = RSA, algorithm: str = "RS256", *, kid: str | None = "one", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": kid} if kid else None)


@pytest.fixture
def by_token(tmp_path: Path) -> Identities:
    keys = written(tmp_path, jwk(RSA.public_key(), kid="one", use="sig", alg="RS256"))
    chosen = settings(Proof.TOKEN, token_keys=keys, token_audience="admc")  # noqa: S106
    assert chosen.files == (keys,)
    return load(chosen, dsl.load_text(PROGRAM))


def test_a_service_account_token_is_a_service(by_token: Identities) -> None:
    found = by_token.identify(caller("web", token=signed(exp=int(time.time()) + 600)))
    assert (found.group, found.identity) == ("search", "system:serviceaccount:shop:search")
    assert found.expires == pytest.approx(time.time() + 600, abs=5)


@pytest.mark.parametrize("exp", [10**15, 10**400])
def test_a_token_that_ends_at_no_time_that_there_is_lasts(by_token: Identities, exp: int) -> None:
    assert by_token.identify(caller("web", token=signed(exp=exp))).expires == float(LATEST_EXPIRY)


def unsigned() -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none', 'kid': 'one'})}.{part(claims())}."


def with_public_key_as_secret() -> str:
    """A known attack: a signature with the public key as a shared secret."""
    from cryptography.hazmat.primitives import hashes, hmac, serialization

    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    encode = lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")  # noqa: E731
    head = encode(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    body = f"{head}.{encode(json.dumps(claims()).encode())}"
    made = hmac.HMAC(pem, hashes.SHA256())
    made.update(body.encode())
    return f"{body}.{encode(made.finalize())}"


@pytest.mark.parametrize(
    ("token", "reason", "why"),
    [
        (None, "token", "it has no token"),
        ("", "token", "no signed JSON Web Token"),
        ("a.b.c", "token", "no signed JSON Web Token"),
        ("x" * 20_000, "token", "more than 16,384"),
        (signed(exp=int(time.time()) - 60), "expired", "has expired"),
        (signed(exp=None), "token", "missing the \"exp\" claim"),
        (signed(nbf=int(time.time()) + LASTS), "token", "not yet valid"),
        (signed(aud="other"), "token", "its token is for another audience than `admc`"),
        (signed(aud=None), "token", 'missing the "aud" claim'),
        (signed(sub="somename"), "token", "not that of a service account"),
        (signed(sub="system:serviceaccount:shop:search:x"), "token", "not that of a service account"),
        (signed(sub="system:serviceaccount:shop:other"), "unmapped", "no service has"),
        (signed(kid="two"), "token", "not among the token keys"),
        (signed(rsa.generate_private_key(public_exponent=65537, key_size=2048)), "token", "not among the token keys"),
        (signed(algorithm="PS256"), "token", "not among the token keys"),
        (unsigned(), "token", "not among the token keys"),
        (with_public_key_as_secret(), "token", "not among the token keys"),
    ],
)  # fmt: skip
def test_every_other_token_is_denied(by_token: Identities, token: str | None, reason: str, why: str) -> None:
    found = denied(by_token, caller("search", token=token))
    assert found[0] == reason
    assert why in found[1]
    assert not token or token not in found[1]


def test_a_token_counts_over_tls_alone_and_once(by_token: Identities) -> None:
    token = signed()
    plain = Caller(ClientNode("", "search", ""), "", {}, (("authorization", f"Bearer {token}"),))
    assert denied(by_token, plain) == ("token", "tokens are accepted only over TLS")
    twice = Caller(ClientNode("", "search", ""), "", TLS, (("authorization", f"Bearer {token}"),) * 2)
    assert denied(by_token, twice) == ("token", "it has several tokens")
    basic = Caller(ClientNode("", "search", ""), "", TLS, (("authorization", "Basic abc"),))
    assert denied(by_token, basic) == ("token", "its authorization is not a bearer token")
    assert token not in repr(plain)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "PS384"),
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
    ],
)
def test_a_key_without_a_name_or_an_algorithm_is_tried(tmp_path: Path, key: Any, algorithm: str) -> None:
    keys = load_keys(written(tmp_path, jwk(RSA.public_key(), kid="rsa"), jwk(key.public_key())), "admc")
    assert keys.verify(signed(key, algorithm, kid=None)).subject == "system:serviceaccount:shop:search"
    assert keys.verify(signed(key, algorithm, kid="of-no-key-named")).expires > time.time()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no", "it is not JSON"),
        (b"[]", "it has no list `keys`"),
        (b'{"keys": []}', "it has no list `keys`"),
        (b'{"keys": [1]}', "key 1 is not an object"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0LXdvcmRz"}]}', "key 1 is a shared secret"),
        (json.dumps({"keys": [jwt.algorithms.RSAAlgorithm.to_jwk(RSA, as_dict=True)]}).encode(), "private key"),
        (b'{"keys": [{"kty": "RSA", "n": "AQAB"}]}', "of a type that admc does not support"),
        (b'{"keys": [{"kty": "EC", "crv": "P-256", "x": 5, "y": []}]}', "of a type that admc does not support"),
        (b'{"keys": [{"kty": "new"}]}', "of a type that admc does not support"),
        (b'{"keys": [{"use": "enc", "kty": "RSA"}]}', "none of its keys is for signatures"),
        (json.dumps({"keys": [{}] * 65}).encode(), "more than 64 keys"),
        (
            json.dumps({"keys": [jwk(SHORT.public_key())]}),
            "key 1 has 1024 bits",
        ),
        (json.dumps({"keys": [jwk(RSA.public_key(), alg="HS256")]}), "an algorithm that does not fit it"),
        (json.dumps({"keys": [jwk(ec.generate_private_key(ec.SECP256K1()).public_key())]}), "not accepted"),
    ],
)
def test_keys_that_cannot_be_trusted_are_refused(tmp_path: Path, content: bytes | str, why: str) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CommandError) as caught:
        load_keys(path, "admc")
    (found,) = caught.value.diagnostics
    assert found.code == "ADM821"
    assert why in found.message
    assert "c2VjcmV0LXdvcmRz" not in str(found)


@examples(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine a draw takes seconds
@given(
    st.dictionaries(
        st.sampled_from(["kty", "crv", "n", "e", "x", "y", "alg", "kid", "use"]),
        st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB", "sig", "ES256", "", None, 7, [], {}]),
    )
)
def test_any_key_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, item: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps({"keys": [item]}))
    with pytest.raises(CommandError, match="ADM821"):
        load_keys(path, "admc")


def test_tokens_need_keys_and_an_audience() -> None:
    with pytest.raises(CommandError, match="tokens need keys and an audience"):
        load(settings(Proof.TOKEN), dsl.load_text(PROGRAM))
