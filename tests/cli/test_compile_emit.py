"""`compile --emit`: the configuration, and errors in its inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from admc.__main__ import main
from tests.cli.programs import SHOP, write


def addresses(path: Path, **changes: object) -> Path:
    services = {
        name: {"addresses": [f"10.0.0.{number}"], "pods": [f"10.1.0.{number}"]}
        for number, name in enumerate(("frontend", "search", "geo", "rate", "mongo_rate"), start=1)
    }
    path.write_text(
        json.dumps({"services": services, "externals": {"internet": {"addresses": ["0.0.0.0/0"]}}, **changes})
    )
    return path


def test_the_configuration_of_every_adm(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    said = capfd.readouterr().out
    assert "loopback addresses" in said
    plan = json.loads(program.with_name("policies.plan.json").read_text())
    for adm in plan["adms"]:
        assert yaml.safe_load((out / adm["service"] / "bootstrap.yaml").read_text())["static_resources"]
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    assert " 0 files written" in capfd.readouterr().out
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ("out/search/bootstrap.yaml", "ADM801"),
        ("out/../out/search/bootstrap.yaml", "ADM801"),
        ("out/.admc-manifest.json", "ADM801"),
        ("folder", "ADM803"),
        ("policies.adm", "ADM803"),
        ("link", "ADM803"),
        ("none/plan.json", "ADM803"),
    ],
)
def test_a_plan_that_cannot_be_written_leaves_the_configuration_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], plan: str, code: str
) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for there in (False, True):
        if there:
            assert main(["compile", str(program), "--emit", str(out)]) == 0
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        capfd.readouterr()
        asked = ["compile", str(program), "--emit", str(out), "--xds", "127.0.0.1:5", "-o", str(tmp_path / plan)]
        assert main(asked) == 1
        assert f"error[{code}]" in capfd.readouterr().err
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_plan_may_lie_in_the_folder_that_is_made(tmp_path: Path) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    assert main(["compile", str(program), "--emit", str(out), "-o", str(out / "plan.json")]) == 0
    assert (out / "plan.json").is_file()


def test_one_file_is_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    (out / "search" / "bootstrap.yaml").unlink()
    capfd.readouterr()
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    assert ": 1 file written, " in capfd.readouterr().out


def test_what_is_no_longer_wanted_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    assert (out / "search").is_dir()
    write(tmp_path, "\n".join(line for line in SHOP.splitlines() if not line.startswith("policy")) + "\n")
    assert main(["compile", str(program), "--emit", str(out)]) == 0
    assert not (out / "search").exists()
    assert "removed" in capfd.readouterr().out


def test_with_endpoints_traffic_is_redirected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    endpoints = addresses(tmp_path / "endpoints.json")
    assert main(["compile", str(program), "--emit", str(out), "--endpoints", str(endpoints)]) == 0
    assert "loopback" not in capfd.readouterr().out
    assert (out / "search" / "iptables.rules").is_file()
    plan = program.with_name("policies.plan.json").read_bytes()
    assert main(["compile", str(program)]) == 0
    assert program.with_name("policies.plan.json").read_bytes() == plan


@pytest.mark.parametrize("content", ["", "[]", "\x00", '{"services": {"serach": {}}}', '{"services": 3}'])
def test_an_endpoints_file_that_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    endpoints = tmp_path / "endpoints.json"
    endpoints.write_text(content)
    assert main(["compile", str(program), "--emit", str(out), "--endpoints", str(endpoints)]) == 1
    assert "error[ADM" in capfd.readouterr().err
    assert not out.exists()
    assert not program.with_name("policies.plan.json").exists()


TWO_SERVICES = """app shop
external internet
service api       { http 8080 }
service api_admin { http 9090 }
call internet -> api, api_admin
policy closed  = deny() on * -> api
policy closed2 = deny() on * -> api_admin
"""


def test_two_services_of_one_pod_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both would load their rules in one network namespace, and one of the two guards would be enforced nowhere."""
    program, out = write(tmp_path, TWO_SERVICES), tmp_path / "out"
    endpoints = tmp_path / "endpoints.json"
    located = {
        "api": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1", "10.1.0.7"]},
        "api_admin": {"addresses": ["10.0.0.2"], "pods": ["10.1.0.2", "::ffff:10.1.0.7"]},
    }
    endpoints.write_text(json.dumps({"services": located}))
    assert main(["compile", str(program), "--emit", str(out), "--endpoints", str(endpoints)]) == 1
    said = capfd.readouterr().err
    assert "error[ADM724]" in said
    assert "`api` and `api_admin` both have the pod `10.1.0.7`" in said
    assert "declare one service with the ports of both" in said
    assert not out.exists()
    located["api_admin"]["pods"] = ["10.1.0.2"]
    endpoints.write_text(json.dumps({"services": located}))
    assert main(["compile", str(program), "--emit", str(out), "--endpoints", str(endpoints)]) == 0


def test_what_envoy_cannot_express_is_exit_3_and_writes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsl.diagnostics.diagnostic import Diagnostic, Severity
    from emitters import output
    from emitters.errors import EmitError

    def refuse(*_arguments: object, **_named: object) -> dict[str, bytes]:
        raise EmitError([Diagnostic("ADM701", Severity.ERROR, "too many combinations of matches", None)])

    monkeypatch.setattr(output, "files", refuse)
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    assert main(["compile", str(program), "--emit", str(out)]) == 3
    assert "ADM701" in capfd.readouterr().err
    assert not out.exists()
    assert not program.with_name("policies.plan.json").exists()


