"""Reads files up to a maximum size, and writes them atomically.

An existing file survives every failure of a write, even a full disk: the new content is complete and flushed to the
disk under a temporary name before it replaces the file.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from admc.base.exits import CommandError, wrong_usage

_NAME_PART = 100
"""Characters of a file's name that the name of its temporary file contains."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp")


def is_temporary(name: str, names: Collection[str]) -> bool:
    """Whether `name` is a temporary file of one of `names`. Only a killed process leaves such a file."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and any(other[:_NAME_PART] == match[1] for other in names)


def present(path: Path) -> bool:
    """Whether the path exists. False also for an invalid name or an inaccessible folder: the error then appears when
    the caller opens or creates the file."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether the path is a folder. False also for an invalid name or an inaccessible folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_bounded(path: Path, limit: int, what: str, *, regular: bool = False) -> bytes:
    """Read a whole file. Raises `CommandError` if the file is not readable, or has more than `limit` bytes.

    `regular`: only a regular file is accepted, since a named pipe would block until another process writes to it.
    """
    try:
        # `Path.open` takes no opener.
        with open(path, "rb", opener=_open_nonblocking if regular else None) as stream:
            if regular and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(22, "it is not a regular file")
            # A pipe or a device has no size, so read one byte more than is allowed.
            content = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise wrong_usage("ADM802", f"cannot read {what} `{path}`", cause=system_message(error)) from error
    if len(content) > limit:
        raise wrong_usage(
            "ADM802",
            f"{what} `{path}` is too large",
            cause=f"it has more than {limit // 1_000_000} MB"
            if limit >= 1_000_000
            else f"it has more than {limit:,} bytes",
        )
    return content


def has_content(path: Path, content: bytes) -> bool:
    """Whether the path is a regular file with this content."""
    try:
        return read_bounded(path, len(content), "a file", regular=True) == content
    except CommandError:
        return False


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_whole(path: Path, content: bytes, *, inputs: tuple[Path, ...] = (), private: bool = False) -> bool:
    """Write `content` to `path`; False if the file has it already. `inputs` are files that must not be overwritten.

    Keeps the mode of an existing file; a `private` file is for its owner alone afterwards, and is
    written again if others have any right to it. Raises `CommandError`, also for a symbolic link: replacing it would
    not change its target, and writing through it could reach any file.
    """
    try:
        status = _permitted(path, inputs)
        mode = None if status is None else stat.S_IMODE(status.st_mode)
        is_right = not private or (mode is not None and not mode & _OTHERS)
        if status is not None and is_right and status.st_size == len(content) and path.read_bytes() == content:
            return False
        _replace(path, content, 0o600 if private else mode)
    except (OSError, ValueError) as error:
        raise _failure(path, error) from error
    return True


def status_to_replace(path: Path, inputs: tuple[Path, ...]) -> os.stat_result | None:
    """Return the status of an existing file, or None. Raises `CommandError` if the file must not be replaced."""
    try:
        return _permitted(path, inputs)
    except (OSError, ValueError) as error:
        raise _failure(path, error) from error


def check_folder(path: Path) -> None:
    """Check that the folder of a file exists. Raises `CommandError`."""
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
        hint=f"{_unchanged(path)}; name another place with `-o` or `--emit`",
    )


def _unchanged(path: Path) -> str:
    return "the file is unchanged" if os.path.lexists(path) else "nothing was written"


def _permitted(path: Path, inputs: tuple[Path, ...]) -> os.stat_result | None:
    if path == Path("-"):
        raise _refusal(
            path,
            "it usually means standard output",
            "leave `-o` out, and print the plan with `--json`",
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
        raise _refusal(path, "it is not a regular file", "use `--json` to print the plan")
    for source in inputs:
        try:
            other = source.stat()
        except OSError:
            continue  # an input that no longer exists cannot be overwritten
        if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
            raise _refusal(path, "the program is read from it", "name another file")
    return status


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name[:_NAME_PART]}.{secrets.token_hex(6)}.tmp")
    # O_EXCL: never write to an existing file or link of that name.
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
    """Make the rename survive a power cut. Some file systems cannot do this; the content is safe anyway."""
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
    """The system's error message, in the style of admc's."""
    message = getattr(error, "strerror", None) or "the system refused"
    return message[:1].lower() + message[1:]
