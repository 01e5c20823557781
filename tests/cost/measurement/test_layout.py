"""The application of a measurement: the configuration of each arm is what admc emits, and real Envoys accept it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from admc.cost.measurement.layout import DIRECT, Arm, Layout
from admc.cost.measurement.session import arms
from admc.cost.measurement.uses import of_prelude
from admc.testbed.envoys import envoy_binary
from dsl.program import Protocol, Side
from emitters.envoy import Mode


def _layout(mode: Mode, folder: Path) -> Layout:
    return Layout(arms(tuple(Protocol), of_prelude()), mode, (100, 4096), folder / "tapped")


@pytest.mark.parametrize(
    "mode", [Mode.REDIRECT, *(pytest.param(each, marks=pytest.mark.long) for each in (Mode.EXPLICIT, Mode.POD))]
)
def test_a_real_envoy_accepts_all_arms(mode: Mode, tmp_path: Path) -> None:
    binary = envoy_binary()
    assert binary is not None
    layout = _layout(mode, tmp_path)
    files = layout.files()
    for pod in layout.pods:
        path = tmp_path / f"{pod}.yaml"
        path.write_bytes(files[f"{pod}/bootstrap.yaml"])
        command = [binary, "--mode", "validate", "-c", str(path), "--log-level", "error"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
    for arm in layout.arms:
        side = "ingress" if arm.side is Side.INGRESS else "egress/target:"
        content = files[f"{arm.pod}/bootstrap.yaml"].decode()
        assert f"{side}{'/' if side == 'ingress' else ''}{layout.ports[arm.name].number}" in content


def test_a_bare_hop_is_measured_in_a_sidecar_without_components(tmp_path: Path) -> None:
    """Beside sixty other hops it takes up to 38% more CPU than in the sidecar of one service."""
    layout = _layout(Mode.REDIRECT, tmp_path)
    for pod, hops in layout.hops.items():
        policies = [hop.policies for hop in hops]
        assert len(hops) == 2 if not any(policies) else policies.count(()) == 1, pod


@pytest.mark.long
def test_redirection_takes_the_ports_of_all_arms_and_no_other(tmp_path: Path) -> None:
    layout = _layout(Mode.REDIRECT, tmp_path)
    files = layout.files()
    for arm in layout.arms:
        rules = files[f"{arm.pod}/iptables.rules"].decode()
        assert f"--dport {layout.ports[arm.name].number} " in rules
        for port in DIRECT.values():
            assert f"--dport {port} " not in rules


@pytest.mark.long
def test_without_redirection_no_rules_are_emitted(tmp_path: Path) -> None:
    layout = _layout(Mode.EXPLICIT, tmp_path)
    assert set(layout.files()) == {f"{pod}/bootstrap.yaml" for pod in layout.pods}


@pytest.mark.parametrize("mode", list(Mode))
def test_the_way_past_the_sidecar_begins_and_ends_alike(mode: Mode, tmp_path: Path) -> None:
    layout = _layout(mode, tmp_path)
    listening = {
        (place, each["address"], each["port"])
        for place, config in layout.services().items()
        for each in config["listen"]
    }
    for arm in layout.arms:
        through, past = layout.through(arm), layout.past(arm)
        assert through.sender == past.sender == ("caller" if arm.side is Side.INGRESS else arm.pod)
        assert (through.protocol, through.headers) == (past.protocol, past.headers)
        assert past.port == DIRECT[arm.protocol]
        own = "" if mode.redirected else past.address
        assert ("target", own, past.port) in listening


def test_no_process_listens_where_a_sidecar_does_without_redirection(tmp_path: Path) -> None:
    layout = _layout(Mode.EXPLICIT, tmp_path)
    dialled = {(layout.through(arm).address, layout.through(arm).port) for arm in layout.arms}
    listening = {(each["address"], each["port"]) for config in layout.services().values() for each in config["listen"]}
    assert not dialled & listening


def test_policies_of_the_same_hop_keep_their_order(tmp_path: Path) -> None:
    uses = [use for use in of_prelude() if use.protocol is Protocol.HTTP and use.side is Side.INGRESS][:4]
    layout = Layout((Arm("x", "pod", Side.INGRESS, Protocol.HTTP, tuple(uses)),), Mode.REDIRECT, (100,), tmp_path)
    (hop,) = layout.hops["pod"]
    assert [policy.kind.name for policy in hop.policies] == [use.kind.name for use in uses]


def test_at_egress_the_pod_itself_is_the_caller_that_is_allowed(tmp_path: Path) -> None:
    allow = next(use for use in of_prelude() if use.kind.name == "allow")
    arms = [Arm(side.value, "pod", side, allow.protocol, (allow,)) for side in Side]
    policies = Layout(tuple(arms), Mode.REDIRECT, (100,), tmp_path).program.policies
    assert [policy.arguments["callers"] for policy in policies] == [("caller",), ("pod",)]
