"""One step: from what a cluster showed so far, and what it shows now, to what the server has to do.

    change of the picture --> pods, facts and addresses of each program that is followed
    reading               --> candidate --no error--> servable program
    stored plans          --> programs in force, until the server names others
    programs in force     --> which programs stay followed

A program that cannot be read, whose services do not fit, or whose mode is `Audit`, does not replace the last servable
one. The same inputs again, without a change of the picture, change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rpds import HashTrieMap

from admc.kubernetes.cluster.core import followed as follow
from admc.kubernetes.cluster.core.followed import services_of
from admc.kubernetes.cluster.core.located import located
from admc.kubernetes.cluster.core.state import (
    Candidate,
    Outputs,
    ServableProgram,
    Step,
    Wanted,
)
from admc.kubernetes.cluster.program import choice
from admc.kubernetes.cluster.program.owner import Owner
from dsl.diagnostics.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.core.facts import FactState
    from admc.kubernetes.cluster.core.followed import FollowedProgram
    from admc.kubernetes.cluster.core.state import InForce, Inputs, ProgramReading, State, Stored, StoredProgram
    from admc.kubernetes.cluster.core.view import Change, View
    from admc.kubernetes.cluster.program.content import Content
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program

READ_AGAIN_SECONDS: Final = 2.0
"""The time between two readings of a program that waits for ConfigMaps."""


def step(state: State, inputs: Inputs, controller: str, now: float) -> Step:
    """Return the next state. `controller` is the name of the installation, `now` is on a monotonic clock."""
    change = inputs.change
    view = change.view
    state = _looked(state, change, now)
    served = choice.served(view.programs.values(), controller)
    state = _with_candidate(state, served, inputs.reading, view, now)
    state = _with_servable(state, view, controller)
    if inputs.stored is not None and inputs.stored is not state.stored:
        state = _restored(state, inputs.stored, view, now)
    if inputs.in_force is not state.in_force:
        state = _with_in_force(state, inputs.in_force, view, now)
    state = _without_unused(state)
    state = state._replace(located=located(state.located, state.published))
    outputs = Outputs(
        served if served is not None and _is_to_be_read(state, served, now) else None,
        _wanted(state),
        _owner(state, view),
        state.located,
    )
    return Step(state, outputs, _deadline(state, now))


def mismatches(state: State, view: View, controller: str) -> tuple[Diagnostic, ...]:
    """Return where the cluster does not fit the candidate."""
    candidate, followed = state.candidate, state.of_candidate
    if candidate is None or followed is None:
        return ()
    claimed = choice.claimed(candidate.object, followed.selection.keys, view.programs.values())
    return (*claimed, *follow.findings(followed, controller))


def number_for(state: State, program: Program) -> int | None:
    """Return the number of the followed program that a program in force belongs to, or will belong to. A program that
    comes into force is the one that the server was given last, or else one with the same services. None if no program
    has these services."""
    number = state.number_in_force(program)
    if number is not None and number in state.followed:
        return number
    services = services_of(program)
    numbers = (state.in_force.given, None if state.servable is None else state.servable.followed, *state.earlier)
    known = (state.followed[number] for number in numbers if number is not None and number in state.followed)
    return next((followed.number for followed in known if services_of(followed.program) == services), None)


# ---- the picture ----


def _looked(state: State, change: Change, now: float) -> State:
    """Take over the picture, for all programs. Facts that no pod has shown for long enough end."""
    programs, clients, looks = {}, state.clients, state.looks + bool(change.regrouped)
    for number, followed in state.followed.items():
        programs[number] = follow.at(follow.changed(followed, change, now), now)
        for name in followed.selection.concerned(change.regrouped):
            clients = clients.insert(name, looks)
    return state._replace(followed=programs, clients=clients, looks=looks, ended=state.ended.with_uids(change.ended))


# ---- the candidate ----


def _with_candidate(
    state: State, served: ProgramObject | None, reading: ProgramReading | None, view: View, now: float
) -> State:
    if served is None:
        return state._replace(candidate=None, reading=reading)
    if reading is not None and reading is not state.reading:
        state = state._replace(reading=reading)
        if reading.object.uid == served.uid:
            state = _read(state, reading, view, now)
    candidate = state.candidate
    if candidate is not None and candidate.object is not served and _is_same(candidate, served):
        return state._replace(candidate=candidate._replace(object=served))  # its status has changed
    return state


def _is_same(candidate: Candidate, object_: ProgramObject) -> bool:
    return candidate.object.uid == object_.uid and candidate.object.spec == object_.spec


def _is_to_be_read(state: State, served: ProgramObject, now: float) -> bool:
    candidate = state.candidate
    if candidate is None or not _is_same(candidate, served):
        return True
    return candidate.read.waits and now >= state.read_again


def _read(state: State, reading: ProgramReading, view: View, now: float) -> State:
    """Take over a reading. If its program and spec are those of the candidate, that one stays followed."""
    if reading.read.waits:
        state = state._replace(read_again=now + READ_AGAIN_SECONDS)
    number, spec, before = None, reading.read.spec, state.candidate
    if reading.program is not None and spec is not None:
        followed = state.of_candidate
        if before is not None and followed is not None and before.read.spec == spec:
            number = before.followed if followed.program is reading.program else None
        if number is None:
            servable = state.of_servable
            facts = state.facts if servable is None else servable.facts
            state, number = _followed(state, reading.program, spec.services, facts, view, now)
    return state._replace(candidate=Candidate(reading.object, reading.read, number, reading.findings))


def _followed(
    state: State, program: Program, names: Mapping[str, str], facts: FactState, view: View, now: float
) -> tuple[State, int]:
    """Follow one more program. Returns its number, too."""
    number = state.numbers + 1
    followed = follow.follow(number, program, names, facts, view, now)
    return state._replace(numbers=number, followed={**state.followed, number: followed}), number


def _with_servable(state: State, view: View, controller: str) -> State:
    """The candidate becomes the servable program, unless it has errors, does not fit the cluster, or is in mode
    `Audit`."""
    candidate, servable = state.candidate, state.servable
    if candidate is None or candidate.followed is None or candidate.read.content is None or candidate.is_audit:
        return state
    if servable is not None and servable.followed == candidate.followed:
        return state._replace(servable=servable._replace(object=candidate.object))
    if any(finding.severity is Severity.ERROR for finding in mismatches(state, view, controller)):
        return state
    earlier = state.earlier if servable is None else tuple(dict.fromkeys((*state.earlier, servable.followed)))
    made = ServableProgram(candidate.object, candidate.read.content, candidate.followed)
    return state._replace(servable=made, earlier=earlier)


# ---- plans ----


def _restored(state: State, stored: Stored, view: View, now: float) -> State:
    """Begin with the programs of the stored plans. The newest one is served until the cluster has a candidate that can
    be served. Programs that were in force before are not in force any more."""
    programs = {number: follow.with_facts(followed, stored.facts, now) for number, followed in state.followed.items()}
    state = state._replace(followed=programs, facts=stored.facts, stored=stored)
    numbers = []
    for program in stored.programs:
        state = _as_stored(state, program)
        same = (known.number for known in state.published if known.is_for(program.program, program.names))
        number = next(same, None)
        if number is None:
            state, number = _followed(state, program.program, program.names, state.facts, view, now)
        if state.servable is None:
            state = state._replace(servable=ServableProgram(None, program.content, number))
        numbers.append(number)
    return state._replace(earlier=tuple(dict.fromkeys(numbers)))


def _as_stored(state: State, stored: StoredProgram) -> State:
    """Serve the candidate if nothing else can be served and it has the stored content: then it could be served before,
    even if it does not fit any more."""
    candidate, followed = state.candidate, state.of_candidate
    if state.servable is not None or candidate is None or followed is None or candidate.read.content is None:
        return state
    own, content = candidate.read.content, stored.content
    is_same = own.main == content.main and all(own.files.get(path) == text for path, text in content.files.items())
    if not is_same or followed.names != stored.names:
        return state
    return state._replace(servable=ServableProgram(candidate.object, own, followed.number))


def _with_in_force(state: State, in_force: InForce, view: View, now: float) -> State:
    """Follow the programs in force beside the servable one; earlier servable programs among them stay."""
    if not in_force.programs:
        return state._replace(in_force=in_force)  # the programs of the stored plans stay
    numbers, clients, looks = [], state.clients, state.looks + 1
    for program in in_force.programs:
        number = number_for(state, program)
        if number is None:
            state, number = _followed(state, program, names_of_candidate(state), state.facts, view, now)
            state = state._replace(earlier=(*state.earlier, number), looks=looks)
            for name in program.services:  # a client may have been admitted before the program was followed
                clients = clients.insert(name, looks)
        numbers.append(number)
    programs = {
        number: follow.resting_on(followed, in_force.published, now) if number in numbers else followed
        for number, followed in state.followed.items()
    }
    state = state._replace(followed=programs, in_force=in_force, kept=tuple(numbers), clients=clients)
    return state._replace(earlier=state.settled)


def names_of_candidate(state: State) -> Mapping[str, str]:
    """Return the names of Services for a program that no Program of the cluster has."""
    spec = None if state.candidate is None else state.candidate.read.spec
    return {} if spec is None else spec.services


def _without_unused(state: State) -> State:
    """Forget the programs that are neither published nor the candidate's."""
    used = {followed.number for followed in state.published}
    if state.candidate is not None and state.candidate.followed is not None:
        used.add(state.candidate.followed)
    if used == state.followed.keys():
        return state
    programs = {number: followed for number, followed in state.followed.items() if number in used}
    names = {name for followed in programs.values() for name in followed.selection.keys}
    clients = HashTrieMap({name: number for name, number in state.clients.items() if name in names})
    return state._replace(followed=programs, clients=clients)


# ---- what comes out ----


def wanted_of(content: Content, followed: FollowedProgram) -> Wanted:
    """Return a followed program with this content in the form in which it is compiled."""
    return Wanted(content.main, content.files, followed.names, followed.facts_document)


def _wanted(state: State) -> Wanted | None:
    servable, followed = state.servable, state.of_servable
    if servable is None or followed is None:
        return None
    return wanted_of(servable.content, followed)


def _owner(state: State, view: View) -> Owner | None:
    servable, candidate = state.servable, state.candidate
    there = {program.uid for program in view.programs.values()}
    if servable is not None and servable.object is not None and servable.object.uid in there:
        return Owner(servable.object.name, servable.object.uid)
    if servable is None or candidate is None or candidate.is_audit or candidate.object.uid not in there:
        return None
    return Owner(candidate.object.name, candidate.object.uid)


def _deadline(state: State, now: float) -> float | None:
    due = [followed.facts.next_change for followed in state.followed.values()]
    # Once the time to read again has come, `to_read` says so, and the next reading is a step of its own.
    if state.candidate is not None and state.candidate.read.waits and state.read_again > now:
        due.append(state.read_again)
    return min((time for time in due if time is not None), default=None)
