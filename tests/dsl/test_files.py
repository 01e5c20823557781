"""Files that a program uses: each is read within limits, or gives an error."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.files import folders
from tests.dsl.programs import codes, findings, load


def _codes(path: Path) -> list[str]:
    with pytest.raises(ProgramError) as caught:
        dsl.load(path)
    return [finding.code for finding in caught.value.diagnostics]


def test_paths_are_relative_to_the_file_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "shared" / "kinds.adm").write_text(
        '@ingress\nkind own(max: int) for http template "own.yaml"\nuse "../lib/more.adm"\n'
    )
    (tmp_path / "shared" / "own.yaml").write_text("max: ${max}\n")
    (tmp_path / "lib" / "more.adm").write_text("service b { http 80 }\n")
    main = tmp_path / "app" / "policies.adm"
    main.write_text(
        'app x\nuse "../shared/kinds.adm"\nservice a { http 80 }\ncall a -> b\npolicy p = own(3) on a -> b\n'
    )
    program = dsl.load(main, include=[tmp_path / "lib", tmp_path / "shared"])
    assert [item.path for item in program.inputs] == [
        "policies.adm",
        "../lib/more.adm",
        "../shared/kinds.adm",
        "../shared/own.yaml",
    ]
    template = program.policies[0].kind.template
    assert template is not None
    assert (template.path, template.text) == ("../shared/own.yaml", "max: ${max}\n")
    assert str(program.services["b"].span) == "../lib/more.adm:1:9"


def test_the_working_directory_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = tmp_path / "policies.adm"
    main.write_text("app x\n")
    first = dsl.load(main).inputs
    monkeypatch.chdir(tmp_path)
    assert dsl.load(Path("policies.adm")).inputs == first


@pytest.mark.parametrize("content", [b"\xff\xfe\x00a", b"app \xc3\x28\n", b"\x7fELF\0\0", b"app x\n\0\n"])
def test_binary_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "policies.adm"
    path.write_bytes(content)
    assert _codes(path) == ["ADM502"]


def test_a_file_of_100_mb_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    start = time.process_time()
    assert _codes(path) == ["ADM503"]
    assert time.process_time() - start < 1


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.adm")
    (tmp_path / "folder.adm").mkdir()
    for name in ("pipe.adm", "folder.adm", "missing.adm"):
        assert _codes(tmp_path / name) == ["ADM501"]
        main = tmp_path / "policies.adm"
        main.write_text(f'app x\nuse "{name}"\n')
        assert _codes(main) == ["ADM501"]


def test_the_folder_of_a_program_is_a_folder_and_no_link_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "p.adm").write_text(
        'app x\nservice a, b { http 80 }\ncall a -> b\npolicy p = lua(script: ".") on a -> b\n'
    )
    with pytest.raises(ProgramError, match=r"cannot read `\.`: it is a folder"):
        dsl.load(tmp_path / "p.adm")


def test_a_missing_file_hides_no_other_error_and_makes_none() -> None:
    text = 'app x\nuse "missing.adm"\ncall a -> b\npolicy p = own() on a -> b\npin q at ingress\nservice c { http 0 }\n'
    assert codes(text) == ["ADM501", "ADM203"]


def test_used_files_keep_the_order_of_policies() -> None:
    files = {
        "a.adm": b'policy a1 = access_log() on s -> t\nuse "b.adm"\npolicy a2 = access_log() on s -> t\n',
        "b.adm": b"policy b1 = access_log() on s -> t\n",
    }
    text = (
        "app x\nservice s, t { http 80 }\ncall s -> t\npolicy first = access_log() on s -> t\n"
        'use "a.adm"\nuse "b.adm"\npolicy last = access_log() on s -> t\n'
    )
    assert [policy.name for policy in load(text, files).policies] == ["first", "a1", "b1", "a2", "last"]


def test_errors_in_used_files_point_there() -> None:
    (finding,) = findings('app x\nuse "a.adm"\n', {"a.adm": b"\nservice b { http }\n"})
    assert str(finding.span) == "a.adm:2:18"


@pytest.mark.parametrize("path", ["/etc/passwd", "~/x.adm", "C:/x.adm", "a\\\\b.adm", "", "folder/", "a\\nb"])
def test_paths_that_are_refused(path: str) -> None:
    assert codes(f'app x\nuse "{path}"\n') == ["ADM504"]


def test_a_program_from_memory_reads_no_files() -> None:
    with pytest.raises(ProgramError) as caught:
        dsl.load_text('app x\nuse "/etc/x"\nuse "kinds.adm"\n')
    assert [finding.code for finding in caught.value.diagnostics] == ["ADM504", "ADM501"]


def test_the_folder_of_a_program_has_no_effect() -> None:
    program = dsl.load_text('app x\nuse "k/a.adm"\n', "some/where/main.adm", {"k/a.adm": b""}.__getitem__)
    assert [item.path for item in program.inputs] == ["main.adm", "k/a.adm"]


def test_the_place_of_a_wrong_byte(tmp_path: Path) -> None:
    (tmp_path / "a.adm").write_bytes("app x\n// é\n// ".encode() + b"\xff\n")
    with pytest.raises(ProgramError) as caught:
        dsl.load(tmp_path / "a.adm")
    assert str(caught.value.diagnostics[0].span) == "a.adm:3:4"


def test_surrogates_are_no_text() -> None:
    with pytest.raises(ProgramError) as caught:
        dsl.load_text("app x\ud800\n")
    assert [finding.code for finding in caught.value.diagnostics] == ["ADM502"]


TOPOLOGY = b"""{
 "app": "other", "source": "measured",
 "externals": ["internet", {"name": "stripe", "protocol": "tcp", "port": 443, "hosts": ["api.stripe.com"]}],
 "services": [
  {"name": "web", "protocol": "http", "port": 80, "target": 8080, "replicas": 2, "labels": {"tier": "front"}},
  {"name": "api", "ports": [{"protocol": "grpc", "port": 90}, {"name": "admin", "protocol": "http", "port": 91}]},
  {"name": "db", "protocol": "tcp", "port": 5432, "adm": false, "capacity": 0.5, "namespace": "data"}
 ],
 "calls": [
  {"source": "internet", "destination": "web", "rate": 800, "size": 350},
  {"source": "web", "destination": "api", "port": "admin", "rate": "20/m", "size": "2KB"},
  {"source": "api", "destination": "db", "rate": 0.25}
 ]
}"""


def test_a_topology_is_equivalent_to_a_program() -> None:
    text = """app x
