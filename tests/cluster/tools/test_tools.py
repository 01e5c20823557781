"""What `make tools` keeps: once, by versions, and nothing by halves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import tools
from tests.cluster.tools import debian
from tests.system import go

ROOT = Path(__file__).parents[3]


def _tools(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **({} if cache is None else {"XDG_CACHE_HOME": str(cache)})}
    command = [sys.executable, "-m", "tests.cluster.tools", *arguments]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("program", tools.PROGRAMS, ids=lambda program: program.name)
def test_each_program_is_a_tool_of_its_module(program: tools.Program) -> None:
    text = (tools.sources(program) / "go.mod").read_text(encoding="utf-8")
    own = (tools.sources(program) / "main.go").is_file()
    assert own == (program.package == tools.OWN)
    assert own or re.search(rf"^(tool)?\s+{re.escape(program.package)}$", text, re.MULTILINE)


def test_the_modules_beside_kubernetes_have_its_version() -> None:
    text = (tools.sources(tools.KUBELET) / "go.mod").read_text(encoding="utf-8")
    (version,) = re.findall(r"k8s\.io/kubernetes v1\.(\S+)", text)
    replaced = re.findall(r"=> k8s\.io/\S+ v0\.(\S+)", text)
    assert version.startswith("34."), "later ones have a kubelet that needs cgroup v2"
    assert len(replaced) > 20
    assert set(replaced) == {version}


def test_what_is_not_in_the_cache_is_missing_and_says_what_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tools.missing(tools.PROGRAMS) == list(tools.PROGRAMS)
    with pytest.raises(tools.MissingError, match="`etcd` is not in the cache; `make tools` builds it"):
        tools.find(tools.ETCD)
    with pytest.raises(tools.MissingError, match="`make tools` unpacks them"):
        debian.find()


def test_a_build_out_of_time_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    if go() is None:
        pytest.skip("no Go")
    began = time.monotonic()
    done = _tools("--seconds", "0", "etcd", cache=tmp_path)
    assert done.returncode == 1
    assert "etcd: NOT BUILT, out of time" in done.stdout
    assert time.monotonic() - began < 60
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.cluster
def test_a_second_run_does_nothing() -> None:
    lacking = {program.name for program in tools.missing(tools.PROGRAMS)}
    there = [program.name for program in tools.PROGRAMS if program.name not in lacking]
    if not there:
        pytest.skip("the cache has none of the programs; `make tools` builds them")
    done = _tools(*there)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"{name}: in the cache" for name in there]


@pytest.mark.cluster
def test_a_program_sees_another_time_of_day_and_the_same_monotonic_clock(tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text("+0s\n", encoding="utf-8")
    try:
        settings = {**os.environ, **debian.fake_time(offset)}
    except tools.MissingError as error:
        pytest.skip(str(error))
    script = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", script], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, -3600, 3600):
            offset.write_text(f"{seconds:+d}s\n", encoding="utf-8")
            process.stdin.write("now\n")
            process.stdin.flush()
            day, monotonic = map(float, process.stdout.readline().split())
            assert day - time.time() == pytest.approx(seconds, abs=60)
            assert monotonic - time.monotonic() == pytest.approx(0, abs=60)
