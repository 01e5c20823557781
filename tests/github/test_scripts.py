"""The scripts of the action and of the workflows, run as a runner does, in real repositories of git."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BASE = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 5, per: 1s) on * -> cart
"""
WEAKER = BASE.replace("requests: 5", "requests: 50")
BROKEN = BASE.replace("requests: 5", "requests: many")
GATES = "gate safe = fail when weaker\n"
PROGRAM = "policies/a shop.adm"


class Done(NamedTuple):
    code: int
    log: str
    summary: str
    outputs: dict[str, str]
    folder: Path


class Repository:
    """A host with a main branch and one pull request, and a clone of it as `actions/checkout` makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.host = folder / "host.git"
        self.work.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "commit.gpgsign", "false")

    def git(self, *arguments: str, where: Path | None = None) -> str:
        names = {f"GIT_{who}_{what}": "x@example.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "-C", str(where or self.work), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.git("rev-parse", "HEAD")

    def pull_request(self, number: int, files: Mapping[str, str], gone: Collection[str] = ()) -> str:
        """The newest commit of a pull request with these files, and without `gone`, and its merge with main, both on
        the host."""
        base = self.git("rev-parse", "main")
        self.git("checkout", "--quiet", "-b", f"topic{number}", "main")
        for name in gone:
            (self.work / name).unlink()
        head = self.commit(files)
        self.git("checkout", "--quiet", "--detach", base)
        self.git("merge", "--quiet", "--no-ff", "--message", "merge", head)
        merge = self.git("rev-parse", "HEAD")
        self.git("update-ref", f"refs/pull/{number}/head", head)
        self.git("update-ref", f"refs/pull/{number}/merge", merge)
        self.git("checkout", "--quiet", "main")
        self.git("clone", "--quiet", "--mirror", str(self.work), str(self.host), where=self.folder)
        return head

    def checked_out(self, reference: str, depth: int) -> Path:
        """As `actions/checkout` does: one reference, and no more commits than asked for."""
        clone = self.folder / f"clone-{reference.replace('/', '-')}"
        clone.mkdir()
        self.git("init", "--quiet", where=clone)
        self.git("remote", "add", "origin", f"file://{self.host}", where=clone)
        self.git("fetch", "--quiet", "--no-tags", f"--depth={depth}", "origin", reference, where=clone)
        self.git("checkout", "--quiet", "--detach", "FETCH_HEAD", where=clone)
        return clone


def step(name: str, file: str) -> dict[str, object]:
    document = yaml.safe_load((ROOT / file).read_text("utf-8"))
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    (found,) = (each for job in jobs for each in job["steps"] if each.get("name") == name)
    assert isinstance(found, dict)
    return found


def run_step(file: str, name: str, where: Path, contexts: Mapping[str, str], **others: str) -> Done:
    """One step with `run`, in the shell of a runner, with its `env` filled in."""
    found = step(name, file)
    temporary = where.parent / "runner"
    for part in ("bin", "out"):
        (temporary / part).mkdir(parents=True, exist_ok=True)
    admc = temporary / "bin/admc"
    admc.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m admc "$@"\n', "utf-8")
    admc.chmod(0o755)
    script = temporary / "step.sh"
    script.write_text(str(found["run"]).replace(".admc/", f"{ROOT}/"), "utf-8")
    given = found["env"]
    assert isinstance(given, dict)
    expression = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
    filled = {key: expression.sub(lambda match: contexts[match[1]], str(value)) for key, value in given.items()}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(temporary),
        "RUNNER_TEMP": str(temporary),
        "GITHUB_OUTPUT": str(temporary / "output"),
        "GITHUB_STEP_SUMMARY": str(temporary / "summary"),
        "ADMC_COMMAND": str(admc),
        **filled,
        **others,
    }
    shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    done = subprocess.run(shell, cwd=where, env=environment, capture_output=True, text=True, timeout=300, check=False)
    written = {name: temporary / name for name in ("output", "summary")}
    texts = {name: path.read_text("utf-8") if path.exists() else "" for name, path in written.items()}
    for path in written.values():
        path.unlink(missing_ok=True)
    outputs = dict(line.split("=", 1) for line in texts["output"].splitlines())
    return Done(done.returncode, done.stdout + done.stderr, texts["summary"], outputs, Path(outputs.get("folder", "/")))


def checked(repository: Repository, programs: str, accept: str = "", *, depth: int = 2) -> Done:
    clone = repository.checked_out("refs/pull/7/merge", depth)
    contexts = {
        "github.action_path": str(ROOT),
        "inputs.base": str(yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]["base"]["default"]),
        "inputs.programs": programs,
        "inputs.accept": accept,
    }
    return run_step("action.yml", "Check", clone, contexts)


def planned(folder: Path, text: str, name: str = "a shop.adm") -> str:
    """The plan of a program, compiled elsewhere."""
    program = folder / "elsewhere" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(text, "utf-8")
    command = [sys.executable, "-m", "admc", "compile", str(program), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment).stdout


def files(folder: Path, text: str, **others: str) -> dict[str, str]:
    plan = {} if text == BROKEN else {"policies/a shop.plan.json": planned(folder, text)}
    return {PROGRAM: text, **plan, **{f"policies/a shop.{name}.adm": content for name, content in others.items()}}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path)
    found.commit(files(tmp_path, BASE, gates=GATES))
    return found


@pytest.mark.long
def test_a_change_that_breaches_a_gate(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    done = checked(repository, f"{PROGRAM}\n")
    assert done.code == 4, done.log
    assert "::error" in done.log
    assert "1 thing gets weaker" in done.summary
    difference = json.loads((done.folder / "1.json").read_text("utf-8"))
    assert difference["gates"][0]["verdict"] == "breached"
    assert len(difference["base"]["commit"]) == 40
    assert difference["base"]["how"] == "beside"


@pytest.mark.long
def test_a_program_that_is_renamed_with_its_gates_meets_those_of_base(repository: Repository, tmp_path: Path) -> None:
    new = {"store.adm": WEAKER, "store.plan.json": planned(tmp_path, WEAKER, "store.adm"), "store.gates.adm": ""}
    repository.pull_request(7, new, gone=files(tmp_path, BASE, gates=GATES))
    done = checked(repository, "store.adm")
    assert done.code == 4, done.log
    assert f"compared with `{PROGRAM}`" in done.log
    assert "1 thing gets weaker" in done.summary


@pytest.mark.long
def test_an_accepted_breach_is_shown(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    done = checked(repository, PROGRAM, 'safe=more guests; `x` "$(id)"\n')
    assert done.code == 0, done.log
    assert "more guests" in done.summary
    assert "uid=" not in done.log + done.summary


@pytest.mark.long
def test_a_stale_plan_and_a_failing_test(repository: Repository, tmp_path: Path) -> None:
    stale = {**files(tmp_path, WEAKER), "policies/a shop.plan.json": planned(tmp_path, BASE)}
    repository.pull_request(7, stale)
    done = checked(repository, PROGRAM, "safe=planned")
    assert done.code == 1, done.log
    assert "ADM815" in done.log


@pytest.mark.long
def test_tests_of_programs_run(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, BASE, test="test few = adms <= 0\n"))
    done = checked(repository, PROGRAM)
    assert done.code == 4, done.log
    assert "few" in (done.folder / "1.tests.xml").read_text("utf-8")
    assert "few" in done.log


@pytest.mark.long
def test_the_worst_code_of_several_programs_counts(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, {**files(tmp_path, WEAKER), "other.adm": BROKEN})
    done = checked(repository, f"{PROGRAM}\n\nother.adm\n")
    assert done.code == 1
    assert (done.folder / "1.json").exists()
    assert not (done.folder / "2.json").exists()


@pytest.mark.long
def test_a_shallow_checkout_names_the_depth(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    clone = repository.checked_out("refs/pull/7/merge", 1)
    contexts = {
        "github.action_path": str(ROOT),
        "inputs.base": "HEAD^1",
        "inputs.programs": PROGRAM,
        "inputs.accept": "",
    }
    done = run_step("action.yml", "Check", clone, contexts)
    assert done.code == 1
    assert "fetch-depth" in done.log


@pytest.mark.long
def test_no_program(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, BASE))
    done = checked(repository, "\n")
    assert done.code == 1
    assert "::error::no program is named" in done.log


@pytest.mark.long
def test_a_difference_that_an_earlier_run_left_is_not_shown(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    first = checked(repository, PROGRAM)
    assert (first.folder / "1.json").exists()
    clone = tmp_path / "clone-refs-pull-7-merge"
    (clone / "policies/a shop.gates.adm").write_text("gate safe = stop when weaker\n", "utf-8")
    repository.git("commit", "--quiet", "--all", "--amend", "--no-edit", where=clone)
    contexts = {"github.action_path": str(ROOT), "inputs.base": "HEAD^1", "inputs.programs": PROGRAM}
    done = run_step("action.yml", "Check", clone, {**contexts, "inputs.accept": ""})
    assert done.code == 1, done.log
    assert "gets weaker" not in done.log + done.summary
    assert re.search("::error file=policies/a shop.gates.adm,line=1.*title=admc ADM001", done.log), done.log


@pytest.mark.long
def test_lines_that_end_in_cr_lf_and_breaches_accepted_of_one_program(repository: Repository, tmp_path: Path) -> None:
    """The other program has no gate `safe`, so nothing of it could be accepted."""
    other = {"other.adm": BASE, "other.plan.json": planned(tmp_path, BASE, "other.adm")}
    repository.commit(other)
    repository.pull_request(7, files(tmp_path, WEAKER))
    accept = f"other:x.adm:safe=no\r\n{PROGRAM}:safe=planned: a=b\r\n"
    done = checked(repository, f"{PROGRAM}\r\nother.adm\r\n", accept)
    assert done.code == 0, done.log
    (gate,) = json.loads((done.folder / "1.json").read_text("utf-8"))["gates"]
    assert (gate["verdict"], gate["reason"]) == ("accepted", "planned: a=b")


HOSTILE = 'policy log = access_log(format: "##[add-mask]gets") on * -> cart\n'


@pytest.mark.long
def test_what_a_program_says_is_no_command_of_the_runner(repository: Repository, tmp_path: Path) -> None:
    head = repository.pull_request(7, {PROGRAM: BASE + HOSTILE})
    for done in (checked(repository, PROGRAM), computed(repository, head)):
        obeyed, end = [], ""
        for line in done.log.splitlines():
            if end and line == f"::{end}::":
                end = ""
            elif not end and line.startswith("::stop-commands::"):
                end = line.removeprefix("::stop-commands::")
            elif not end and not line.startswith("::"):
                obeyed.append(line)
        assert not end
        assert "##[add-mask]" in done.log
        assert "##[add-mask]" not in "\n".join(obeyed)


# ---- the comment ----

COMMENT = "examples/github/admc-comment.yml"


@contextlib.contextmanager
def host(pulls: Mapping[int, object]) -> Iterator[dict[str, str]]:
    """The variables of a host whose API knows these pull requests: number -> the answer. Other numbers have a 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, number = self.path.rpartition("/repos/shop/mesh/pulls/")
            found = pulls.get(int(number))
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield {"GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}", "GITHUB_REPOSITORY": "shop/mesh"}
        finally:
            server.shutdown()
            thread.join()