external internet
external stripe { tcp 443  host "api.stripe.com" }
service web { http 80 -> 8080  replicas 2  labels { tier = "front" } }
service api { grpc 90  http admin 91 }
service db { tcp 5432  no adm  capacity 0.5  namespace data }
call internet -> web { rate 800/s  size 350B }
call web -> api:admin { rate 20/m  size 2KB }
call api -> db { rate 0.25/s }
"""
    written = load(text)
    read = load('app x\ntopology "t.json"\n', {"t.json": TOPOLOGY})
    assert [call[:3] + call[4:] for call in read.calls] == [call[:3] + call[4:] for call in written.calls]
    for name, service in written.services.items():
        other = read.services[name]
        fields = [field for field in service.__dataclass_fields__ if field not in ("span", "note")]
        assert [getattr(service, field) for field in fields] == [getattr(other, field) for field in fields]
        assert other.span.text == name
    for name, external in written.externals.items():
        assert read.externals[name].hosts == external.hosts
        assert read.externals[name].ports == external.ports
        assert read.externals[name].span.text == name
    assert str(read.calls[0].span) == "t.json:11:15"


@pytest.mark.parametrize(
    ("topology", "code", "place"),
    [
        (b"", "ADM506", "1:1"),
        (b'{"services": [\n{"name": "a",}]}', "ADM506", "2:14"),
        (b"[" * 100_000, "ADM506", "1:1"),
        (b'{"services": NaN}', "ADM506", "1:1"),
        (b'{"services": [{"name": "a", "port": ' + b"9" * 5000 + b"}]}", "ADM506", "1:1"),
        (b"[]", "ADM507", "1:1"),
        (b'{"services": {}}', "ADM507", "1:1"),
        (b'{"services": [],\n "services": []}', "ADM507", "1:1"),
        (b'{\n"services": [{"name": "a", "name": "b"}]}', "ADM507", "2:1"),
        (b'{\n"services": [{"name": 5}]}', "ADM507", "2:1"),
        (b'{\n"services": [{"name": "a b"}]}', "ADM507", "2:24"),
        (b'{\n"services": [{"name": "a", "protocol": "udp", "port": 1}]}', "ADM507", "2:24"),
        (b'{\n"services": [{"name": "a", "protocol": "http", "port": true}]}', "ADM507", "2:24"),
        (b'{\n"services": [{"name": "a", "protocol": "http", "port": 70000}]}', "ADM203", "2:24"),
        (b'{\n"services": [{"name": "a", "protocol": "http", "port": 1.5}]}', "ADM201", "2:24"),
        (b'{\n"services": [{"name": "a", "labels": {"x": 1}}]}', "ADM507", "2:24"),
        (b'{"services": [{"name": "a"},\n{"name": "a"}]}', "ADM105", "2:11"),
        (b'{"calls": [{"source": "a",\n"destination": "b"}], "services": [{"name": "a"}]}', "ADM101", "2:17"),
    ],
)
def test_invalid_topologies(topology: bytes, code: str, place: str) -> None:
    (finding,) = findings('app x\ntopology "t.json"\n', {"t.json": topology})
    assert finding.code == code
    assert str(finding.span) == f"t.json:{place}"


@pytest.mark.parametrize(
    ("line", "file", "content"),
    [
        ('use ".git/config"', ".git/config", "[remote]\n  token = hunter2\n"),
        ('use "env"', "env", "PASSWORD=hunter2\n"),
        ('use "../key.pem"', "../key.pem", "hunter2\n"),
        ('topology "key.yaml"', "key.yaml", "hunter2: 1\n"),
        ('topology "key.json"', "key.json", '{"private_key": "hunter2"}'),
        ('topology "key.json"', "key.json", '{"services": {"db": "hunter2"}}'),
        ('topology "key.json"', "key.json", '"hunter2"'),
        ('topology "key.json"', "key.json", "{'private_key': 'hunter2'}"),
        ('@ingress\nkind own() for http template "env"', "env", "hunter2: ${x}"),
    ],
)
def test_messages_quote_no_line_of_a_file_that_is_not_a_program(
    tmp_path: Path, line: str, file: str, content: str
) -> None:
    """A proposed program in a build that has secrets, and whose messages are public."""
    (tmp_path / "app" / ".git").mkdir(parents=True)
    (tmp_path / "app" / file).write_text(content)
    assert "hunter2" not in _told(tmp_path / "app" / "policies.adm", f"app x\n{line}\n")


@pytest.mark.parametrize("name", ["policies.adm", "more.adm"])
def test_a_link_leads_to_a_file_of_the_same_sort(tmp_path: Path, name: str) -> None:
    (tmp_path / "env").write_text("PASSWORD=hunter2\n")
    (tmp_path / name).symlink_to("env")
    main = tmp_path / "policies.adm"
    text = None if main.is_symlink() else 'app x\nuse "more.adm"\n'
    assert _codes_of(main, text) == ["ADM501"]
    assert "hunter2" not in _told(main, text)


def test_links_as_mounted_folders_have_them_are_followed(tmp_path: Path) -> None:
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1" / "policies.adm").write_text("app x\n")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policies.adm").symlink_to("..data/policies.adm")
    assert dsl.load(tmp_path / "policies.adm").app == "x"


NAMING = {
    "use": ("use.adm", 'use "{}"\n', "service b { http 80 }  // hunter2\n"),
    "topology": ("t.json", 'topology "{}"\n', '{"services": [{"name": "b", "protocol": "http", "port": 80}]}'),
    "template": ("own.yaml", '@ingress\nkind own() for http template "{}"\n', "hunter2: 1\n"),
    "argument": (
        "f",
        'service s, t {{ http 80 }}\ncall s -> t\npolicy p = lua(script: "{}") on s -> t\n',
        "function envoy_on_request(h) end -- hunter2\n",
    ),
}
"""Each way in which a program names a file: a file's name, the statement, what the file holds."""


