"""Every code that admc can show, with the explanation of `admc explain CODE`.

Each package owns its codes. This module collects the codes of all packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from admc.base.code import Code
from admc.cli.codes.commands import CODES as COMMANDS
from admc.compile.codes import CODES as PLACEMENTS
from admc.cost.codes import CODES as PROFILES
from admc.istio.codes import CODES as MESHES
from admc.kubernetes.codes import CODES as CLUSTERS
from admc.manifests.codes import CODES as MANIFESTS
from admc.review.comment.codes import CODES as COMMENTS
from admc.review.diff.codes import CODES as DIFFERENCES
from admc.review.gates.codes import CODES as GATES
from admc.review.program_tests.codes import CODES as TESTS

_BUG = {
    "ADM901": Code(
        "a bug in admc",
        "admc met an unexpected error. Please report it with what the message shows, and with the "
        "program if you may share it. `ADMC_TRACEBACK=1` adds the full trace.",
    ),
    "ADM902": Code(
        "the placement did not pass its verification",
        "Every placement is checked by a verifier that shares no code with the solver. They disagree, which is a bug "
        "in one of them, so nothing was written. Please report it with the program.",
    ),
}

OWN: Mapping[str, Code] = {
    **PLACEMENTS,
    **COMMANDS,
    **{
        code: Code(*entry)
        for owner in (TESTS, PROFILES, GATES, DIFFERENCES, COMMENTS, CLUSTERS, MANIFESTS, MESHES)
        for code, entry in owner.items()
    },
    **_BUG,
}


@cache
def registry() -> Mapping[str, Code]:
    """All codes of all packages, in ascending order."""
    from dsl.diagnostics.codes import CODES as LANGUAGE
    from emitters.codes.cluster import CODES as CLUSTER
    from emitters.codes.envoy import CODES as ENVOY

    codes = {**_codes_of(LANGUAGE), **_codes_of(ENVOY), **_codes_of(CLUSTER), **OWN}
    return {code: codes[code] for code in sorted(codes)}


def _codes_of(codes: Mapping[str, tuple[str, ...]]) -> dict[str, Code]:
    """The codes of a package that cannot import `Code`. Its entries have the same fields in the same order."""
    return {code: Code(*entry) for code, entry in codes.items()}


def title(code: str) -> str:
    entry = registry().get(code)
    return code if entry is None else entry.title
