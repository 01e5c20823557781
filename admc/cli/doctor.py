"""`admc doctor`: checks that this machine, or an installation in a cluster, has what admc needs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from admc.base.exits import Exit, wrong_usage
from admc.cli.inject import check_installation
from admc.cli.plan import KubeconfigOption, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from admc.base.checks import Check


class DoctorFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def doctor(
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Check the installation NAME in its cluster instead of this machine."
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    format_: Annotated[DoctorFormat, typer.Option("--format", help="How it is written.")] = DoctorFormat.TEXT,
) -> int:
    """Check that this machine has what admc needs.

    With --cluster NAME it is the cluster that is checked, and what is installed there: the version of Kubernetes, the
    definitions, the server, the namespaces that take part. It only reads, with your own rights.
    """
    import json

    from admc.base import checks as shown
    from admc.cli.machine import checks as of_machine
    from admc.cli.output import write_out

    if cluster is None and kubeconfig is not None:
        raise wrong_usage("ADM801", "`--kubeconfig` is for `--cluster NAME`", hint="give both, or neither")
    checks = of_machine() if cluster is None else _of_cluster(cluster, kubeconfig)
    if format_ is DoctorFormat.JSON:
        write_out(json.dumps({"findings": shown.rows(checks)}, indent=2) + "\n")
    else:
        write_out(shown.text(checks))
    return Exit.INPUT if shown.is_bad(checks) else Exit.DONE


def _of_cluster(name: str, kubeconfig: Path | None) -> tuple[Check, ...]:
    import asyncio
    import time

    from admc.kubernetes.cluster.api.errors import ApiError
    from admc.kubernetes.doctor.checks import checks
    from admc.kubernetes.doctor.picture import look

    check_installation(name)
    try:
        picture = asyncio.run(look(name, kubeconfig))
    except ApiError as error:
        raise unreadable(error, "its version") from error
    return checks(name, picture, time.time())
