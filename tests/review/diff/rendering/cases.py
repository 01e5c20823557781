"""The differences that every renderer is tested on: each a way in which a change, a side or a name can be awkward."""

from __future__ import annotations

from dataclasses import replace

from admc.compile.plan.model import SourceLine
from admc.cost.profiles.profile import Platform
from admc.cost.rows import AmountRow, ProfileRow
from admc.review.diff.model import (
    SCHEMA_VERSION,
    AdmChange,
    CallName,
    Cause,
    Change,
    Cost,
    CostLine,
    Counts,
    Diff,
    Finding,
    Gap,
    GateResult,
    How,
    Level,
    Move,
    Named,
    NetworkPolicyChange,
    PolicyAction,
    PortChange,
    Rename,
    Restart,
    Rollout,
    Steps,
    Taken,
    Verdict,
    Word,
)
from dsl.program import Place, Side

OLD, NEW = "1f0c6a9e5d3b7284c0e1f2a3b4c5d6e7f8091a2b", "9b8a7c6d5e4f30213243546576879a8b9cadbecf"
PROGRAM = "policies.adm"
IN, OUT = Place.INGRESS, Place.EGRESS


def line(number: int, path: str = PROGRAM) -> SourceLine:
    return SourceLine(path, number)


def taken(name: str, commit: str | None, how: How = How.BESIDE, why: str | None = None, digest: str = "") -> Taken:
    version = None if how in (How.NOTHING, How.BROKEN) else 3
    digest_of = None if version is None else (digest or f"{ord(name[0]) % 16:x}") * 64
    return Taken(name, PROGRAM, commit, how, why, version, digest_of[:64] if digest_of else None)


def finding(
    word: Word,
    policy: str,
    calls: str,
    text: str,
    base: int | None = None,
    head: int | None = None,
    change: Change | None = None,
    other: str | None = None,
) -> Finding:
    """`calls` as `a b:80, c d:90`; port 80 unless given."""
    found = []
    for pair in calls.split(", ") if calls else ():
        source, destination = pair.split(" ")
        name, _, port = destination.partition(":")
        found.append(CallName(source, name, int(port or 80)))
    lines = (None if number is None else line(number) for number in (base, head))
    return Finding(word, policy, other, tuple(found), text, change, *lines)


def amount(value: int, *, at_least: bool = False) -> AmountRow:
    return AmountRow(value, None, at_least)


def cost_line(metric: str, base: AmountRow, head: AmountRow) -> CostLine:
    return CostLine(metric, base, head, head.value - base.value)


NO_ROLLOUT = Rollout((), (), (), (), None)
PROFILE = ProfileRow("node.json", "a node", "0123456789abcdef" * 4, Platform("8 cores", "Linux 6.1"))
NO_PROFILE = Cost("no profile", None, ())

PLAIN = Diff(
    schema_version=SCHEMA_VERSION,
    app="hotel_reservation",
    base=taken("main", OLD),
    head=taken("HEAD", NEW, How.COMPILED, "the plan beside it does not fit the program"),
    base_counts=Counts(4, 4, 12, 1),
    head_counts=Counts(4, 4, 12, 1),
    weaker=(),
    stricter=(),
    gone=(),
    renames=(),
    adms=(),
    moves=(),
    rollout=NO_ROLLOUT,
    levels=(Level("adms", 4, 4), Level("sidecars", 4, 4), Level("closed", 1, 1), Level("hops", 1200, 1200)),
    gap=Gap((), ()),
    cost=NO_PROFILE,
    program=(),
    gates=(),
    notes=(),
)

LOST = finding(Word.LOST, "flaky_geo", "search geo", "no longer retried: `flaky_geo` is gone", base=51)
ADMITTED = finding(
    Word.LOOSENED,
    "rate_readers",
    "geo rate",
    "newly admitted by `rate_readers`",
    base=49,
    head=52,
    change=Change("callers", "[search]", "[search, geo]"),
)
RAISED = finding(
    Word.LOOSENED,
    "booking_quota",
    "* reservation",
    "`booking_quota`: requests 90 -> 900",
    base=44,
    head=44,
    change=Change("requests", "90", "900"),
)

