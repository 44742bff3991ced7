"""Files and directories of this user alone: created for the owner only, and never opened through a link.

It must not follow a link in the last component of a path, nor widen permissions. Directories above are the system's
responsibility.
"""

import errno
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from sinks.errors import SinkError

logger = logging.getLogger(__name__)

DIR_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OF_OTHERS: Final = 0o077
_WRITABLE_BY_OTHERS: Final = 0o022
# O_NONBLOCK: a FIFO in place of the file would block until it has a writer.
_ALWAYS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def make_private_dir(path: Path) -> None:
    """Create `path` as a directory of mode 0700, or tighten an existing one.

    Missing parents are created, too, with the modes of the umask.

    Raises:
        SinkError: It is a link, no directory, another user's, or one that users share; or the system refused.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=DIR_MODE)
        if path.is_symlink():
            raise SinkError(f"{path} is a link; give the directory that it points to")
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS)
    except OSError as error:
        otherwise = "give a directory that this user can write"
        raise SinkError(f"{path}: {error.strerror}; {_remedy(error, otherwise)}") from error
    try:
        _tighten(path, descriptor)
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 atomically; a link in its place is replaced, not followed.

    Raises:
        SinkError: The system refused; the file is unchanged.
    """
    # Nobody can guess the name and plant a file; O_EXCL would refuse that, too.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ALWAYS, FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SinkError(
            f"{path} cannot be written: {error.strerror}; {_remedy(error, 'see to the owner of the directory')}"
        ) from error


def read_private(path: Path, max_bytes: int) -> bytes | None:
    """The content of the file; None if there is none.

    Args:
        path: The file. It must belong to this user or to root, and nobody else may write it.
        max_bytes: A longer file is refused, and not read.

    Raises:
        SinkError: It is a link, no regular file, another user's, writable by others, or too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _ALWAYS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_opened(path, error) from error
    try:
        found = os.fstat(descriptor)
        _check_regular(path, found)
        if found.st_uid not in (os.geteuid(), 0):
            raise SinkError(
                f"{path} belongs to user {found.st_uid}; it is not read. Remove it if it is not yours"
            )
        if found.st_mode & _WRITABLE_BY_OTHERS:
            raise SinkError(f"{path} may be written by other users; it is not read. Run: chmod go-w {path}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise SinkError(f"{path} is longer than {max_bytes} bytes; it is not read. Remove it")
    return data


def open_private(path: Path, flags: int) -> int:
    """Open a file of ours and return its descriptor; with O_CREAT it is created with mode 0600, or tightened to it.

    Args:
        path: The file.
        flags: Flags of `os.open`. O_TRUNC would empty the file before it is checked: truncate the descriptor instead.

    Raises:
        SinkError: It is a link, has a hard link, is no regular file or another user's; or the system refused.
        ValueError: `flags` has O_TRUNC.
    """
    if flags & os.O_TRUNC:
        raise ValueError("O_TRUNC empties a file before it is looked at; use os.ftruncate on the descriptor")
    try:
        descriptor = os.open(path, flags | _ALWAYS, FILE_MODE)
    except OSError as error:
        raise _not_opened(path, error) from error
    try:
        found = os.fstat(descriptor)
        _check_regular(path, found)
        if found.st_uid != os.geteuid():
            raise SinkError(
                f"{path} belongs to user {found.st_uid}; it is not used. Run as that user, or remove it"
            )
        if found.st_nlink > 1:
            raise SinkError(f"{path} has another name elsewhere (a hard link); it is not used. Remove it")
        if found.st_mode & _OF_OTHERS:
            os.fchmod(descriptor, FILE_MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _tighten(path: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise SinkError(
            f"{path} belongs to user {found.st_uid}, this process is of user {os.geteuid()}; "
            "run as that user, or give a directory of your own"
        )
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OF_OTHERS:
        return
    # /tmp, / and the like: making one of them private would stop everybody else.
    if (
        mode & stat.S_ISVTX
        or path.resolve() == Path(path.anchor or "/")
        or _holds_files_of_others(descriptor)
    ):
        raise SinkError(f"{path} is shared with other users; give a directory of its own")
    os.fchmod(descriptor, DIR_MODE)
    logger.warning(
        "directory was open to other users, its mode is now 0700",
        extra={
            "path": str(path),
            "old_mode": f"{mode:04o}",
            "runbook": "docs/trouble.md#data-directory-was-open",
        },
    )


def _holds_files_of_others(descriptor: int) -> bool:
    with os.scandir(descriptor) as entries:
        return any(entry.stat(follow_symlinks=False).st_uid != os.geteuid() for entry in entries)


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SinkError(f"{path} is no regular file; it is not used. Remove it")


def _not_opened(path: Path, error: OSError) -> SinkError:
    if path.is_symlink():
        return SinkError(f"{path} is a link, and files of ours are never opened through one. Remove it")
    return SinkError(
        f"{path} cannot be opened: {error.strerror}; {_remedy(error, 'see to its owner and mode')}"
    )


def _remedy(error: OSError, otherwise: str) -> str:
    """What mends it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "make room for it"
        case errno.ENOTDIR:
            return "a file stands where a directory must be: give another directory"
        case errno.EROFS:
            return "give a directory on a file system that may be written"
        case errno.EMFILE | errno.ENFILE:
            return "raise the limit of open files"
        case _:
            return otherwise
