"""A pod's rules as text, and the program that loads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from emitters.hops import hops
from emitters.interception.pod import (
    ArgumentsError,
    PodCaptures,
    PodRules,
    arguments,
    parse_arguments,
    pod_captures,
    rules,
)
from emitters.interception.tables import Family
from emitters.ports import ADM_USER
from solver.place import place
from tests.emitters.interception.namespaces import NEEDS_ROOT, Pair
from tests.system import ROOT
from tests.testbed.mesh.needed import NEEDS_MESH
from tests.testbed.mesh.needs import PATH

GOLDEN = Path(__file__).parent / "golden"
SAMPLE = PodCaptures(frozenset({8082, 9090}), frozenset({8082, 27017, 443}))
PORTS = st.frozensets(st.integers(1, 65535), max_size=20)


@pytest.mark.parametrize(
    ("name", "family"), [("pod.iptables.rules", Family.IPV4), ("pod.ip6tables.rules", Family.IPV6)]
)
def test_golden(name: str, family: Family) -> None:
    path = GOLDEN / name
    text = rules(SAMPLE, "shop/search", family)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_rules_know_no_packet_mark() -> None:
    for family in Family:
        text = rules(SAMPLE, "shop/search", family)
        assert "-m mark" not in text
        assert f"--uid-owner {ADM_USER} " in text


TEXT = """\
app shop
external bank { tcp 443  host "10.9.0.1" }
service search { http 80 -> 8082  grpc 9090 }
service rate { http 9000 -> 9001 }
service store { tcp 27017 }
call search -> rate, store, bank, search:80
policy a = access_log() on search -> rate
policy b = access_log() on search -> bank
policy c = access_log() on search -> search
pin a at egress
pin b at egress
pin c at egress on search -> search
@ingress
policy d = access_log() on * -> search:9090
"""


def test_a_pod_captures_its_enforced_ports_and_both_numbers_of_each_enforced_destination() -> None:
    program = dsl.load_text(TEXT)
    found = pod_captures(hops(program, place(program))["search"])
    assert found == PodCaptures(frozenset({9090}), frozenset({80, 8082, 9000, 9001, 443}))
    assert pod_captures(()) == PodCaptures()


def test_captures_cover_others_port_by_port() -> None:
    assert SAMPLE.covers(PodCaptures(frozenset({9090}), frozenset({443})))
    assert not SAMPLE.covers(PodCaptures(frozenset({443}), frozenset()))
    assert not SAMPLE.covers(PodCaptures(frozenset(), frozenset({9090})))


@given(PORTS, PORTS)
def test_arguments_say_what_the_rules_capture(ingress: frozenset[int], egress: frozenset[int]) -> None:
    captures = PodCaptures(ingress, egress)
    args = arguments("shop/search", captures)
    assert parse_arguments(args) == PodRules("shop/search", captures)
    assert arguments("shop/search", PodCaptures(frozenset(sorted(ingress)), egress)) == args


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "`--service APP/SERVICE` is missing"),
        (["--service"], "`--service` has no value"),
        (["--service", "a/b", "--service", "a/c"], "`--service` is given twice"),
        (["--service", "a b/c"], "`a b/c` is not `APP/SERVICE`"),
        (["--service", "a/b\n-A"], "is not `APP/SERVICE`"),
        (["--service", "a/b/c"], "is not `APP/SERVICE`"),
        (["--service", "a/b", "--ingress", ""], "is not a list of ports"),
        (["--service", "a/b", "--ingress", "80,"], "is not a list of ports"),
        (["--service", "a/b", "--egress", "0"], "is not a list of ports"),
        (["--service", "a/b", "--egress", "65536"], "is not a list of ports"),
        (["--service", "a/b", "--egress", "-j ACCEPT"], "is not a list of ports"),
        (["--service", "a/b", "--egress", "８０"], "is not a list of ports"),
        (["--service", "a/b", "--port", "80"], "`--port` is none of"),
        (["--service", "a/b", "--egress", "1," * 100_000], "more than 100,000 characters"),
    ],
)
def test_other_arguments_are_refused(args: list[str], message: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        parse_arguments(args)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


def _program(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "admc.pod", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_wrong_arguments_end_the_program_before_it_touches_anything() -> None:
    done = _program("rules", "--service", "a/b", "--ingress", "all")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error[ADM960]: `--ingress all`: ")
    done = _program("unknown")
    assert done.returncode == 1
    assert "usage: python -m admc.pod " in done.stderr


def test_the_program_loads_nothing_of_the_compiler_and_so_starts_quickly() -> None:
    code = "import sys, admc.pod.__main__, admc.pod.rules; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = done.stdout
    own = {name for name in modules.split() if name.split(".")[0] in {"admc", "dsl", "solver", "emitters"}}
    assert own <= {
        "admc",
        "admc.pod",
        "admc.pod.__main__",
        "admc.pod.rules",
        "emitters",
        "emitters.ports",
        "emitters.interception",
        "emitters.interception.pod",
        "emitters.interception.tables",
    }
    assert not {"google.protobuf", "kubernetes", "ortools", "typer", "asyncio"} & set(modules.split())


@NEEDS_MESH
@NEEDS_ROOT
def test_the_program_is_run_again_and_leaves_the_rules_of_others(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        pair.in_pod("iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
        pair.in_pod("ip6tables", "-A", "INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP")
        before = {family: set(pair.rules(family)) for family in Family}
        pair.load_for_pod(SAMPLE)
        loaded = {family: pair.rules(family) for family in Family}
        assert all(before[family] < set(loaded[family]) for family in Family)
        pair.load_for_pod(SAMPLE)
        assert {family: pair.rules(family) for family in Family} == loaded
        pair.in_pod("iptables", "-D", "OUTPUT", "-p", "tcp", "-j", "ADMC_OUT_GATE")
        pair.in_pod("ip6tables", "-t", "nat", "-F", "ADMC_OUT")
        pair.load_for_pod(SAMPLE)
        assert {family: pair.rules(family) for family in Family} == loaded
        with pytest.raises(AssertionError, match=r"ADM963.*rules of `shop/sample` are loaded in this pod"):
            pair.load_for_pod(SAMPLE, "shop/other")
        assert {family: pair.rules(family) for family in Family} == loaded


@NEEDS_MESH
@NEEDS_ROOT
def test_ipv6_belongs_to_the_pod_or_is_left_out(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        listed = pair.in_pod("cat", "/proc/net/if_inet6")
        assert "fd77" in listed
        pair.load_for_pod(SAMPLE)
        assert "inet6 ::6/128" in pair.in_pod("ip", "-6", "addr", "show", "dev", "lo")
    with Pair(tmp_path) as pair:
        pair.in_pod("ip", "-6", "addr", "flush", "dev", "eth0", "scope", "global")
        pair.load_for_pod(SAMPLE)
        assert "::6/128" not in pair.in_pod("ip", "-6", "addr", "show", "dev", "lo"), "it would be its only one"
        assert any("ADMC_IN" in rule for rule in pair.rules(Family.IPV6)), "neighbours have addresses of their link"
    with Pair(tmp_path) as pair:
        pair.in_pod("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        pair.load_for_pod(SAMPLE)
        assert not any("ADMC_IN" in rule for rule in pair.rules(Family.IPV6))


@NEEDS_MESH
@NEEDS_ROOT
def test_an_error_of_one_family_is_an_error(tmp_path: Path) -> None:
    """The tools of the other family do what they always do."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in {
        "ip6tables-restore": "exit 3",
        "ip6tables-save": f'exec {shutil.which("ip6tables-save", path=PATH)} "$@"',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    with Pair(tmp_path) as pair:
        command = [sys.executable, "-m", "admc.pod", "rules", *arguments("shop/sample", SAMPLE)]

        def loaded(path: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["ip", "netns", "exec", pair.pod, "env", f"PATH={path}", *command],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )

        done = loaded(f"{tools}:{os.environ['PATH']}")
        assert done.returncode == 1
        assert "error[ADM962]: `ip6tables-restore -w --noflush` failed with exit code 3: it says nothing" in done.stderr
        (tools / "ip6tables-restore").write_text("#!/bin/sh\ncat >/dev/null\n")
        done = loaded(f"{tools}:{os.environ['PATH']}")
        assert done.returncode == 1
        assert "reported no error, but ADMC_IN, " in done.stderr
        (tools / "ip6tables-save").write_text("#!/bin/sh\nexit 1\n")
        done = loaded(f"{tools}:{os.environ['PATH']}")
        assert done.returncode == 0, "another flavour works"


@NEEDS_MESH
@NEEDS_ROOT
def test_without_a_privilege_the_program_says_so(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        done = subprocess.run(
            [
                *("ip", "netns", "exec", pair.pod),
                *("setpriv", "--bounding-set", "-all", "--inh-caps", "-all"),
                *(sys.executable, "-m", "admc.pod", "rules", *arguments("shop/sample", SAMPLE)),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert "error[ADM961]: rules for IPv4 cannot be loaded here: " in done.stderr