EXAMPLE = replace(
    PLAIN,
    weaker=(LOST, ADMITTED, RAISED),
    adms=(
        AdmChange("rate", 0, 1, (), ("rate_readers",)),
        AdmChange("search", 1, 0, ("flaky_geo", "rate_readers"), ()),
    ),
    moves=(
        Move(
            "rate_readers",
            "rate",
            OUT,
            IN,
            ("search",),
            ("rate",),
            Cause("call `geo -> rate` came", (line(28),), complete=True, base_lines=()),
        ),
    ),
    rollout=Rollout(
        restarts=(Restart("rate", 1, comes=True), Restart("search", 1, comes=False)),
        redirection=(
            PortChange("rate", Side.INGRESS, "rate", 8083, comes=True),
            PortChange("search", Side.EGRESS, "rate", 8083, comes=False),
        ),
        network_policies=(NetworkPolicyChange("rate", PolicyAction.OPEN, (), ("search",)),),
        configuration_only=("frontend", "reservation"),
        steps=Steps(4, 1, None),
    ),
    head_counts=Counts(4, 4, 11, 0),
    levels=(Level("adms", 4, 4), Level("sidecars", 4, 4), Level("closed", 1, 0), Level("hops", 1200, 1260)),
    program=(
        Named("call", "geo -> rate", "came", None, line(28)),
        Named("policy", "booking_quota", "changed", "requests 90 -> 900", line(44)),
        Named("policy", "flaky_geo", "went", None, line(51)),
    ),
)

EVERY_WORD = replace(
    PLAIN,
    weaker=(
        LOST,
        finding(
            Word.NARROWED,
            "login_quota",
            "internet frontend",
            '`login_quota` no longer holds for `method == "POST"`',
            31,
            31,
            Change("when", 'path == "/user"', 'path == "/user" and method == "GET"'),
        ),
        ADMITTED,
        RAISED,
        finding(Word.RESTS_ON_MORE, "", "* rate", "rests on a NetworkPolicy that closes `rate`"),
        finding(
            Word.REORDERED,
            "edge_log",
            "internet frontend",
            "`edge_log` no longer meets what `login_quota` rejects",
            31,
            33,
            other="login_quota",
        ),
        finding(
            Word.UNCLEAR,
            "spare",
            "a d, b d, c d, e d, f d",
            "`spare`: the file of `template` is another one",
            60,
            60,
            Change("template", "spare.yaml", "spare.yaml"),
        ),
    ),
    stricter=(
        finding(Word.REFUSED, "who_reads", "geo user:8080, geo user:8081", "refused by `who_reads`", head=61),
        finding(Word.GAINED, "audit", "* user", "newly logged by `audit`", head=62),
        finding(Word.WIDENED, "slow", "search rate", "`slow` holds for all paths", 63, 64),
        finding(Word.TIGHTENED, "cap", "* geo", "`cap`: requests 90 -> 9", 65, 65, Change("requests", "90", "9")),
        finding(Word.RESTS_ON_LESS, "", "* geo", "`geo` needs no NetworkPolicy any more"),
    ),
    gone=(finding(Word.GONE_WITH_ITS_CALL, "old_quota", "rate mongo", "`who_writes` refuses it if it comes", base=70),),
    renames=(Rename("quota", "cap"),),
    program=(Named("policy", "cap", "changed", "was `quota`", line(65)),),
)

GATE = GateResult("safe", True, "weaker", Verdict.PASSED, "nothing gets weaker", None, line(1, "policies.gates.adm"))
GATES = (
    replace(GATE, name="calm", condition="restarts > 10", text="2 pods restart", line=line(4, "policies.gates.adm")),
    replace(GATE, verdict=Verdict.BREACHED, text="3 things get weaker"),
    replace(GATE, name="few", condition="adms > 3", verdict=Verdict.BREACHED, fails=False, text="4 ADMs"),
    replace(
        GATE,
        name="kept",
        condition="refused",
        verdict=Verdict.ACCEPTED,
        text="1 declared call is refused",
        reason="agreed with the owners of geo",
    ),
    replace(GATE, name="cores", condition="cpu > +10%", verdict=Verdict.NOT_JUDGED, fails=False, text="no profile"),
)

MANY = tuple(
    finding(Word.LOOSENED, f"quota_{at:05}", f"* service_{at:05}", f"`quota_{at:05}`: requests 1 -> 2", at + 1, at + 1)
    for at in range(60)
)

MTLS = replace(
    PLAIN,
    base_counts=Counts(4, 22, 12, 1),
    head_counts=Counts(3, 40, 12, 2),
    moves=(
        Move("mtls", "cart", Place.BOTH, Place.BOTH, ("cart", "shop"), ("cart", "shop", "web"), None),
        Move("slow", "cart", OUT, OUT, ("shop",), ("a", "b", "c", "d", "shop"), None),
        Move("a_policy_with_a_very_long_name_that_needs_room", "cart", IN, OUT, ("cart",), ("shop",), None),
    ),
    adms=tuple(AdmChange(f"new_{at}", 0, 6, (), ("mtls",)) for at in range(4))
    + tuple(AdmChange(f"old_{at}", 1, 0, ("mtls",), ()) for at in range(5))
    + (AdmChange("shop", 2, 2, ("slow",), ("mtls", "slow")),),
    rollout=Rollout(
        restarts=tuple(Restart(f"new_{at}", 6, comes=True) for at in range(4))
        + tuple(Restart(f"old_{at}", 1, comes=False) for at in range(8)),
        redirection=(
            PortChange("shop", Side.EGRESS, "cart", 8080, comes=True),
            PortChange("shop", Side.INGRESS, "shop", 9000, comes=False),
        ),
        network_policies=(
            NetworkPolicyChange("cart", PolicyAction.CLOSE, ("shop",), ()),
            NetworkPolicyChange("geo", PolicyAction.CHANGE, ("a",), ("b",)),
        ),
        configuration_only=tuple(f"service_{at}" for at in range(9)),
        steps=None,
    ),
    levels=(Level("adms", 4, 3), Level("sidecars", 22, 40), Level("cpu", None, 2_000_000_000)),
)