@pytest.fixture(params=NAMING)
def naming(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, str]:
    """A program's path beside a folder `shared` with a file, that file's name, and the statement that names one."""
    file, statement, content = NAMING[request.param]
    for name in ("app", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "shared" / file).write_text(content)
    return tmp_path / "app" / "policies.adm", file, statement


def test_a_path_leads_out_of_the_folder_only_where_the_user_says_so(naming: tuple[Path, str, str]) -> None:
    main, file, statement = naming
    main.write_text("app x\n" + statement.format(f"../shared/{file}"))
    assert _codes(main) == ["ADM509"]
    assert "hunter2" not in _told(main, None)
    with pytest.raises(ProgramError) as caught:
        dsl.load(main, include=[main.parent])
    assert [item.code for item in caught.value.diagnostics] == ["ADM509"]
    shared = main.parent.parent / "shared"
    assert str(caught.value.diagnostics[0].hint).endswith(f"`--include {shared}`")
    (main.parent / "other").symlink_to(shared)
    for include in (shared, main.parent / "other", main.parent.parent):
        assert [item.path for item in dsl.load(main, include=[include]).inputs] == [main.name, f"../shared/{file}"]


@pytest.mark.parametrize("link", ["the file", "the folder", "two links"])
def test_a_link_out_of_the_folder_is_no_way_round(naming: tuple[Path, str, str], link: str) -> None:
    main, file, statement = naming
    target = main.parent.parent / "shared" / file
    if link == "the folder":
        (main.parent / "in").symlink_to(target.parent)
    else:
        (main.parent / "in").mkdir()
        (main.parent / "in" / file).symlink_to(target if link == "the file" else main.parent / f"way-{file}")
        (main.parent / f"way-{file}").symlink_to(target)
    main.write_text("app x\n" + statement.format(f"in/{file}"))
    assert _codes(main) == ["ADM509"]
    assert "hunter2" not in _told(main, None)
    assert [item.path for item in dsl.load(main, include=[target.parent]).inputs] == [main.name, f"in/{file}"]


