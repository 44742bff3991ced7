"""Faults of a store's files, done to the parts of one table while nobody has the store open."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.sinks.stores import embedded

#: What a part's folder has; a column, compressed in blocks with a checksum each.
_OF_A_PART = "checksums.txt"
FOLDER = (
    "SELECT data_paths[1] AS path FROM system.tables WHERE database = currentDatabase() AND name = {t:String}"
)
_LARGEST = "SELECT path FROM system.parts WHERE database = currentDatabase() AND active AND table = {t:String} ORDER BY rows DESC"


def table_folder(data: Path, table: str) -> Path:
    return _paths(data, FOLDER, table)[0]


def largest_file(data: Path, table: str) -> Path:
    """The largest column of the largest part; parts that a merge has replaced are removed, as the engine would fall back on them."""
    active = _paths(data, _LARGEST, table)
    for folder in part_folders(table_folder(data, table)):
        if folder not in active:
            shutil.rmtree(folder)
    return max(active[0].glob("*.bin"), key=lambda each: each.stat().st_size)


def _paths(data: Path, sql: str, table: str) -> list[Path]:
    with embedded(data) as store:
        return [data / str(path) for path in store.query(sql, {"t": table})["path"].to_pylist()]


def part_folders(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if (each / _OF_A_PART).is_file()]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def cut_short(data: Path, table: str, stale: Path) -> None:
    cut(largest_file(data, table))


def file_missing(data: Path, table: str, stale: Path) -> None:
    largest_file(data, table).unlink()


def parts_missing(data: Path, table: str, stale: Path) -> None:
    for folder in part_folders(table_folder(data, table)):
        shutil.rmtree(folder)


def stale_copy(data: Path, table: str, stale: Path) -> None:
    """The parts of the table as they were in `stale`, a folder of it: a backup came back."""
    parts_missing(data, table, stale)
    for folder in part_folders(stale):
        shutil.copytree(folder, table_folder(data, table) / folder.name)


def byte_flipped(data: Path, table: str, stale: Path) -> None:
    file = largest_file(data, table)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


#: Kind -> what is done to (store, table, an earlier copy of the table's folder).
DAMAGE: dict[str, Callable[[Path, str, Path], None]] = {
    "cut short": cut_short,
    "a file missing": file_missing,
    "parts missing": parts_missing,
    "a stale copy": stale_copy,
}
