"""Reading with a bound, and writing whole or not at all.

An existing file survives everything that can go wrong on the way to its successor, a full disk included: the new
content is complete and on disk under another name before it takes the old one's place.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from admc.exits import CommandError, wrong_usage

_KEPT = 100
"""Characters of a file's name in the name of its temporary file."""
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp")


def is_temporary(name: str, names: Collection[str]) -> bool:
    """Whether `name` is that of a temporary file of one of `names`, which only a process that was killed leaves."""
    found = _TEMPORARY.fullmatch(name)
    return found is not None and any(other[:_KEPT] == found[1] for other in names)


def present(path: Path) -> bool:
    """Whether something is there. Where the system does not tell, for a name that is too long or a folder that may not
    be looked into, nothing is: what opens or makes it then says why that fails."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """The same for a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_bounded(path: Path, limit: int, what: str, *, regular: bool = False) -> bytes:
    """Content of a file named on the command line. Raises `CommandError` if that fails or it is too large.

    `regular`: for files that are followed, anything else is refused. A named pipe would hold up its reader until
    somebody writes, and for as long as the server runs if nobody does.
    """
    try:
        # `Path.open` takes no opener.
        with open(path, "rb", opener=_without_waiting if regular else None) as stream:
            if regular and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(22, "it is not a regular file")
            # A pipe or a device has no size to ask for: read one byte more than is allowed instead.
            content = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise wrong_usage("ADM802", f"cannot read {what} `{path}`", cause=system_message(error)) from error
    if len(content) > limit:
        raise wrong_usage(
            "ADM802",
            f"{what} `{path}` is too large",
            cause=f"it has more than {limit // 1_000_000} MB",
        )
    return content


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_whole(path: Path, content: bytes, *, inputs: tuple[Path, ...] = (), private: bool = False) -> bool:
    """Put `content` at `path`; False where it was there already. `inputs` are files that must not be overwritten.

    Keeps the mode of an existing file, unless it is `private`: then it is for its owner alone. A symbolic link is
    refused, not followed: replacing it would leave the file that it names as it was, and writing through it could reach
    any file.
    """
    try:
        status = _permitted(path, inputs)
        if status is not None and status.st_size == len(content) and path.read_bytes() == content:
            return False
        _replace(path, content, 0o600 if private else None if status is None else stat.S_IMODE(status.st_mode))
    except (OSError, ValueError) as error:
        raise _failure(path, error) from error
    return True


def status_to_replace(path: Path, inputs: tuple[Path, ...]) -> os.stat_result | None:
    """The file that would be replaced, None where there is none. Raises `CommandError` where it must not be."""
    try:
        return _permitted(path, inputs)
    except (OSError, ValueError) as error:
        raise _failure(path, error) from error


def check_folder(path: Path) -> None:
    """Whether the folder of a file that will be written is there. Raises `CommandError`."""
    try:
        path.parent.stat()
    except (OSError, ValueError) as error:
        raise _failure(path, error) from error


def _lacks_folder(path: Path, error: OSError | ValueError) -> bool:
    return isinstance(error, FileNotFoundError) and not present(path.parent)


def _failure(path: Path, error: OSError | ValueError) -> CommandError:
    return wrong_usage(
        "ADM803",
        f"cannot write `{path}`",
        cause=f"there is no folder `{path.parent}`" if _lacks_folder(path, error) else system_message(error),
        hint=f"{_left_as_it_was(path)}; name another place with `-o` or `--emit`",
    )


def _left_as_it_was(path: Path) -> str:
    return "this file is as it was before" if os.path.lexists(path) else "nothing was written"


def _permitted(path: Path, inputs: tuple[Path, ...]) -> os.stat_result | None:
    if path == Path("-"):
        raise _refusal(
            path, "elsewhere that means standard output", "leave `-o` away, and send the plan there with `--json`"
        )
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(path, "it is a symbolic link", "name the file that the link stands for")
    if stat.S_ISDIR(status.st_mode):
        raise _refusal(path, "it is a directory", "name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(path, "it is not a regular file", "use `--json` to send the plan elsewhere")
    for source in inputs:
        try:
            other = source.stat()
        except OSError:
            continue  # an input that went away cannot be overwritten
        if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
            raise _refusal(path, "the program is read from it", "name another file")
    return status


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name[:_KEPT]}.{secrets.token_hex(6)}.tmp")
    # O_EXCL: a file or link of that name, planted or left over, is never written through.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut. Some file systems cannot: the content is safe all the same."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _refusal(path: Path, cause: str, hint: str) -> CommandError:
    return wrong_usage("ADM803", f"admc does not write to `{path}`", cause=cause, hint=hint)


def system_message(error: OSError | ValueError) -> str:
    """The system's own words, in the style of the others."""
    said = getattr(error, "strerror", None) or "the system refused"
    return said[:1].lower() + said[1:]
