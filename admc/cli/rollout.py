"""`admc rollout`: what a running server's rollout waits for, and the operator's word on it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from admc.cli.status import SERVER, connection, failure, fetched, read, unreachable
from admc.exits import CommandError, wrong_usage
from admc.terminal import visible


class Action(StrEnum):
    STATUS = "status"
    ABORT = "abort"
    CONTINUE = "continue"


def rollout(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.STATUS,
    server: Annotated[str, typer.Option("--server", metavar="URL", help="Where the server's `--ops` is.")] = SERVER,
) -> int:
    """Show, abort or continue the rollout of a plan.

    `abort` goes back to the plan before, step by step. The plan stays aborted until a newer one comes, or `continue`.
    Both work on the machine of the server alone.
    """
    from admc.cli.output import write_out
    from admc.exits import Exit

    if action is Action.STATUS:
        from admc.serve.observe.status import from_json

        found = from_json(fetched(server))
        write_out((visible(found.server.rollout) or "nothing is under way") + "\n")
        return Exit.DONE
    write_out(visible(_commanded(server, action)) + "\n")
    return Exit.DONE


def _commanded(server: str, action: Action) -> str:
    """The server's answer. Raises `CommandError`."""
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
    if response.status != http.client.OK:
        raise _refused(action, content.decode("utf-8", "replace").strip())
    try:
        return str(json.loads(content)["outcome"])
    except (ValueError, KeyError, TypeError) as error:
        raise unreachable(server, "its answer is not one of `admc serve`") from error


def _refused(action: Action, cause: str) -> CommandError:
    return wrong_usage(
        "ADM823",
        f"the server did not {action} the rollout",
        cause=visible(cause[:500]),
        hint="it takes this command from its own machine alone",
    )
