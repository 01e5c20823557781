"""`admc doctor`: does this machine have what admc needs?"""

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

    found = findings()
    if format_ is DoctorFormat.JSON:
        write_out(json.dumps({"findings": [finding._asdict() for finding in found]}, indent=2) + "\n")
    else:
        wide = max(len(finding.subject) for finding in found)
        for finding in found:
            advice = f"; {finding.advice}" if finding.advice else ""
            line = f"{finding.verdict.value:<8} {finding.subject:<{wide}}  {visible(finding.said)}{advice}"
            write_out(line + "\n")
    return Exit.INPUT if any(finding.verdict is Verdict.BAD for finding in found) else Exit.DONE
