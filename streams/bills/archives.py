"""The files of bills behind a path: the file itself, unpacked, or those in a ZIP archive, which anybody may have made."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from schemas.counting import how_many
from streams.bills.files import BillFile
from streams.bills.limits import BYTES_MAX, MANIFEST, TEXT_ENDINGS
from streams.errors import WrongUseError
from streams.packed import open_packed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ARCHIVE_ENDING: Final = ".zip"
#: Bills that no archive brings: these are packed already, and read from files.
_PACKED: Final = (".parquet", ".gz", ".zst", ".zip")
_WORKBOOK: Final = "[Content_Types].xml"
ENTRIES_MAX: Final = 1_000
#: Its list of entries: it is read at once.
LIST_MAX_BYTES: Final = 2**20
#: So many bytes a packed byte may become. Bills become ten to a hundred; deflate can do a thousand.
RATIO_MAX: Final = 500
#: Any file may be packed that tightly up to here.
_SMALL_BYTES: Final = 2**20
_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_ENCRYPTED: Final = 0x1
_NAMES_SHOWN: Final = 5
_BUFFER_BYTES: Final = 2**16
_BROKEN: Final = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


def bill_files(paths: Iterable[tuple[str, Path]]) -> Iterator[BillFile]:
    """The files behind paths with the names that messages say; those of an archive in the order of their names.

    Raises:
        WrongUseError: An archive is damaged, has no bill, or more than the limits allow.
    """
    for name, path in paths:
        if path.suffix.lower() == ARCHIVE_ENDING:
            yield from _archived(name, path)
        else:
            yield BillFile(name, partial(open_packed, path))


def _archived(name: str, path: Path) -> Iterator[BillFile]:
    try:
        with _archive(path) as archive:
            entries = archive.infolist()
    except _BROKEN as fault:
        raise _damaged(name, fault) from None
    if any(entry.filename == _WORKBOOK for entry in entries):
        raise WrongUseError(f"{name}: is an Excel workbook; save the sheet as CSV (UTF-8)")
    if len(entries) > ENTRIES_MAX:
        raise WrongUseError(
            f"{name}: has {how_many(len(entries), 'entry', 'entries')}, expected {ENTRIES_MAX} at most; split it"
        )
    bills = sorted((entry for entry in entries if _is_bill(entry)), key=lambda entry: entry.filename)
    if not bills:
        has = ", ".join(_last(entry)[:80] for entry in entries[:_NAMES_SHOWN]) or "nothing"
        raise WrongUseError(f"{name}: has no file that ends in {', '.join(TEXT_ENDINGS)}, but {has}")
    unpacked = sum(entry.file_size for entry in bills)
    if unpacked > BYTES_MAX:
        raise WrongUseError(f"{name}: more than {BYTES_MAX} bytes unpacked; split it")
    for entry in bills:
        _check(f"{name}/{_last(entry)}", entry)
    for entry in bills:
        shown = f"{name}/{_last(entry)}"
        yield BillFile(shown, partial(_opened, shown, path, entry))


def _is_bill(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file of a bill, as it would be one in a folder; what is hidden, or about the export, is not."""
    parts = entry.filename.replace("\\", "/").lower().split("/")
    is_hidden = any(part.startswith((".", "_")) for part in parts if part.strip("."))
    return (
        parts[-1].endswith((*TEXT_ENDINGS, *_PACKED)) and not parts[-1].endswith(MANIFEST) and not is_hidden
    )


def _check(shown: str, entry: zipfile.ZipInfo) -> None:
    if entry.filename.lower().endswith(_PACKED):
        raise WrongUseError(f"{shown}: is packed within a ZIP archive; unpack the archive and name its files")
    if entry.flag_bits & _ENCRYPTED:
        raise WrongUseError(f"{shown}: is encrypted; unpack it with its password and name the file")
    if entry.compress_type not in _METHODS:
        raise WrongUseError(f"{shown}: is packed in another way than deflate; unpack it and name the file")
    if entry.file_size > max(_SMALL_BYTES, RATIO_MAX * entry.compress_size):
        raise WrongUseError(
            f"{shown}: becomes more than {RATIO_MAX} times as large when it is unpacked; is it a bill? "
            "If so, unpack it and name the file"
        )


def _last(entry: zipfile.ZipInfo) -> str:
    """The name without folders: no path of an archive is followed."""
    return entry.filename.replace("\\", "/").rpartition("/")[2]


def _archive(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(_BoundedFile(io.FileIO(path)))


def _opened(shown: str, path: Path, entry: zipfile.ZipInfo) -> IO[bytes]:
    try:
        with _archive(path) as archive:  # the stream keeps the file open
            return io.BufferedReader(_ArchiveEntry(shown, archive.open(entry)), _BUFFER_BYTES)
    except _BROKEN as fault:
        raise _damaged(shown, fault) from None


def _damaged(shown: str, fault: Exception) -> WrongUseError:
    said = " ".join(str(fault).split())[:200] or type(fault).__name__
    return WrongUseError(f"{shown}: is no whole ZIP archive: {said}; download it again")


class _BoundedFile(io.BufferedReader):
    """An archive of which no part larger than its list of entries may be is read at once, whatever its header says."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size if size is not None and 0 <= size <= LIST_MAX_BYTES else LIST_MAX_BYTES + 1)
        if len(found) > LIST_MAX_BYTES:
            raise zipfile.BadZipFile(f"its list of entries has more than {LIST_MAX_BYTES} bytes")
        return found


class _ArchiveEntry(io.RawIOBase):
    """An entry as it is unpacked; one that is damaged is refused in words."""

    def __init__(self, shown: str, entry: IO[bytes]) -> None:
        self._shown = shown
        self._entry = entry

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            found = self._entry.read(len(view))
        except _BROKEN as fault:
            raise _damaged(self._shown, fault) from None
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._entry.close()
        super().close()
