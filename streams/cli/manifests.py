"""The parts of a bill that an export's manifest names: all of them, or the command is refused.

AWS writes the manifest of a Cost and Usage Report last, and beside it there may be parts of former versions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec

from schemas.counting import how_many
from schemas.escaping import visible
from streams.bills.limits import MANIFEST
from streams.cli.files import PARTS_MAX, with_parts
from streams.errors import WrongUseError

_BYTES_MAX: Final = 4 * 2**20
#: Folders above the manifest in which its parts may lie: Data Exports have `data` beside `metadata`.
_ABOVE_MAX: Final = 4
_SHOWN: Final = 5
_WANTED: Final = "expected the manifest of an AWS Cost and Usage Report (reportKeys), of AWS Data Exports (dataFiles) or of Azure's exports (blobs)"


class _Blob(msgspec.Struct):
    name: str = msgspec.field(name="blobName")
    size: int = msgspec.field(name="byteCount", default=-1)


class _Manifest(msgspec.Struct):
    report_keys: list[str] = msgspec.field(name="reportKeys", default=[])
    data_files: list[str] = msgspec.field(name="dataFiles", default=[])
    blobs: list[_Blob] = []

    def parts(self) -> list[_Blob]:
        """The parts by their names in the bucket, and how many bytes they have; -1: it does not say."""
        return [*(_Blob(name, -1) for name in (*self.report_keys, *self.data_files)), *self.blobs]


class _ManifestPlace(NamedTuple):
    """Where parts lie: under a folder, by so many of the last names of their paths."""

    root: Path
    names: int

    def of(self, part: _Blob) -> Path:
        return self.root.joinpath(*_names(part.name)[-self.names :])


def bill_parts(paths: list[Path], endings: tuple[str, ...], wanted: str) -> list[Path]:
    """The files of the paths: of a manifest those that it names, of a folder those of its manifests, else all below it.

    Raises:
        WrongUseError: A part of a manifest is missing or has another size, or a folder has no such file.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_file() and path.name.lower().endswith(MANIFEST):
            parts = _parts_of(path)
            if parts is None:
                raise WrongUseError(f"{path}: {_WANTED}")
            found += parts
        elif path.is_dir() and (named := _named_in(path)):
            below = {*with_parts([path], endings, wanted, MANIFEST)}
            if left := below - named:
                sys.stderr.write(
                    f"trainfare: {path}: passed over, as the manifest does not name them: {_listed(sorted(left))}\n"
                )
            found += sorted(named)
        else:
            found += with_parts([path], endings, wanted, MANIFEST)
    return found


def _named_in(folder: Path) -> set[Path]:
    """What the manifests below a folder name; of one name in a folder and below it the upper one is the newest."""
    manifests = [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith(MANIFEST)
        and path.is_file()
        and not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
    ]
    places = {*manifests}
    named: set[Path] = set()
    for path in manifests:
        above = path.parent.parents[: len(path.parent.relative_to(folder).parts)]
        if not any(at / path.name in places for at in above):
            named.update(_parts_of(path) or ())
    return named


def _parts_of(path: Path) -> list[Path] | None:
    """The files that a manifest names; None: it is none that is known."""
    with path.open("rb") as opened:
        content = opened.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise WrongUseError(f"{path}: more than {_BYTES_MAX} bytes; {_WANTED}")
    try:
        parts = msgspec.json.decode(content, type=_Manifest).parts()
    except msgspec.MsgspecError:
        return None
    if not parts:
        return None
    if len(parts) > PARTS_MAX:
        raise WrongUseError(f"{path}: names {how_many(len(parts), 'part')}, {PARTS_MAX} at most")
    for part in parts:
        if not _names(part.name) or ".." in _names(part.name):
            raise WrongUseError(f"{path}: {visible(part.name[:200])!r} is no name of a part")
    place = max(_places(path, parts), key=lambda each: sum(each.of(part).is_file() for part in parts))
    files = [place.of(part) for part in parts]
    if missing := [file for file in files if not file.is_file()]:
        raise WrongUseError(
            f"{path}: {len(missing)} of {len(files)} parts are missing: {_listed(missing)}; the export was not copied whole: copy it "
            "again, and load then"
        )
    for file, part in zip(files, parts, strict=True):
        if part.size >= 0 and file.stat().st_size != part.size:
            raise WrongUseError(
                f"{file}: has {file.stat().st_size} bytes, and {path.name} says {part.size}; the export was not copied whole: copy it "
                "again, and load then"
            )
    return files


def _places(path: Path, parts: list[_Blob]) -> Iterator[_ManifestPlace]:
    """Yield where the parts may lie, those first that say the most of their paths."""
    deepest = min(len(_names(part.name)) for part in parts)
    for names in range(deepest, 0, -1):
        for root in [path.parent, *path.absolute().parent.parents][: _ABOVE_MAX + 1]:
            yield _ManifestPlace(root, names)


def _names(part: str) -> tuple[str, ...]:
    """The names of a part's path in its bucket."""
    inside = part.partition("://")[2].partition("/")[2] if "://" in part else part
    return tuple(name for name in PurePosixPath(inside).parts if name != "/")


def _listed(files: list[Path]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(visible(str(file)) for file in files[:_SHOWN]) + more
