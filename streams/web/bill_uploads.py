"""Keeps files of bills on disk while their pieces arrive, within one number of bytes and of uploads for all senders.

A piece is a request of its own, so that every limit of requests holds for uploads. Times are handed in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from streams.bills.loading_wire import UploadedFile
from streams.web.errors import ApiError

#: Of all uploads together, as they are sent.
UPLOADS_MAX_BYTES: Final = 2 * 2**30
UPLOADS_MAX: Final = 8
#: One token may hold so many of them.
UPLOADS_OF_TOKEN_MAX: Final = 2
FILES_MAX: Final = 1_000
#: An upload to which nothing comes for so long is removed.
FORGOTTEN_AFTER_MS: Final = 120_000
_ENDINGS: Final = (".gz", ".zst", ".zip")


@dataclass
class BillUpload:
    """The files of one load."""

    token: str
    folder: Path
    heard_ms: int  # when the newest piece came
    sizes_bytes: list[int] = field(default_factory=list)  # of its files
    is_loading: bool = False


class BillUploads:
    """All uploads of one process."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], BillUpload] = {}  # by token and the sender's name of it

    @property
    def held_bytes(self) -> int:
        """The bytes of all uploads."""
        return sum(sum(each.sizes_bytes) for each in self._open.values())

    def append(self, token: str, name: str, file: int, offset: int, data: bytes, now_ms: int) -> None:
        """Append a piece to a file of an upload, which begins with its first piece; a piece that is there already changes nothing.

        Raises:
            ApiError: The piece fits to nothing that came before, or there is no room.
        """
        self.forget(now_ms)
        upload = self._open.get((token, name)) or self._opened(token, name, now_ms)
        if upload.is_loading:
            raise ApiError(409, "this upload is being loaded; begin another one")
        sizes = upload.sizes_bytes
        at = sizes[file] if file < len(sizes) else 0
        if file < len(sizes) and offset + len(data) == at:
            return  # sent again, since its answer was lost
        if file > len(sizes) or file >= FILES_MAX or offset != at or (file < len(sizes) - 1):
            self.remove(token, name)
            raise ApiError(
                409,
                f"piece of file {file} at {offset}: expected the pieces in order, without gaps; load again",
            )
        if self.held_bytes + len(data) > UPLOADS_MAX_BYTES:
            self.remove(token, name)
            raise ApiError(
                413,
                f"more than {UPLOADS_MAX_BYTES} bytes of bills wait here; send them packed (.gz, .zst, .zip, Parquet), "
                "or load when others have ended",
            )
        try:
            with (upload.folder / str(file)).open("ab") as out:
                out.write(data)
        except OSError as fault:
            self.remove(token, name)
            raise ApiError(
                503, f"there is no room for the bill in {upload.folder.parent}: {fault.strerror}", "no_room"
            ) from fault
        if file == len(sizes):
            sizes.append(0)
        sizes[file] += len(data)
        upload.heard_ms = now_ms

    def begin_load(self, token: str, name: str, names: Sequence[str]) -> list[UploadedFile]:
        """Close an upload; return its files under the names that their sender gives them. It stays until `remove`.

        Raises:
            ApiError: There is no such upload, or it has other files.
        """
        upload = self._open.get((token, name))
        if upload is None:
            raise ApiError(404, "there is no such upload, or it was given up; load again")
        if upload.is_loading or len(names) != len(upload.sizes_bytes):
            raise ApiError(
                409, f"the upload has {len(upload.sizes_bytes)} files, not {len(names)}; load again"
            )
        upload.is_loading = True
        found = []
        for number, each in enumerate(names):
            ending = next((known for known in _ENDINGS if each.endswith(known)), "")
            path = (upload.folder / str(number)).rename(upload.folder / f"{number}{ending}")
            found.append(UploadedFile(each, str(path)))
        return found

    def remove(self, token: str, name: str) -> None:
        """Remove an upload and its files."""
        upload = self._open.pop((token, name), None)
        if upload is not None:
            shutil.rmtree(upload.folder, ignore_errors=True)

    def forget(self, now_ms: int) -> None:
        """Remove uploads to which nothing came for long."""
        for key, upload in list(self._open.items()):
            if not upload.is_loading and now_ms - upload.heard_ms >= FORGOTTEN_AFTER_MS:
                self.remove(*key)

    def close(self) -> None:
        """Remove all."""
        for key in list(self._open):
            self.remove(*key)

    def _opened(self, token: str, name: str, now_ms: int) -> BillUpload:
        own = sum(1 for each in self._open.values() if each.token == token)
        if own >= UPLOADS_OF_TOKEN_MAX or len(self._open) >= UPLOADS_MAX:
            raise ApiError(503, "other bills are being loaded; load again when they have ended", "busy")
        try:
            folder = Path(tempfile.mkdtemp(prefix="trainfare-bills-"))
        except OSError as fault:
            raise ApiError(
                503, f"there is no room for the bill in {tempfile.gettempdir()}: {fault.strerror}", "no_room"
            ) from fault
        found = self._open[token, name] = BillUpload(token, folder, now_ms)
        return found