def test_a_link_out_of_an_included_folder_is_reported_as_a_link(tmp_path: Path) -> None:
    for name in ("app", "shared", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "more.adm").write_text("")
    (tmp_path / "shared" / "more.adm").symlink_to("../other/more.adm")
    main = tmp_path / "app" / "policies.adm"
    main.write_text('app x\nuse "../shared/more.adm"\n')
    with pytest.raises(ProgramError, match="is a link") as caught:
        dsl.load(main, include=[tmp_path / "shared"])
    assert [item.code for item in caught.value.diagnostics] == ["ADM509"]
    assert dsl.load(main, include=[tmp_path / "shared", tmp_path / "other"]).app == "x"


def test_a_folder_whose_name_only_begins_alike_is_another_one(tmp_path: Path) -> None:
    for name in ("app", "app2"):
        (tmp_path / name).mkdir()
    (tmp_path / "app2" / "more.adm").write_text("")
    (tmp_path / "app" / "more.adm").symlink_to("../app2/more.adm")
    assert _codes_of(tmp_path / "app" / "policies.adm", 'app x\nuse "more.adm"\n') == ["ADM509"]


def test_a_program_is_no_link_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "policies.adm").write_text("app hunter2\nhunter2\n")
    main = tmp_path / "app" / "policies.adm"
    main.symlink_to("../policies.adm")
    assert _codes(main) == ["ADM509"]
    assert "hunter2" not in _told(main, None)


def test_a_path_from_a_folder_below_may_lead_up_to_the_program(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "more.adm").write_text("service b { http 80 }\n")
    (tmp_path / "below" / "kinds.adm").write_text('use "../more.adm"\n')
    main = tmp_path / "policies.adm"
    main.write_text('app x\nuse "below/kinds.adm"\n')
    assert list(dsl.load(main).services) == ["b"]
    (tmp_path / "below" / "kinds.adm").write_text('use "../../more.adm"\n')
    assert _codes(main) == ["ADM509"]


def test_files_of_a_mounted_folder_are_read_before_and_after_it_is_replaced(tmp_path: Path) -> None:
    for version in ("..1", "..2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policies.adm").write_text('app x\nuse "more.adm"\n')
        (tmp_path / version / "more.adm").write_text(f"service s{version[2:]} {{ http 80 }}\n")
    (tmp_path / "..data").symlink_to("..1")
    for name in ("policies.adm", "more.adm"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    assert list(dsl.load(tmp_path / "policies.adm").services) == ["s1"]
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert list(dsl.load(tmp_path / "policies.adm").services) == ["s2"]


@pytest.mark.parametrize("place", ["in", "in/f.adm"])
def test_a_link_that_appears_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A link replaces a folder, or the file, after the check of a path and before the file is opened."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f.adm").write_text("app hunter2\n")
    (tmp_path / "app" / "in").mkdir(parents=True)
    (tmp_path / "app" / "in" / "f.adm").write_text("app right\n")
    swapped, resolved = tmp_path / "app" / place, folders.resolved

    def late(*given: object) -> object:
        found = resolved(*given)  # type: ignore[arg-type]  # handed on as it came
        if not swapped.is_symlink():
            swapped.rename(tmp_path / "app" / "before")
            swapped.symlink_to(tmp_path / place.replace("in", "out"))
        return found

    monkeypatch.setattr(folders, "resolved", late)
    with pytest.raises(OSError, match="outside") as caught:
        folders.folder_reader(tmp_path / "app")("in/f.adm")
    assert isinstance(caught.value, folders.OutsideError)


def test_from_memory_a_path_leads_out_only_where_that_is_allowed() -> None:
    files = {"../k.adm": b"service b { http 80 }\n"}
    text = 'app x\nuse "../k.adm"\n'
    assert codes(text, files) == ["ADM509"]
    assert list(dsl.load_text(text, read=files.__getitem__, included=True).services) == ["b"]


def _codes_of(main: Path, text: str | None) -> list[str]:
    if text is not None:
        main.write_text(text)
    return _codes(main)


def _told(main: Path, text: str | None) -> str:
    """All text of findings that any format could show."""
    if text is not None:
        main.write_text(text)
    with pytest.raises(ProgramError) as caught:
        dsl.load(main)
    return "\n".join(
        str((item.message, item.cause, item.hint, item.span and item.span.source.text))
        for item in caught.value.diagnostics
    )


def test_importing_the_package_loads_no_parser() -> None:
    script = "import sys, dsl; sys.exit('lark' in sys.modules or 'dsl.syntax.parser' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
