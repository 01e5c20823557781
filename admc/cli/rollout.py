"""`admc rollout`: the rollout of a running server, and the operator's commands for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.cli.status import SERVER, connection, failure, no_admc, read, status_of, unreachable

DIGITS: Final = 8
"""The digits of a state's version that are shown, as in `admc status`."""


class Action(StrEnum):
    STATUS = "status"
    ABORT = "abort"
    CONTINUE = "continue"


def rollout(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.STATUS,
    server: Annotated[
        str, typer.Option("--server", metavar="URL", help="The address of the server's `--ops`.")
    ] = SERVER,
) -> int:
    """Show, abort or continue the rollout of a plan.

    `status` says what the rollout waits for. `abort` goes back to the plan before, step by step; the plan stays aborted
    until a newer one comes, or `continue`. The server takes these two from its own machine only.
    """
    from admc.base.exits import Exit
    from admc.cli.output import write_out

    app, text = _shown(server) if action is Action.STATUS else _commanded(server, action)
    write_out(visible(f"`{app}`: {text}" if app else text) + "\n")
    return Exit.DONE


def _shown(server: str) -> tuple[str, str]:
    """The app, and the state of its rollout in words; the app is empty if the server has none. Raises
    `CommandError`."""
    row = status_of(server).server
    if not row.app:
        return "", row.why or "no plan has been published yet"
    return row.app, row.rollout or f"nothing is under way, and the active state is {row.state[:DIGITS]}"


def _commanded(server: str, action: Action) -> tuple[str, str]:
    """The app, and the reaction of its server. Raises `CommandError`."""
    import http.client

    talk, path = connection(server, f"/rollout/{action}")
    try:
        talk.request("POST", path, body=b"{}", headers={"Content-Type": "application/json", "Connection": "close"})
        response = talk.getresponse()
        content = read(server, response)
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(server, failure(error)) from error
    finally:
        talk.close()
    if response.status in _CAUSES:
        raise _refused(action, response.status, content.decode("utf-8", "replace").strip())
    from admc.serve.observe.status import Commanded
    from dsl import documents

    try:
        done = documents.read(Commanded, content)
        return done.app, done.outcome
    except documents.DocumentError as error:
        raise no_admc(
            server, f"the response has HTTP status {response.status}, and is not one of `admc serve`"
        ) from error


_CAUSES: Final = {
    403: "send the command on the machine of the server",
    409: "`admc rollout status` shows what is under way",
    503: "the server has stored nothing, and goes on as before; mend the cause and send the command again",
}
"""A hint for each HTTP status with which a server refuses a command."""


def _refused(action: Action, status: int, cause: str) -> CommandError:
    return wrong_usage(
        "ADM856", f"the server did not {action} the rollout", cause=visible(cause[:500]), hint=_CAUSES[status]
    )