def pull(commit: str, state: str = "open") -> dict[str, object]:
    return {"state": state, "head": {"sha": commit}}


def computed(repository: Repository, commit: str, pulls: Mapping[int, object] | None = None) -> Done:
    clone = repository.checked_out("refs/heads/main", 1)
    contexts = {"github.event.workflow_run.head_sha": commit, "github.token": ""}
    with host({7: pull(commit)} if pulls is None else pulls) as variables:
        return run_step(COMMENT, "Compute the difference", clone, contexts, PROGRAMS=f"{PROGRAM}\n", **variables)


@pytest.mark.long
def test_the_difference_is_computed_again_from_objects(repository: Repository, tmp_path: Path) -> None:
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    done = computed(repository, head)
    assert done.code == 0, done.log
    assert done.outputs["found"] == "true"
    difference = json.loads((done.folder / "1.json").read_text("utf-8"))
    assert [finding["word"] for finding in difference["weaker"]] == ["loosened"]
    assert "50" not in (tmp_path / "clone-refs-heads-main" / PROGRAM).read_text("utf-8")


@pytest.mark.long
def test_nothing_is_computed_for_an_older_commit(repository: Repository, tmp_path: Path) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    older = repository.git("rev-parse", "main")
    done = computed(repository, older)
    assert (done.code, done.outputs) == (0, {"found": "false"})


