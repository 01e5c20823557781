"""Which `Program` an installation serves, and which of two installations has a service: the older one.

Creation times have whole seconds. Between two Programs of one second the uid decides, so that each installation decides
alike, whichever Program it saw first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.records import Key


def age(program: ProgramObject) -> tuple[str, str]:
    """Return a key for sorting: less for an older Program."""
    return program.created, program.uid


def served(programs: Iterable[ProgramObject], controller: str) -> ProgramObject | None:
    """Return the Program that an installation serves: of those that name it, the oldest."""
    return min((program for program in programs if program.controller == controller), key=age, default=None)


def other_program(first: ProgramObject) -> Diagnostic:
    """Return the finding of a Program that is not served because another one is older."""
    return Diagnostic(
        "ADM934",
        Severity.ERROR,
        f"installation `{first.controller}` serves the Program `{first.name}`, which is older",
        None,
        cause="an installation serves one Program",
        hint="remove one of the two, or name another installation in `spec.controller`",
    )


def claimed(
    own: ProgramObject, services: Mapping[str, Key], programs: Iterable[ProgramObject]
) -> tuple[Diagnostic, ...]:
    """Return a finding for each service of a Program that an older Program of another installation has.

    `services` are the Services of the program, by its own names. The status of another Program lists the namespaces of
    the plan in force there. A namespace takes part in one installation, so a service in such a namespace belongs to the
    other installation until that one has given the namespace up.
    """
    holders: dict[str, ProgramObject] = {}
    for program in sorted(programs, key=age):
        if age(program) < age(own) and program.controller != own.controller:
            for namespace in _namespaces(program):
                holders.setdefault(namespace, program)
    return tuple(
        _claimed(name, key, holders[key.namespace])
        for name, key in sorted(services.items())
        if key.namespace in holders
    )


def _namespaces(program: ProgramObject) -> tuple[str, ...]:
    namespaces = program.status.get("namespaces")
    return (
        tuple(namespace for namespace in namespaces if isinstance(namespace, str))
        if isinstance(namespaces, list)
        else ()
    )


def _claimed(name: str, key: Key, holder: ProgramObject) -> Diagnostic:
    return Diagnostic(
        "ADM936",
        Severity.ERROR,
        f"`{name}` is in namespace `{key.namespace}`, which the Program `{holder.name}` of installation "
        f"`{holder.controller}` has; it is older",
        None,
        cause="a service has policies of one installation",
        hint="take the namespace out of one of the two programs",
    )