def test_a_folder_that_cannot_be_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = write(tmp_path, SHOP)
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for out in (taken, taken / "below"):
        assert main(["compile", str(program), "--emit", str(out)]) == 1
        assert "ADM803" in capfd.readouterr().err
    assert taken.read_text() == "a file"


def test_labels_that_no_network_policy_can_tell_apart_are_found_without_emit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """app shop
service a { http 80 }
service pg_catalog, pg_orders { tcp 5432  no adm  labels { tier = "data" } }
call a -> pg_catalog, pg_orders
policy log = access_log() on * -> pg_*
"""
    path = write(tmp_path, text)
    assert main(["compile", str(path)]) == 3
    said = capfd.readouterr().err
    assert said.count("ADM784") == 1
    assert "at ingress" not in said, "a service that hosts no ADM has no ingress"
    assert not path.with_suffix(".plan.json").exists()
    for labels in ("", 'labels { app  tier = "data" }'):
        write(tmp_path, text.replace('labels { tier = "data" }', labels))
        assert main(["compile", str(path)]) == 0


def test_a_pin_avoids_a_closing_that_labels_cannot_say(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """app shop
network_policies enforced
service a { http 80 }
service pg, pg_old { tcp 5432  labels { tier = "data" } }
call a -> pg
policy only = allow(callers: [a]) on * -> pg
"""
    path = write(tmp_path, text)
    assert main(["compile", str(path)]) == 3
    assert "or write `pin only at ingress`, so that nothing needs to be closed" in capfd.readouterr().err
    write(tmp_path, text + "pin only at ingress\n")
    assert main(["compile", str(path)]) == 0


def test_a_label_without_a_value_selects_the_pods_of_its_own_service(tmp_path: Path) -> None:
    text = """app shop
service a { http 80 }
service pg_catalog, pg_orders { tcp 5432  no adm  labels { app  tier = "data" } }
call a -> pg_catalog, pg_orders
policy log = access_log() on * -> pg_*
"""
    assert main(["compile", str(write(tmp_path, text)), "--emit", str(tmp_path / "out")]) == 0
    (emitted,) = [
        path.read_text() for path in (tmp_path / "out").rglob("*.yaml") if "NetworkPolicy" in path.read_text()
    ]
    closed = [item["spec"]["podSelector"]["matchLabels"] for item in yaml.safe_load_all(emitted)]
    assert closed == [{"app": name, "tier": "data"} for name in ("pg_catalog", "pg_orders")]


@pytest.mark.parametrize("command", ["compile", "explain", "graph"])
def test_what_no_envoy_can_express_is_found_by_every_command_that_solves(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    text = "app shop\nservice a, b { http 80 }\ncall a -> b\npolicy p = load_balancing(policy: maglev) on a -> b\n"
    path = write(tmp_path, text)
    assert main([command, str(path)]) == 3
    assert capfd.readouterr().err.count("ADM709") == 1
    write(tmp_path, text.replace("maglev", 'maglev, hash: "x-user"'))
    assert main([command, str(path)]) == 0


TLS = ["--xds", "admc:18000", "--xds-ca", "/run/admc/ca.crt"]
OWN = ["--xds-cert", "/run/admc/tls.crt", "--xds-key", "/run/admc/tls.key"]


@pytest.mark.parametrize("proof", [OWN, ["--xds-token", "/run/admc/token"]], ids=["a certificate", "a token"])
def test_paths_of_a_pod_are_written_as_they_are_given(
    proof: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = write(tmp_path, SHOP)
    emitted = []
    for folder in ("here", "there/below"):
        out = tmp_path / folder
        options = ["--emit", str(out), *TLS, *proof, "--xds-files", "/etc/admc"]
        assert main(["compile", str(program), *options]) == 0
        assert "--xds-files" not in capfd.readouterr().out
        emitted.append({str(path.relative_to(out)): path.read_text() for path in out.rglob("*.yaml")})
    assert emitted[0] == emitted[1], "the output does not depend on the folder"
    content = "".join(emitted[0].values())
    assert str(tmp_path) not in content
    given = {"/etc/admc/xds-authority.yaml", *(word for word in (*TLS, *proof) if word.startswith("/run"))}
    assert {path for path in given if path not in content} == set()


def test_without_a_folder_the_files_are_where_they_are_emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, SHOP)
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "policies.adm", "--emit", "out", *TLS, *OWN]) == 0
    assert "name the new folder with `--xds-files DIR`" in capfd.readouterr().out
    for path in tmp_path.glob("out/*/bootstrap-xds.yaml"):
        for name in ("xds-authority.yaml", "xds-certificate.yaml"):
            assert str(path.with_name(name)) in path.read_text()
            assert path.with_name(name).is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--xds", "admc:1", "--xds-files", "/etc/admc"], "`--xds-files` is for TLS"),
        ([*TLS, "--xds-files", "admc"], "`--xds-files` needs the absolute path of a folder, and `admc` is not one"),
        (["--xds-files", "/etc/admc"], "needs `--xds HOST:PORT`"),
    ],
)
def test_a_folder_of_the_adms_goes_with_tls(
    options: list[str], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = write(tmp_path, SHOP)
    assert main(["compile", str(program), "--emit", str(tmp_path / "out"), *options]) == 1
    assert words in capfd.readouterr().err