@pytest.mark.parametrize("pulls", [{}, {7: "closed"}, {7: "another commit"}])
@pytest.mark.long
def test_nothing_is_computed_for_a_pull_request_that_is_not_open(
    repository: Repository, tmp_path: Path, pulls: dict[int, str]
) -> None:
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    known = {number: pull("5" * 40 if said != "closed" else head, "closed") for number, said in pulls.items()}
    known |= {number: pull("5" * 40) for number, said in pulls.items() if said == "another commit"}
    done = computed(repository, head, known)
    assert (done.code, done.outputs) == (0, {"found": "false"}), done.log
    assert "no open pull request" in done.log


@pytest.mark.long
def test_the_base_of_a_closed_pull_request_with_the_same_commit_does_not_count(
    repository: Repository, tmp_path: Path
) -> None:
    """The closed one is newer, and was about a branch that has the change already."""
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    for reference in ("head", "merge"):
        commit = (
            head
            if reference == "head"
            else repository.git("commit-tree", "-p", head, "-p", head, "-m", "x", f"{head}^{{tree}}")
        )
        repository.git("update-ref", f"refs/pull/9/{reference}", commit)
        repository.git("push", "--quiet", str(repository.host), f"refs/pull/9/{reference}")
    done = computed(repository, head, {7: pull(head), 9: pull(head, "closed")})
    assert done.outputs["found"] == "true", done.log
    difference = json.loads((done.folder / "1.json").read_text("utf-8"))
    assert [finding["word"] for finding in difference["weaker"]] == ["loosened"]


