"""Reads what the server serves: a program or a plan, and the addresses of its services.

    program or plan --read--> State        endpoints file --with_endpoints--> State with other addresses

A state is immutable. `read` returns errors in files as findings, without a state; `with_endpoints` and `restored` raise
`CommandError`. After an error the caller keeps its earlier state.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.compile.emit.emission import addresses_of
from admc.compile.facts import FACTS, with_facts
from admc.compile.pipeline import folder_of, load_program, overhead_of, place_program
from admc.compile.plan.beside import PLAN_ENDING
from admc.compile.plan.build import build
from admc.compile.plan.read import PlanFormatError, from_json
from admc.compile.plan.to_json import to_json
from admc.compile.reviewed_plan import checked
from admc.serve.compiling.inputs import Inputs
from admc.serve.compiling.reviewed_plan import placed
from admc.serve.storage.position import Recipe
from dsl.collector import no_collection
from emitters.addresses import Addresses, loopback
from emitters.envoy import Mode
from emitters.envoy.checks.missing_addresses import Unlisted, unlisted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.serve.file_watch import Signature
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from emitters.hops import Hop
    from solver.placement import Placement


class Source(NamedTuple):
    """The program or plan that is served, and how to compile it."""

    path: Path
    """A program, or a plan."""
    mode: Mode
    effort: float | None = None
    include: tuple[Path, ...] = ()
    """Folders, besides the program's own, from which the program may use files. Ignored if `files` is given."""
    files: Mapping[str, bytes] | None = None
    """All files by name, with the file `path`; None if the files are on disk."""
    facts: bytes | None = None
    """The facts of the services in a cluster (`admc.compile.facts`)."""
    notes: tuple[tuple[str, bytes], ...] = ()
    """Further contents that are stored with the files, by names that no file can have, so that a restarted server has
    this source again. A compile does not read them."""

    @property
    def is_plan(self) -> bool:
        return self.path.name.endswith(PLAN_ENDING)

    @property
    def inputs(self) -> Inputs:
        return Inputs(self.path, self.include, self.files)

    @property
    def without_content(self) -> Source:
        return self._replace(files=None, facts=None, notes=())


@dataclass(frozen=True)
class State:
    """A verified placement and the addresses of its services. All snapshots are built from it."""

    source: Source
    """Without content."""
    program: Program
    placement: Placement
    addresses: Addresses
    endpoints_digest: str
    """Digest of the endpoints file; empty without one."""

    @cached_property
    def version(self) -> str:
        """A digest of the inputs, the decisions, the mode and the endpoints file, which logs and the status show."""
        parts = [f"{item.path}\0{item.sha256}\0" for item in self.program.inputs]
        parts += [
            f"{decision.policy}\0{decision.destination}\0{decision.place}\0" for decision in self.placement.decisions
        ]
        parts += [self.source.mode, self.endpoints_digest]
        return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class ReadResult(NamedTuple):
    """The result of reading: a state, or findings; and the files on which it depends."""

    state: State | None
    findings: tuple[Diagnostic, ...]
    """Without a state: the errors. With a state: the program's warnings, and the errors in contents of the endpoints
    file that came before the usable one."""
    folder: str
    files: Signature
    """The stat of each file before it was read; also of missing files."""
    recipe: Recipe | None = None
    """The inputs from which the state can be built again, if the request asked for them."""
    seconds: float = 0.0
    unlisted: Unlisted = Unlisted()
    """Names that the endpoints file does not list; empty as `read` returns it, and a worker fills it."""


@no_collection()
def read(source: Source, endpoints: Sequence[bytes], *, with_recipe: bool = False) -> ReadResult:
    """Read, place and verify. Errors are in the findings; bugs of admc are raised.

    `endpoints` are contents of the endpoints file, the latest first; the first usable one is used.
    """
    inputs = source.inputs
    try:
        if source.is_plan:
            program, placement = placed(source.path, inputs, source.facts)
        else:
            program, placement = _compiled(source, inputs)
        state, findings = _with_usable_endpoints(source, program, placement, endpoints)
    except CommandError as error:
        return ReadResult(None, error.diagnostics, error.folder, inputs.stats)
    recipe = None
    if with_recipe:
        used = next((content for content in endpoints if digest(content) == state.endpoints_digest), None)
        contents = inputs.contents if source.facts is None else {**inputs.contents, FACTS: source.facts}
        read_ = {**dict(source.notes), **{item.path: contents[item.path] for item in program.inputs}}
        if source.is_plan and source.files is not None:
            read_[source.path.name] = source.files[source.path.name]
        plan = to_json(build(program, placement, overhead_of(program, placement, folder_of(source.path))))
        recipe = Recipe(program.inputs[0].path, source.mode.value, read_, plan, used)
    return ReadResult(state, (*findings, *program.warnings), folder_of(source.path), inputs.stats, recipe)


