"""What a pod's containers may do to its redirection."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from admc.kubernetes.inject import security
from emitters.ports import ADM_USER
from tests.cluster.objects import container

DROPPED = {"drop": ["ALL"]}


def judged(own: dict[str, Any], *, keeps_net_raw: bool = False, **pod: Any) -> str:
    spec = {"containers": [{"name": "app", "securityContext": own}], **pod}
    return security.untrusted(spec, keeps_net_raw=keeps_net_raw)


@pytest.mark.parametrize(
    "own",
    [
        {"runAsUser": 1000},
        {"runAsUser": 0, "capabilities": {"drop": ["ALL"]}},
        {"runAsUser": 0, "capabilities": {"drop": ["SETUID", "CHOWN"]}},
        {"runAsUser": 0, "capabilities": {"drop": ["cap_setuid", "fowner"]}},
        {"runAsUser": 0, "capabilities": {"drop": ["SETUID"]}, "allowPrivilegeEscalation": False},
        {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
        {"runAsUser": 1000, "capabilities": {"add": ["NET_RAW"]}},  # injection takes it
        {"runAsUser": 1000, "capabilities": {"add": ["SYS_PTRACE"]}},  # it sees its own processes only
        {"runAsUser": 1000, "runAsNonRoot": False, "privileged": False},
    ],
)
def test_trusted(own: dict[str, Any]) -> None:
    assert judged(own) == ""


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"privileged": True, "runAsUser": 1000}, "container `app` is privileged"),
        ({"runAsUser": 1000, "capabilities": {"add": ["NET_ADMIN"]}}, "container `app` has NET_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["net_admin"], "drop": ["ALL"]}}, "container `app` has NET_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["CAP_NET_ADMIN"]}}, "container `app` has NET_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["ALL"]}}, "container `app` has NET_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["ALL"], "drop": ["ALL"]}}, "container `app` has NET_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["SYS_ADMIN"]}}, "container `app` has SYS_ADMIN"),
        ({"runAsUser": 1000, "capabilities": {"add": ["SETUID"]}}, "container `app` may become any user (root"),
        ({"runAsUser": 0}, "container `app` may become any user (root with SETUID)"),
        ({"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["SETUID"]}}, "container `app` may become any user"),
        ({"runAsUser": 0, "allowPrivilegeEscalation": False}, "container `app` may become any user"),
        (
            {"runAsUser": 0, "capabilities": {"drop": ["SETUID"]}},
            "container `app` may become any user (root with CHOWN and FOWNER",
        ),
        (
            {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "FOWNER"]}},
            "container `app` may become any",
        ),
        *(
            ({"runAsUser": 1000, "capabilities": {"drop": ["ALL"], "add": [name]}}, f"container `app` has {name}")
            for name in ("BPF", "DAC_READ_SEARCH", "PERFMON", "SYS_BOOT", "SYS_MODULE", "SYS_RAWIO")
        ),
        ({"runAsUser": 1000, "procMount": "Unmasked"}, "container `app` may write to the kernel's settings"),
        ({"runAsNonRoot": True}, "container `app` may run as the user of the ADM (its user is not set"),
        ({"runAsNonRoot": True, "capabilities": DROPPED}, "container `app` may run as the user of the ADM"),
        ({"capabilities": DROPPED}, "container `app` may run as the user of the ADM"),
        ({}, "container `app` may become any user (its user is not set"),
        ({"runAsNonRoot": False}, "container `app` may become any user (its user is not set"),
        ({"runAsUser": ADM_USER, "capabilities": DROPPED}, f"container `app` runs as the user of the ADM ({ADM_USER})"),
    ],
)
def test_untrusted(own: dict[str, Any], why: str) -> None:
    assert judged(own).startswith(why)


def test_net_raw_is_in_the_default_set_and_kept_by_annotation() -> None:
    assert judged({"runAsUser": 1000}, keeps_net_raw=True) == "container `app` has NET_RAW"
    assert judged({"runAsUser": 1000, "capabilities": {"drop": ["NET_RAW"]}}, keeps_net_raw=True) == ""
    assert judged({"runAsUser": 1000, "capabilities": {"drop": ["all"]}}, keeps_net_raw=True) == ""


@pytest.mark.parametrize(
    ("pod", "own", "trusted"),
    [
        ({"runAsUser": 0}, {"runAsUser": 1000}, True),
        ({"runAsUser": 1000}, {"runAsUser": 0}, False),
        ({"runAsUser": 1000}, {}, True),
        ({"runAsUser": 1000}, {"runAsUser": None}, True),
        ({"runAsNonRoot": True, "runAsUser": 1000}, {}, True),
        ({"runAsNonRoot": True}, {"runAsUser": 1000, "runAsNonRoot": False}, True),
        ({"runAsNonRoot": True}, {}, False),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, False),
        # Groups are not what the packet filter looks at.
        ({"runAsUser": 1000, "fsGroup": ADM_USER, "runAsGroup": ADM_USER, "supplementalGroups": [ADM_USER]}, {}, True),
        ({"runAsUser": ADM_USER}, {"runAsUser": 1000}, True),
        ({"runAsUser": ADM_USER, "runAsNonRoot": True}, {}, False),
    ],
)
def test_a_container_goes_before_its_pod(pod: dict[str, Any], own: dict[str, Any], trusted: bool) -> None:
    assert (judged(own, securityContext=pod) == "") is trusted


NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("without", "no_new_privileges", "user"),
    [
        ("-setuid", False, ADM_USER),
        ("-setuid", True, 0),
        ("-setuid,-chown", False, 0),
        ("-setuid,-fowner", False, 0),
    ],
)
def test_root_without_setuid_becomes_another_user_by_a_file(
    tmp_path: Path, without: str, no_new_privileges: bool, user: int
) -> None:
    """The kernel, and not only the specification: which of the three things are needed."""
    program = shutil.which("id")
    assert program is not None
    tmp_path.chmod(0o755)
    # A program drops the capabilities, and not Python between fork and exec: gRPC, which other tests start in this
    # process, starts threads in every fork, and they abort it when `subprocess` closes their descriptors.
    limits = ["setpriv", "--bounding-set", without, *(["--no-new-privs"] if no_new_privileges else [])]
    command = [*limits, "sh", "-c", f"cp $0 own; chown {ADM_USER} own; chmod 4755 own; ./own -u", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == str(user), done.stderr


def test_process_namespaces() -> None:
    ptrace = {"runAsUser": 1000, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}
    assert judged({"runAsUser": 1000}, hostPID=True) == "the pod has the process namespace of the host"
    assert "SYS_PTRACE" in judged(ptrace, shareProcessNamespace=True)
    assert judged({"runAsUser": 1000}, shareProcessNamespace=True) == ""


def token(audience: str, name: str = "mine") -> dict[str, Any]:
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": {"audience": audience, "path": "token"}}]}}


@pytest.mark.parametrize("field", ["initContainers", "containers", "ephemeralContainers"])
def test_a_container_that_can_answer_in_the_place_of_the_adm(field: str) -> None:
    mount = {"name": "mine", "mountPath": "/x"}
    spec: dict[str, Any] = {"containers": [container()], "volumes": [token("admc.dev/main")]}
    spec[field] = [*spec.get(field, ()), container("reader", volumeMounts=[mount])]
    assert security.untrusted(spec, keeps_net_raw=True).endswith("has the token by which the server knows the ADM")
    assert security.untrusted(spec, injected=("reader",), keeps_net_raw=True) == (
        ""
        if field != "ephemeralContainers"
        else "an ephemeral container has the token by which the server knows the ADM"
    )
    for other in (token("vault"), {"name": "mine", "emptyDir": {}}, token("admc.dev/main", "other")):
        assert security.untrusted({**spec, "volumes": [other]}, keeps_net_raw=True) == ""


@pytest.mark.parametrize("field", ["initContainers", "containers"])
def test_every_container_counts(field: str) -> None:
    spec: dict[str, Any] = {"containers": [container()], "initContainers": [container("first")]}
    assert security.untrusted(spec, keeps_net_raw=False) == ""
    spec[field].append({"name": "root", "securityContext": {"privileged": True}})
    assert security.untrusted(spec, keeps_net_raw=False) == "container `root` is privileged"


def test_ephemeral_containers_come_after_injection() -> None:
    """Their names are random, and no fact has a random name."""
    spec = {"containers": [container()], "ephemeralContainers": [{"name": "debugger-x7k2p", "image": "busybox"}]}
    assert security.untrusted(spec, keeps_net_raw=False) == "an ephemeral container has NET_RAW"
    spec["ephemeralContainers"] = [container("admc-proxy", securityContext={"privileged": True})]
    assert security.untrusted(spec, injected=("admc-proxy",), keeps_net_raw=True).endswith("is privileged")


def test_containers_of_injection_are_left_out_and_others_are_not() -> None:
    spec = {"containers": [container()], "initContainers": [{"name": "admc-proxy", "image": "envoy"}]}
    assert security.untrusted(spec, injected=("admc-proxy",), keeps_net_raw=True) == ""
    assert security.untrusted(spec, keeps_net_raw=True) == "container `admc-proxy` has NET_RAW"


@pytest.mark.parametrize(
    ("metadata", "spec", "why"),
    [
        ({}, {}, ""),
        ({"annotations": {"kubernetes.io/config.mirror": "3f2"}}, {}, "mirror pod"),
        ({}, {"os": {"name": "windows"}}, "Windows"),
        ({}, {"nodeSelector": {"kubernetes.io/os": "windows"}}, "Windows"),
        ({}, {"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"}}, ""),
    ],
)
def test_hosts(metadata: dict[str, Any], spec: dict[str, Any], why: str) -> None:
    assert security.hosts_no_adm(metadata, spec) == why


@pytest.mark.parametrize(("level", "forbids"), [("baseline", True), ("restricted", True), ("privileged", False)])
def test_namespaces(level: str, forbids: bool) -> None:
    assert bool(security.forbids_adms({security.POD_SECURITY: level})) is forbids
    assert security.forbids_adms({"pod-security.kubernetes.io/warn": level}) == ""
