"""The difference of two plans: what a reviewer, a gate, a comment and a page read.

    plan, plan -> [Diff] -> text | JSON | Markdown | SARIF | JUnit | annotations | gates | report

BASE is the version in force, HEAD is the proposed one. Every list is in canonical order, and no part depends on the
machine or the clock; on the working directory, only the names and paths of BASE and HEAD do. `admc/diff.schema.json` is
the published form, with the docstrings here as descriptions; `docs/diff.md` explains each field. A finding is *weaker*
if its word is in `WEAKER`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final, Literal

from admc.compile.plan.model import SourceLine
from admc.cost.rows import AmountRow, ProfileRow
from dsl.documents import Count, Digest, Form, Name, OneOf, Published, Signed, document
from dsl.program import Place, Side

SCHEMA_VERSION: Final = 3
"""The form that admc writes, and the only one that it reads."""


class Word(StrEnum):
    """What becomes of the protection of a request, from the worst to what is no loss."""

    # Weaker.
    LOST = "lost"
    """A policy is no longer met, though the call is still there."""
    NARROWED = "narrowed"
    """`when` holds for fewer requests."""
    LOOSENED = "loosened"
    """An argument went the way that its kind calls weaker, or a guard admits one more."""
    RESTS_ON_MORE = "rests on more"
    """A new assumption."""
    REORDERED = "reordered"
    """Two policies that do not commute."""
    UNCLEAR = "unclear"
    """Something changes, and no direction is proven."""
    # Stricter.
    REFUSED = "refused"
    """A guard refuses a declared call: it will break."""
    GAINED = "gained"
    WIDENED = "widened"
    TIGHTENED = "tightened"
    RESTS_ON_LESS = "rests on less"
    # Neither.
    GONE_WITH_ITS_CALL = "gone with its call"


WEAKER: Final = (Word.LOST, Word.NARROWED, Word.LOOSENED, Word.RESTS_ON_MORE, Word.REORDERED, Word.UNCLEAR)
STRICTER: Final = (Word.REFUSED, Word.GAINED, Word.WIDENED, Word.TIGHTENED, Word.RESTS_ON_LESS)


def _with_words(words: Iterable[Word]) -> Published:
    """The part of the schema that restricts the findings of a list to these words."""
    return Published({"items": {"properties": {"word": {"enum": [word.value for word in words]}}}})


class How(StrEnum):
    """Where the plan of a side is from."""

    PLAN = "plan"
    """A plan was named."""
    BESIDE = "beside"
    """The plan beside the program, which fits it."""
    COMPILED = "compiled"
    NOTHING = "nothing"
    """BASE has no such program: all is new."""
    BROKEN = "broken"
    """BASE has such a program, and there is no plan of it: it has errors, or no placement."""


@document
class Taken:
    """One side of the comparison, as it was taken."""

    name: str
    """As given on the command line."""
    path: str
    """Of the program or the plan, in its repository if `commit` is given."""
    commit: Annotated[str, Form("[0-9a-f]{40}([0-9a-f]{24})?", "must be the full id of a commit")] | None
    """The full id of the commit from which it was read; None: from the working tree."""
    how: How
    why: str | None
    """Why it was compiled instead of taken as a plan; what is wrong with a broken one."""
    schema_version: Count | None
    """Of its plan. None without a plan."""
    inputs_sha256: Digest | None
    """One digest over the digests of all input files: equal digests mean equal programs."""


@document
class CallName:
    """A call; `*` as source stands for all callers that the program does not declare."""

    source: str
    destination: str
    port: Count


@document
class Change:
    """One argument, match or list, before and after, as it could stand in a program."""

    what: str
    """The name of the argument; `when`, `callers`, `kind`, `template`, ..."""
    base: str | None
    head: str | None


@document
class Finding:
    """One policy that changes in one way for some calls."""

    word: Word
    policy: str
    """Its name in HEAD, or in BASE where HEAD lacks it. Empty where no policy is concerned (`rests on`)."""
    other: str | None
    """The second policy of `reordered`."""
    calls: tuple[CallName, ...]
    text: str
    """One sentence in plain words, without the word and the calls."""
    change: Change | None
    base_line: SourceLine | None
    head_line: SourceLine | None


@document
class Rename:
    base: str
    head: str


@document
class AdmChange:
    """An ADM that comes, goes or changes. `replicas` and `policies` of a side that lacks it: 0 and none."""

    service: str
    base_replicas: Count
    head_replicas: Count
    base_policies: tuple[str, ...]
    head_policies: tuple[str, ...]


@document
class Cause:
    """Why a decision moved."""

    text: str
    """It continues a sentence that begins with `since`."""
    lines: tuple[SourceLine, ...]
    """In HEAD: what came or changed."""
    complete: bool
    """False: the effort ended the search, and the cause is one of these, or several."""
    base_lines: tuple[SourceLine, ...]
    """In BASE: lines that HEAD lacks."""


@document
class Move:
    """A decision of which the place, and so the hosts, changed."""

    policy: str
    destination: str
    base_place: Place
    head_place: Place
    base_hosts: tuple[str, ...]
    head_hosts: tuple[str, ...]
    cause: Cause | None
    """None where the programs are not known, or the search was left out."""


@document
class Restart:
    """Pods of a service that restart, since an ADM comes to them or leaves them."""

    service: str
    pods: Count
    comes: bool
    """An ADM comes: before the steps. It goes: after them."""


class PolicyAction(StrEnum):
    CLOSE = "close"
    OPEN = "open"
    CHANGE = "change"


@document
class NetworkPolicyChange:
    destination: str
    action: PolicyAction
    came: tuple[str, ...]
    """Senders that it admits from now on."""
    went: tuple[str, ...]


@document
class PortChange:
    """A port of which the traffic is newly redirected to an ADM, or no longer."""

    service: str
    direction: Side
    destination: str
    port: Count
    comes: bool


@document
class Steps:
    """How the server takes the change (docs/rollout.md)."""

    steps: Count
    waits: Count
    refused: str | None
    """Why no steps lead to HEAD safely, if that is so."""


@document
class Rollout:
    restarts: tuple[Restart, ...]
    redirection: tuple[PortChange, ...]
    network_policies: tuple[NetworkPolicyChange, ...]
    configuration_only: tuple[str, ...]
    """Services whose ADM gets another configuration, and no restart."""
    steps: Steps | None
    """None where the programs are not known."""


@document
class Counts:
    adms: Count
    sidecars: Count
    decisions: Count
    closed: Count


@document
class Level:
    """One level of the objective on both sides; None where a side lacks it or a figure."""

    metric: str
    base: Count | None
    head: Count | None


@document
class CostLine:
    """One figure of all ADMs. Units as in a plan."""

    metric: Annotated[str, OneOf(("cpu", "memory", "latency_per_second"))]
    """`cpu`, `memory` or `latency_per_second`."""
    base: AmountRow
    head: AmountRow
    change: Signed


@document
class Cost:
    """Both sides by one profile; `reason` says why there are no figures, and the rest is then empty."""

    reason: Annotated[str, OneOf(("no profile", "two profiles", "no plan of BASE"))] | None
    """`no profile`, `two profiles`, or `no plan of BASE`."""
    profile: ProfileRow | None
    lines: tuple[CostLine, ...]


@document
class Gap:
    """How far a placement may be from the best, for each level that is not proven; empty if it is optimal."""

    base: tuple[Level, ...]
    """`base` is the value, and `head` is the bound, of BASE's plan."""
    head: tuple[Level, ...]