@no_collection()
def restored(source: Source | None, recipe: Recipe) -> State:
    """Return the state of a recipe. Raises `CommandError` if this admc cannot build it.

    `source` is the present source, which must have the same app; None while there is no program.
    """

    def content(path: str) -> bytes:
        if path not in recipe.inputs:
            raise FileNotFoundError(2, "there is no such file")
        return recipe.inputs[path]

    main = Path(recipe.main)
    # The search for the inputs was tested when they were read.
    source = source or Source(main, Mode(recipe.mode), files=recipe.inputs)
    program = load_program(main, content, include=source.include, names=recipe.inputs)
    if FACTS in recipe.inputs and all(item.path != FACTS for item in program.inputs):
        program = with_facts(program, recipe.inputs[FACTS])
    app = _app(source)
    if app is not None and app != program.app:
        raise wrong_usage(
            "ADM854",
            f"the stored state is that of app `{program.app}`, not of `{app}`",
            hint="give each app a folder of its own with `--state`",
        )
    try:
        plan = from_json(recipe.plan)
    except PlanFormatError as error:
        raise wrong_usage(
            "ADM854",
            "the stored plan cannot be used",
            cause=str(error),
            hint="let the earlier release finish, or remove what is stored once every proxy has one plan",
        ) from error
    placement = checked(main, plan, program)
    source = source._replace(mode=Mode(recipe.mode))
    return _with_usable_endpoints(source, program, placement, () if recipe.endpoints is None else (recipe.endpoints,))[
        0
    ]


def _app(source: Source) -> str | None:
    """Return the app of a program or a plan; None if it cannot be read."""
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.files.reading import decode
    from dsl.syntax.parser import parse
    from dsl.syntax.tree import App

    try:
        if source.is_plan:
            return source.inputs.plan().app
        content = source.inputs.read(source.path.name)
    except (CommandError, OSError):
        return None
    text = decode(source.path.name, content, None, Diagnostics())
    statements = () if text is None else parse(text, Diagnostics()).statements
    return next((item.name.text for item in statements if isinstance(item, App)), None)


@no_collection()
def with_endpoints(state: State, endpoints: bytes) -> State:
    """Return the same placement at other addresses. Raises `CommandError` if the endpoints file has errors."""
    mode = state.source.mode  # in a cluster there is one document for all programs of which proxies have something
    addresses = addresses_of(
        state.program,
        endpoints,
        redirected=mode.redirected,
        of_several=mode is Mode.POD,
        before=state.addresses,
    )
    return replace(state, addresses=addresses, endpoints_digest=digest(endpoints))


def unlisted_names(state: State, enforced: Mapping[str, tuple[Hop, ...]]) -> Unlisted:
    """Return the parties without addresses. Connections that may be theirs are refused. Without redirection the result
    is empty, because missing addresses are an error there, as in any other command."""
    if not state.source.mode.redirected:
        return Unlisted()
    return unlisted(state.program, state.addresses, enforced)


def _with_usable_endpoints(
    source: Source, program: Program, placement: Placement, endpoints: Sequence[bytes]
) -> tuple[State, tuple[Diagnostic, ...]]:
    """Return the state with the first usable endpoints, and the findings about the contents before them. Raises
    `CommandError` if there are contents, and none is usable."""
    state = State(source.without_content, program, placement, Addresses(), "")
    if not endpoints:
        explicit = not source.mode.redirected
        return (replace(state, addresses=loopback(program)) if explicit else state), ()
    findings: list[Diagnostic] = []
    for content in endpoints:
        try:
            return with_endpoints(state, content), tuple(findings)
        except CommandError as error:
            findings += error.diagnostics
    raise CommandError(Exit.INPUT, findings)


def digest(endpoints: bytes) -> str:
    return hashlib.sha256(endpoints).hexdigest()[:16]


def _compiled(source: Source, inputs: Inputs) -> tuple[Program, Placement]:
    folder = folder_of(source.path)
    program = load_program(source.path, inputs.read, include=inputs.include, names=inputs.names)
    if source.facts is not None:
        program = with_facts(program, source.facts)
    placement, _ = place_program(program, folder, effort=source.effort)
    return program, placement
