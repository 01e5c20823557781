"""The lines of `admc doctor --cluster NAME`: what is right, and each fault alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from admc.base.checks import CheckVerdict, is_bad, text
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.doctor.checks import checks
from admc.kubernetes.doctor.picture import Picture
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = 1_800_000_000.0
RECENT = "2027-01-15T07:59:55.000000Z"
NAMESPACE = "admc-system"
POLICY, GUARD, SELECTORS = "admc-main-injections", "admc-main-guard", "admc-main-guard-services"


def named(name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    where = {} if namespace is None else {"namespace": namespace}
    return {"metadata": {"name": name, **where}, **fields}


def deployment(namespace: str = NAMESPACE, ready: int = 2) -> dict[str, Any]:
    return named("admc-main", namespace, spec={"replicas": 2}, status={"readyReplicas": ready})


def node(name: str, version: str) -> dict[str, Any]:
    return named(name, status={"nodeInfo": {"kubeletVersion": version}})


def lease(holder: str = "replica-1", renewed: str = RECENT) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}}


def program(name: str = "shop", controller: str = "main", **conditions: tuple[str, str]) -> dict[str, Any]:
    listed = [{"type": kind, "status": status, "reason": reason} for kind, (status, reason) in conditions.items()]
    return named(name, spec={"controller": controller}, status={"conditions": listed})


RIGHT = Picture(
    version={"gitVersion": "v1.36.2"},
    kinds={"resources": [{"name": "programs"}, {"name": "programs/status"}, {"name": "injections"}]},
    nodes=(node("a", "v1.36.2"), node("b", "v1.29.0-gke.1")),
    deployments=(deployment(),),
    leases={NAMESPACE: lease()},
    policies={name: named(name) for name in (POLICY, GUARD, SELECTORS)},
    bindings={name: named(name) for name in (POLICY, GUARD, SELECTORS)},
    webhook={"webhooks": [{"clientConfig": {"caBundle": "LS0t"}}]},
    endpoints={NAMESPACE: ({"endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": True}}]},)},
    namespaces=(named("shop"),),
    programs=(program(Accepted=("True", "Accepted"), Programmed=("True", "Programmed")), program("other", "second")),
)
ABSENT = ApiError(404, "NotFound", "there is none")
FORBIDDEN = ApiError(403, "Forbidden", "user `me` cannot list it")


def lines(**changed: Any) -> dict[CheckVerdict, str]:
    """The lines of a picture by verdict, but not those of what is right in `RIGHT` as well."""
    usual = set(checks("main", RIGHT, NOW))
    found: dict[CheckVerdict, str] = {}
    for check in checks("main", RIGHT._replace(**changed), NOW):
        if check not in usual:
            found[check.verdict] = found.get(check.verdict, "") + text([check])
    return found


def test_an_installation_without_faults() -> None:
    shown = checks("main", RIGHT, NOW)
    assert not is_bad(shown)
    assert {check.verdict for check in shown} == {CheckVerdict.GOOD}
    assert text(shown) == (
        "ok       kubernetes      v1.36.2\n"
        "ok       nodes           2, with kubelets of 1.29 or later\n"
        "ok       definitions     Program, Injection\n"
        "ok       server          2 of 2 replicas of `admc-system/admc-main` are ready\n"
        "ok       active replica  `replica-1`\n"
        "ok       admission       admc-main-injections\n"
        "ok       admission       admc-main-guard\n"
        "ok       admission       admc-main-guard-services\n"
        "ok       webhook         2 replicas answer it\n"
        "ok       namespaces      `shop`\n"
        "ok       programs        `shop`: Accepted=True, Programmed=True\n"
    )


BAD: dict[str, tuple[Mapping[str, Any], str]] = {
    "Kubernetes 1.29": ({"version": {"gitVersion": "v1.29.9"}}, "admc needs 1.30 or later"),
    "a kubelet of 1.28": (
        {"nodes": (node("a", "v1.28.15"), node("b", "v1.30.0"))},
        "1 of 2 are too old: `a` (v1.28.15)",
    ),
    "no definitions": ({"kinds": ABSENT}, "does not have the kinds of admc"),
    "the definitions of an earlier release": ({"kinds": {"resources": [{"name": "programs"}]}}, "have injections"),
    "no server": ({"deployments": (), "leases": {}}, "no Deployment of an installation `main`"),
    "two installations of one name": (
        {"deployments": (deployment(), deployment("mesh")), "leases": {NAMESPACE: lease(), "mesh": lease()}},
        "2 installations `main`, in namespaces `admc-system`, `mesh`",
    ),
    "a replica that is not ready": ({"deployments": (deployment(ready=1),)}, "1 of 2 replicas"),
    "no replica was ever active": ({"leases": {NAMESPACE: ABSENT}}, "there is no Lease"),
    "no replica is active": ({"leases": {NAMESPACE: lease("")}}, "no replica holds the Lease"),
    "a Lease that is not renewed": (
        {"leases": {NAMESPACE: lease(renewed="2027-01-15T07:50:00Z")}},
        "renewed its Lease 600 s ago",
    ),
    "no policy of admission": (
        {"policies": {POLICY: ABSENT, GUARD: named(GUARD)}},
        "there is no ValidatingAdmissionPolicy `admc-main-inj",
    ),
    "no binding": (
        {"bindings": {POLICY: ABSENT, GUARD: named(GUARD), SELECTORS: named(SELECTORS)}},
        "there is no ValidatingAdmissionPolicyBinding",
    ),
    "a policy that the API server does not understand": (
        {
            "policies": {
                POLICY: {"status": {"typeChecking": {"expressionWarnings": [{"warning": "no such field"}]}}},
                GUARD: named(GUARD),
            }
        },
        "no such field",
    ),
    "half a guard": (
        {"policies": {POLICY: named(POLICY), GUARD: ABSENT}},
        "no ValidatingAdmissionPolicy `admc-main-guard`",
    ),
    "a guard without the policy for Services, as of an earlier chart": (
        {name: {POLICY: named(POLICY), GUARD: named(GUARD), SELECTORS: ABSENT} for name in ("policies", "bindings")},
        "no ValidatingAdmissionPolicy `admc-main-guard-services`",
    ),
    "a webhook that the API server does not trust": (
        {"webhook": {"webhooks": [{"clientConfig": {}}]}},
        "it has no `caBundle`",
    ),
    "a webhook that no replica answers": (
        {"endpoints": {NAMESPACE: ({"endpoints": []},)}},
        "no replica in `admc-system`",
    ),
    "a namespace with Pod Security": (
        {"namespaces": ({"metadata": {"name": "shop", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},)},
        "Pod Security refuses pods with an ADM",
    ),
    "a Program that no server reads": ({"programs": (program(),)}, "`shop` has no conditions"),
    "a Program that does not compile": (
        {"programs": (program(Accepted=("False", "Invalid")),)},
        "`shop`: Accepted=False (Invalid); `kubectl describe program shop`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_fault(case: str) -> None:
    changed, expected = BAD[case]
    found = lines(**changed)
    assert CheckVerdict.BAD in found
    assert expected in found[CheckVerdict.BAD]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"namespaces": ()}, "none takes part; `kubectl label namespace NAMESPACE admc.dev/controller=main`"),
        ({"webhook": ABSENT}, "none; pods get their ADMs from manifests alone"),
        (
            {name: {POLICY: named(POLICY), GUARD: ABSENT, SELECTORS: ABSENT} for name in ("policies", "bindings")},
            "no guard; pods without their ADM start",
        ),
        ({"programs": ()}, "none; a Program with `spec.controller: main` brings the policies"),
    ],
)
def test_what_is_still_to_do(changed: Mapping[str, Any], expected: str) -> None:
    found = lines(**changed)
    assert set(found) == {CheckVerdict.OPTIONAL}
    assert expected in found[CheckVerdict.OPTIONAL]


def test_what_the_account_may_not_read_is_not_called_right() -> None:
    fields = ("kinds", "nodes", "deployments", "namespaces", "programs", "webhook")
    policies = {POLICY: FORBIDDEN, GUARD: named(GUARD), SELECTORS: named(SELECTORS)}
    spaces = {NAMESPACE: FORBIDDEN}
    alike: dict[str, Any] = {"leases": spaces, "endpoints": spaces, "policies": policies, "bindings": policies}
    for changed in (*({name: FORBIDDEN} for name in fields), *({name: value} for name, value in alike.items())):
        found = lines(**changed)
        assert set(found) == {CheckVerdict.UNKNOWN}, changed
        assert "user `me` cannot list it" in found[CheckVerdict.UNKNOWN]


@pytest.mark.parametrize("reason", ["RollingOut", "PodsNotReady", "Audit"])
def test_a_rollout_is_no_fault(reason: str) -> None:
    found = lines(programs=(program(Accepted=("True", "Accepted"), Programmed=("False", reason)),))
    assert set(found) == {CheckVerdict.GOOD}


def test_objects_of_any_form_are_no_traceback() -> None:
    odd: tuple[Any, ...] = ({}, {"metadata": []}, {"metadata": {"name": 1}, "status": 3, "spec": "x"})
    for each in odd:
        many = dict.fromkeys(("nodes", "namespaces", "programs"), (each,))
        parts = {"leases": {NAMESPACE: each}, "policies": {POLICY: each}, "bindings": {POLICY: each}}
        parts |= {"endpoints": {NAMESPACE: (each,)}, "webhook": each}
        checks("main", RIGHT._replace(version=each, kinds=each, **many, **parts), NOW)
        namespace = str(at(each, ("metadata", "namespace")))
        checks("main", RIGHT._replace(deployments=(each,), leases={namespace: each}), NOW)


def test_text_of_the_cluster_is_escaped() -> None:
    found = lines(leases={NAMESPACE: lease("\x1b[31mred")})
    assert "\x1b" not in found[CheckVerdict.GOOD]
