"""`admc doctor`: checks that this machine has the programs and packages that admc needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DoctorFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def doctor(
    format_: Annotated[DoctorFormat, typer.Option("--format", help="How it is written.")] = DoctorFormat.TEXT,
) -> int:
    """Check that this machine has what admc needs."""
    import json

    from admc.base.exits import Exit
    from admc.base.terminal import visible
    from admc.cli.machine import Verdict, findings
    from admc.cli.output import write_out

    checks = findings()
    if format_ is DoctorFormat.JSON:
        rows = [
            {"subject": check.subject, "verdict": check.verdict, "said": check.state, "advice": check.advice}
            for check in checks
        ]
        write_out(json.dumps({"findings": rows}, indent=2) + "\n")
    else:
        wide = max(len(check.subject) for check in checks)
        for check in checks:
            advice = f"; {check.advice}" if check.advice else ""
            line = f"{check.verdict.value:<8} {check.subject:<{wide}}  {visible(check.state)}{advice}"
            write_out(line + "\n")
    return Exit.INPUT if any(check.verdict is Verdict.BAD for check in checks) else Exit.DONE