@pytest.mark.parametrize("answer", [[], {"state": "open"}, {"head": "x"}])
@pytest.mark.long
def test_an_answer_that_is_not_one_of_the_host_is_an_error(
    repository: Repository, tmp_path: Path, answer: object
) -> None:
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    done = computed(repository, head, {7: answer})
    assert (done.code, done.outputs) == (1, {})
    assert "::error::cannot ask which pull requests are open" in done.log


@pytest.mark.long
def test_nothing_is_computed_where_the_merge_is_of_another_commit(repository: Repository, tmp_path: Path) -> None:
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    repository.git("update-ref", "refs/pull/7/merge", "main", where=repository.host)
    done = computed(repository, head)
    assert (done.code, done.outputs) == (0, {"found": "false"})


@pytest.mark.long
def test_nothing_that_reads_a_proposed_program_has_the_token(repository: Repository, tmp_path: Path) -> None:
    head = repository.pull_request(7, files(tmp_path, WEAKER))
    reader = tmp_path / "reader"
    reader.write_text('#!/bin/sh\nenv > "$RUNNER_TEMP/seen"\n', "utf-8")
    reader.chmod(0o755)
    clone = repository.checked_out("refs/heads/main", 1)
    contexts = {"github.event.workflow_run.head_sha": head, "github.token": "s3cret"}
    with host({7: pull(head)}) as variables:
        others = {"PROGRAMS": PROGRAM, "ADMC_COMMAND": str(reader), **variables}
        done = run_step(COMMENT, "Compute the difference", clone, contexts, **others)
    assert done.code == 0, done.log
    seen = (tmp_path / "runner/seen").read_text("utf-8")
    assert "RUNNER_TEMP=" in seen
    assert "s3cret" not in seen + done.log
    assert "GIT_CONFIG_VALUE_0" not in seen


@pytest.mark.parametrize("commit", ["main", "-x", "5" * 39, f"{'5' * 40}\n"])
@pytest.mark.long
def test_a_commit_is_an_id(repository: Repository, tmp_path: Path, commit: str) -> None:
    repository.pull_request(7, files(tmp_path, WEAKER))
    done = computed(repository, commit)
    assert done.code == 1
    assert "full id" in done.log


@pytest.mark.long
async def test_the_differences_become_one_comment(repository: Repository, tmp_path: Path) -> None:
    import asyncio

    from tests.review.comment.api import REPOSITORY, TOKEN, Api, served

    head = repository.pull_request(7, files(tmp_path, WEAKER))
    done = computed(repository, head)
    contexts = {
        "github.event.workflow_run.head_sha": head,
        "github.event.workflow_run.id": "500",
        "github.event.workflow_run.run_attempt": "1",
        "runner.temp": str(done.folder.parent),
        "github.token": TOKEN,
    }
    async with served(Api(pulls=[{"number": 7, "head": {"sha": head}}])) as api:
        others = {"GITHUB_API_URL": api.url, "GITHUB_REPOSITORY": REPOSITORY, "FOLDER": str(done.folder)}
        posted = await asyncio.to_thread(lambda: run_step(COMMENT, "Comment", tmp_path, contexts, **others))
        assert posted.code == 0, posted.log
        (body,) = api.bodies()
    assert "1 thing gets weaker" in body
    assert f"/{REPOSITORY}/blob/" in body
    assert TOKEN not in posted.log
