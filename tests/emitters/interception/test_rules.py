"""The rules files as text: golden for one ADM, and clean for any name."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emitters.interception.captures import EgressCapture, IngressCapture, Interception, Probe, Reached
from emitters.interception.rules import remove_file, restore_file
from emitters.interception.script import script
from emitters.interception.tables import Family

GOLDEN = Path(__file__).parent / "golden"

SAMPLE = Interception(
    app="shop",
    service="search",
    ingress=(IngressCapture(8082, ("search_quota", "who_reads")), IngressCapture(9090, ("who_reads",))),
    egress=(
        EgressCapture("geo", Reached.SERVICE_ADDRESS, ipaddress.ip_network("10.96.0.2"), 8083, ("flaky_geo",)),
        EgressCapture("geo", Reached.SERVICE_ADDRESS, ipaddress.ip_network("fd96::2"), 8083, ("flaky_geo",)),
        EgressCapture("geo", Reached.POD_ADDRESS, ipaddress.ip_network("10.1.0.2"), 9083, ("flaky_geo",)),
        EgressCapture("registry", Reached.PORT, None, 8500, ("slow_registry",)),
        EgressCapture("registry_2", Reached.PORT, None, 8500, ("log",)),
        EgressCapture("search", Reached.POD_ADDRESS, ipaddress.ip_network("10.1.0.1"), 8082, ("log",)),
    ),
    refused_to_self=(8082,),
    probes=(Probe("10.0.0.5", 8082), Probe("fd00::5", 8082)),
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iptables.rules", restore_file(SAMPLE, Family.IPV4)),
        ("ip6tables.rules", restore_file(SAMPLE, Family.IPV6)),
        ("remove.rules", remove_file()),
        ("interception.sh", script()),
    ],
)
def test_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


_LINE = re.compile(
    r"-[AI] [A-Z_]+( [a-zA-Z0-9!./:,_-]+)+|:[A-Z_]+ - \[0:0\]|\*(nat|filter)|COMMIT|# [\w '?.,:/-]*", re.A
)
_OWNER = re.compile(r"-A ADMC_OUT -m comment --comment [A-Za-z0-9_.:/-]{1,255}", re.A)
ANY = st.text(max_size=20)


@given(ANY, ANY, ANY, ANY)
def test_names_cannot_become_rules(app: str, service: str, destination: str, policy: str) -> None:
    capture = EgressCapture(destination, Reached.PORT, None, 443, (policy,))
    for family in Family:
        text = restore_file(Interception(app, service, (IngressCapture(80, (policy,)),), (capture,)), family)
        plain = restore_file(
            Interception(
                "a", "s", (IngressCapture(80, ("p",)),), (EgressCapture("d", Reached.PORT, None, 443, ("p",)),)
            ),
            family,
        )
        assert all(_LINE.fullmatch(line) for line in text.split("\n")[:-1])
        assert [_without_names(line) for line in text.split("\n")] == [
            _without_names(line) for line in plain.split("\n")
        ]


def _without_names(line: str) -> str:
    """What a line does: comments do nothing, and neither does the rule that says whose the rules are."""
    return "" if line.startswith("#") else _OWNER.sub("", line)


def test_each_service_has_a_name_of_its_own_in_the_rules() -> None:
    parties = [("a", "b/c"), ("a/b", "c"), ("a", "b c"), ("a", "b?c"), ("a", "b" * 300), ("a", "b" * 301), ("a", "b")]
    named = {
        next(
            line for line in restore_file(Interception(app, name, (), ()), Family.IPV4).splitlines() if "--com" in line
        )
        for app, name in parties
    }
    assert len(named) == len(parties)
    assert all(_OWNER.fullmatch(line) for line in named)


def test_the_script_fails_where_the_rules_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "interception.sh"
    path.write_text(script())
    done = subprocess.run(["sh", str(path), "apply"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "iptables.rules is missing" in done.stderr


def test_the_script_is_a_shell_script_that_says_how_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "interception.sh"
    path.write_text(script())
    subprocess.run(["sh", "-n", str(path)], check=True)
    done = subprocess.run(["sh", str(path), "flush"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "apply|remove" in done.stderr