COSTS = replace(
    EXAMPLE,
    cost=Cost(
        None,
        PROFILE,
        (
            cost_line("cpu", amount(1_200_000_000), amount(1_600_000_000)),
            cost_line("memory", amount(120_000_000), amount(120_000_000)),
            cost_line("latency_per_second", amount(3_000_000, at_least=True), amount(2_500_000, at_least=True)),
        ),
    ),
)

UNPROVEN = replace(
    EXAMPLE,
    weaker=(),
    cost=Cost("two profiles", None, ()),
    gap=Gap((), (Level("adms", 4, 3), Level("overhead", 1_600_000_000, 1_250_000_000))),
    moves=(
        replace(
            EXAMPLE.moves[0],
            cause=Cause("one of these 3, or several: call `a -> b` came", (line(20),), False, (line(31), line(32))),
        ),
    ),
    rollout=EXAMPLE.rollout.__class__(
        (), (), (), ("frontend",), Steps(0, 0, "`slow` and `again` change sides in opposite directions")
    ),
    notes=("BASE was compiled by another version of admc",),
)

BAD = (
    "\x1b[2J\n::error file=x::owned\r\n`</details><script>alert(1)</script>` | **b** @all #1 "
    "https://evil.example ![i](x)"
)
HOSTILE = replace(
    EXAMPLE,
    app=f"app{BAD}",
    base=replace(taken(f"main{BAD}", OLD), path=f"a b/(x)/{BAD}.adm"),
    head=taken(f"HEAD{BAD}", f'{NEW}"><b>)', How.COMPILED, BAD),
    weaker=(
        replace(LOST, text=BAD, calls=(CallName(f"s{BAD}", "]]>&\u202e\x00", 1),), policy=BAD),
        replace(
            RAISED,
            text='` lone tick "]; click n0 href "javascript:alert(1)"',
            change=Change("requests", "a|b", "```\n# c"),
            head_line=SourceLine(f"{BAD}\u2066.adm", 3),
        ),
    ),
    adms=(AdmChange(BAD, 0, 1, (), (BAD,)), AdmChange("end", 1, 0, ("1. list",), ())),
    program=(Named("call", f"a -> {BAD}", "came", BAD, SourceLine(BAD, 1)),),
    renames=(Rename(BAD, "x"),),
    gates=(replace(GATES[3], name=BAD, reason=BAD, condition=BAD, text=BAD, line=SourceLine(BAD, 2)),),
    notes=(BAD,),
)

CASES: dict[str, Diff] = {
    "example": EXAMPLE,
    "equal": replace(PLAIN, head=taken("main", NEW)),
    "program_alone": replace(PLAIN, program=(Named("file", "quotas.adm", "came", None, line(1, "quotas.adm")),)),
    "every_word": EVERY_WORD,
    "gates": replace(EXAMPLE, gates=GATES),
    "broken_base": replace(
        PLAIN,
        base=taken("main", OLD, How.BROKEN, "`policies.adm` has 2 errors, the first: no service `crat` (ADM101)"),
        base_counts=Counts(0, 0, 0, 0),
        levels=(Level("adms", None, 4),),
        gates=(replace(GATE, verdict=Verdict.NOT_JUDGED, text="BASE is broken"),),
        notes=("BASE has no plan to compare with, so what gets weaker is not known: 2 errors",),
    ),
    "new_program": replace(
        PLAIN,
        base=taken("main", OLD, How.NOTHING),
        base_counts=Counts(0, 0, 0, 0),
        adms=(AdmChange("rate", 0, 1, (), ("rate_readers",)),),
        rollout=Rollout((Restart("rate", 1, comes=True),), (), (), (), None),
        stricter=(finding(Word.GAINED, "rate_readers", "* rate", "newly guarded by `rate_readers`", head=52),),
    ),
    "many": replace(PLAIN, weaker=MANY, head_counts=Counts(5, 9, 70, 1), gates=GATES),
    "no_causes": MTLS,
    "costs": COSTS,
    "unproven": UNPROVEN,
    "hostile": HOSTILE,
}