@document
class Named:
    """Something of the program that came, went or changed: a service, an external, a call, a policy or a file."""

    kind: Annotated[str, OneOf(("service", "external", "call", "policy", "file"))]
    """`service`, `external`, `call`, `policy`, `file`."""
    name: str
    change: Annotated[str, OneOf(("came", "went", "changed"))]
    """`came`, `went` or `changed`."""
    text: str | None
    line: SourceLine | None


class Verdict(StrEnum):
    PASSED = "passed"
    BREACHED = "breached"
    ACCEPTED = "accepted"
    """Breached, and accepted with a reason."""
    NOT_JUDGED = "not judged"


@document
class GateResult:
    """One gate of BASE, judged."""

    name: str
    fails: bool
    """A breach fails; else it warns."""
    condition: str
    """As the gate has it: `cpu > +10%`."""
    verdict: Verdict
    text: str
    """What was found, or why it is not judged."""
    reason: str | None
    """The reason for which a breach is accepted."""
    line: SourceLine


@document
class Diff:
    """What changes from BASE to HEAD."""

    schema_version: Literal[3]
    app: Name
    base: Taken
    head: Taken
    base_counts: Counts
    head_counts: Counts
    weaker: Annotated[tuple[Finding, ...], _with_words(WEAKER)]
    """Findings by word, as in `WEAKER`, then policy and calls."""
    stricter: Annotated[tuple[Finding, ...], _with_words(STRICTER)]
    gone: Annotated[tuple[Finding, ...], _with_words((Word.GONE_WITH_ITS_CALL,))]
    renames: tuple[Rename, ...]
    adms: tuple[AdmChange, ...]
    moves: tuple[Move, ...]
    rollout: Rollout
    levels: tuple[Level, ...]
    gap: Gap
    cost: Cost
    program: tuple[Named, ...]
    gates: tuple[GateResult, ...]
    notes: tuple[str, ...]
