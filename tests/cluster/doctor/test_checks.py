"""The lines of `admc doctor --cluster NAME`: what is right, and each fault alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.base.checks import CheckVerdict, is_bad, text
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.doctor.checks import checks
from admc.kubernetes.doctor.picture import Picture
from admc.kubernetes.doctor.policies import Policy, policies_of
from admc.manifests.documents import at
from tests.cluster.tools import MissingError
from tests.deploy.chart import installed, rendered

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = 1_800_000_000.0
RECENT = "2027-01-15T07:59:55.000000Z"
NAMESPACE = "admc-system"
NAMES = [policy.name for policy in policies_of("main")]
POLICY, GUARD, LABELS, DEFINITION, SERVICES = NAMES


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


def binding(policy: Policy, *actions: str, **fields: Any) -> dict[str, Any]:
    spec = {"policyName": policy.name, "validationActions": list(actions or ("Deny",)), "paramRef": policy.parameter}
    return named(policy.name, spec={key: value for key, value in {**spec, **fields}.items() if value is not None})


def bound(name: str, *actions: str, **fields: Any) -> dict[str, Any]:
    """The bindings of the chart, of which one differs."""
    return {
        policy.name: binding(policy, *actions, **fields) if policy.name == name else binding(policy)
        for policy in policies_of("main")
    }


RIGHT = Picture(
    version={"gitVersion": "v1.36.2"},
    kinds={"resources": [{"name": "programs"}, {"name": "programs/status"}, {"name": "injections"}]},
    nodes=(node("a", "v1.36.2"), node("b", "v1.29.0-gke.1")),
    deployments=(deployment(),),
    leases={NAMESPACE: lease()},
    policies={name: named(name) for name in NAMES},
    bindings=bound(""),
    webhook={"webhooks": [{"clientConfig": {"caBundle": "LS0t"}}]},
    endpoints={NAMESPACE: ({"endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": True}}]},)},
    namespaces=(named("shop"),),
    programs=(program(Accepted=("True", "Accepted"), Programmed=("True", "Programmed")), program("other", "second")),
)
ABSENT = ApiError(404, "NotFound", "there is none")
UNKNOWN_PARAMETER = (
    "/v1, Kind=Pod: ERROR: <input>:1:61: undeclared reference to 'params' (in container '')\n"
    " | a == params.spec.app\n | .....^\n"
)
FORBIDDEN = ApiError(403, "Forbidden", "user `me` cannot list it")


def checked(warning: str) -> dict[str, Any]:
    """A policy as a controller leaves it that has checked its types."""
    return {"status": {"typeChecking": {"expressionWarnings": [{"warning": warning}]}}}


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
        "ok       admission       admc-main-guard-labels\n"
        "ok       admission       admc-main-guard-needs-definition-of-injections\n"
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
    **{
        f"no policy {name}": (
            {"policies": {**RIGHT.policies, name: ABSENT}},
            f"there is no ValidatingAdmissionPolicy `{name}`",
        )
        for name in NAMES
    },
    **{
        f"no binding {name}": (
            {"bindings": {**RIGHT.bindings, name: ABSENT}},
            f"there is no ValidatingAdmissionPolicyBinding `{name}`",
        )
        for name in NAMES
    },
    "a policy that the API server does not understand": (
        {
            "policies": {
                **RIGHT.policies,
                POLICY: checked("no such field"),
            }
        },
        "no such field",
    ),
    "a policy with a fault beside a parameter whose definition was not known": (
        {"policies": {**RIGHT.policies, GUARD: checked(f"{UNKNOWN_PARAMETER}\nERROR: <input>:1:9: no such field")}},
        "no such field",
    ),
    **{
        f"a binding {name} that only audits": (
            {"bindings": bound(name, "Audit")},
            f"`validationActions` of the ValidatingAdmissionPolicyBinding `{name}` are not the chart's: Audit",
        )
        for name in NAMES
    },
    "a policy about objects that warns": (
        {"bindings": bound(POLICY, "Warn", "Audit")},
        "are not the chart's: Audit, Warn",
    ),
    "a binding without actions": ({"bindings": bound(GUARD, validationActions={})}, "are not the chart's: none"),
    "a binding of another policy": (
        {"bindings": bound(GUARD, policyName="mine")},
        "`admc-main-guard` differs from the chart's in `policyName`; pods of guarded services start without their ADM",
    ),
    "a binding for some namespaces": (
        {"bindings": bound(LABELS, matchResources={"namespaceSelector": {}})},
        "`admc-main-guard-labels` differs from the chart's in `matchResources`",
    ),
    "a binding with another parameter": (
        {"bindings": bound(DEFINITION, paramRef={"name": "mine.dev", "parameterNotFoundAction": "Deny"})},
        "differs from the chart's in `paramRef`",
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
    "the label at a namespace of Kubernetes": (
        {"namespaces": (named("shop"), named("kube-system"))},
        "`kube-system` has the label `admc.dev/controller=main`, and takes no part: it is a namespace of Kubernetes "
        "itself, whose pods have to start without the webhook; take the label off: `kubectl label namespace "
        "kube-system admc.dev/controller-`",
    ),
    "the label at the namespace of the server": (
        {"namespaces": (named("shop"), named(NAMESPACE))},
        "`admc-system` has the label `admc.dev/controller=main`, and takes no part: it is the namespace of the server",
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
            {
                name: {**getattr(RIGHT, name), **dict.fromkeys((GUARD, LABELS, DEFINITION, SERVICES), ABSENT)}
                for name in ("policies", "bindings")
            },
            "no guard; pods without their ADM start",
        ),
        (
            {"bindings": bound(GUARD, "Warn", "Audit")},
            "`admc-main-guard` warns of pods that it would refuse; the value `guard` of the chart is `Warn`",
        ),
        ({"programs": ()}, "none; a Program with `spec.controller: main` brings the policies"),
    ],
)
def test_what_is_still_to_do(changed: Mapping[str, Any], expected: str) -> None:
    found = lines(**changed)
    assert set(found) == {CheckVerdict.OPTIONAL}
    assert expected in found[CheckVerdict.OPTIONAL]


def test_a_definition_that_the_controller_did_not_know_yet_is_no_fault() -> None:
    assert not lines(policies={**RIGHT.policies, GUARD: checked(UNKNOWN_PARAMETER)})


def test_what_the_account_may_not_read_is_not_called_right() -> None:
    fields = ("kinds", "nodes", "deployments", "namespaces", "programs", "webhook")
    policies, bindings = ({**part, POLICY: FORBIDDEN} for part in (RIGHT.policies, RIGHT.bindings))
    spaces = {NAMESPACE: FORBIDDEN}
    alike: dict[str, Any] = {"leases": spaces, "endpoints": spaces, "policies": policies, "bindings": bindings}
    for changed in (*({name: FORBIDDEN} for name in fields), *({name: value} for name, value in alike.items())):
        found = lines(**changed)
        assert set(found) == {CheckVerdict.UNKNOWN}, changed
        assert "user `me` cannot list it" in found[CheckVerdict.UNKNOWN]


def test_a_namespace_that_takes_no_part_is_not_shown_as_one_that_does() -> None:
    shown = lines(namespaces=(named("kube-public"),))
    assert "none takes part" in shown[CheckVerdict.OPTIONAL]
    assert "`kube-public` has the label" in shown[CheckVerdict.BAD]


@pytest.mark.parametrize("reason", ["RollingOut", "PodsNotReady", "Audit"])
def test_a_rollout_is_no_fault(reason: str) -> None:
    found = lines(programs=(program(Accepted=("True", "Accepted"), Programmed=("False", reason)),))
    assert set(found) == {CheckVerdict.GOOD}


def test_objects_of_any_form_are_no_traceback() -> None:
    odd: tuple[Any, ...] = ({}, {"metadata": []}, {"metadata": {"name": 1}, "status": 3, "spec": "x"})
    for each in odd:
        many = dict.fromkeys(("nodes", "namespaces", "programs"), (each,))
        alike = dict.fromkeys(NAMES, each)
        parts = {"leases": {NAMESPACE: each}, "policies": alike, "bindings": alike}
        parts |= {"endpoints": {NAMESPACE: (each,)}, "webhook": each}
        checks("main", RIGHT._replace(version=each, kinds=each, **many, **parts), NOW)
        namespace = str(at(each, ("metadata", "namespace")))
        checks("main", RIGHT._replace(deployments=(each,), leases={namespace: each}), NOW)


def test_text_of_the_cluster_is_escaped() -> None:
    found = lines(leases={NAMESPACE: lease("\x1b[31mred")})
    assert "\x1b" not in found[CheckVerdict.GOOD]


def test_every_policy_of_the_chart_is_checked_with_its_binding() -> None:
    bindings = {
        each["metadata"]["name"]: each["spec"] for each in installed() if each["kind"].endswith("PolicyBinding")
    }
    names = [each["metadata"]["name"] for each in installed() if each["kind"] == "ValidatingAdmissionPolicy"]
    assert sorted(names) == sorted(bindings) == sorted(NAMES)
    assert bindings == {policy.name: binding(policy)["spec"] for policy in policies_of("main")}


def test_the_value_guard_is_about_the_policies_of_the_guard() -> None:
    def bindings(value: str) -> dict[str, Any]:
        try:
            text = rendered("--set", f"guard={value}")
        except MissingError as error:
            pytest.skip(str(error))
        objects = [each for each in yaml.safe_load_all(text) if each]
        return {each["metadata"]["name"]: each for each in objects if each["kind"].endswith("PolicyBinding")}

    of_guard = {policy.name for policy in policies_of("main") if policy.is_of_guard}
    assert set(NAMES) - bindings("Off").keys() == of_guard
    shown = checks("main", RIGHT._replace(bindings=bindings("Warn")), NOW)
    assert not is_bad(shown)
    assert sum(check.verdict is CheckVerdict.OPTIONAL for check in shown) == len(of_guard)
