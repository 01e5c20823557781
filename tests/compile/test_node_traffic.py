"""`admc compile` and `admc check` warn of a service on the host's network beside closed destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from admc.compile.plan.read import from_json
from tests.cli.command import Admc

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM: Final = """app shop
service web { http 80 }
service db { tcp 5432  no adm }
service cache { tcp 6379 }
service agent { http 9100  host_network }
call web -> db, cache
policy only = allow(callers: [web]) on * -> db
policy few = connection_rate_limit(connections: 9, per: 1s) on web -> cache
"""
FREE: Final = (("tcp 5432  no adm", "tcp 5432"), ("on web -> cache", "on web -> cache\npin few at egress"))
"""Both ends may enforce `only`, and `web` needs an ADM anyway."""


def changed(*edits: tuple[str, str]) -> str:
    text = PROGRAM
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "compiling", "checking"),
    [
        (PROGRAM, True, True),
        (changed(*FREE), True, False),
        (changed(*FREE, ("policy only", "@ingress\npolicy only")), False, False),
        (PROGRAM + "accept host_network\n", False, False),
        (changed(("  host_network", "")), False, False),
        (changed(("on * -> db", "on web -> cache")), False, False),
    ],
    ids=["only egress", "by choice", "at ingress", "accepted", "no such service", "nothing closed"],
)
def test_a_warning_names_the_service_and_the_closed_destination(
    text: str, compiling: bool, checking: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.adm"
    path.write_text(text)
    for command, warns in (("compile", compiling), ("check", checking)):
        run = Admc(capfd)(command, path)
        assert run.code == 0
        sentence = (
            "`agent` is on the host's network, and on a node of `db` it passes the NetworkPolicy that closes `db`"
        )
        assert (sentence in " ".join((run.out + run.err).split())) is warns
        assert Admc(capfd)(command, path, "--warnings-as-errors").code == int(warns)
    warnings = from_json(path.with_name("p.plan.json").read_bytes()).warnings
    assert [(warning.code, warning.line and warning.line.line) for warning in warnings] == [("ADM785", 5)] * compiling


def test_several_closed_destinations_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.adm"
    path.write_text(changed(("on * -> db", "on * -> {db, cache}"), ("6379", "6379  no adm"), ("policy few", "// few")))
    assert "closes `cache` (and 1 more)" in " ".join(Admc(capfd)("check", path).out.split())
