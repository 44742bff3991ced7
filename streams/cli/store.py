"""`trainfare store backup`, `restore` and `retention`: the tables as a whole."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.counting import how_many
from streams.cli.options import DataOption, require_store, settings_for
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from sinks.clickhouse.backup import BackupPlace
    from sinks.target import Target

_MB: Final = 1e6
PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A directory (with --data), disk:NAME/PATH of the server, or an https address of S3, with the keys of AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY or without any.",
    ),
]


def backup(place: PlaceArgument, data: DataOption = None) -> None:
    """Back up all tables. A worker beside a server may run on; with --data it has to be stopped."""
    from sinks.clickhouse.backup import back_up
    from streams.cli.reading import target_of

    settings = settings_for(data)
    require_store(settings)
    target = target_of(settings.clickhouse)
    where = _place(place, target)
    for part in back_up(target, where):
        sys.stdout.write(f"{part.name}: {how_many(part.files, 'file')}, {part.size_bytes / _MB:,.1f} MB\n")
    sys.stdout.write(f"backed up {target} to {where.address}\n")
    if beside := _beside(target):
        sys.stdout.write(
            f"not in it, copy them too (cp -a) before `trainfare serve` runs again: {', '.join(map(str, beside))}\n"
        )


def restore_(place: PlaceArgument, data: DataOption = None) -> None:
    """Restore a backup into an empty directory or database, and bring its tables to the form of this version."""
    from sinks.clickhouse import ClickHouseStore
    from sinks.clickhouse.backup import restore
    from sinks.target import Embedded
    from streams.cli.reading import target_of
    from streams.segmented_log.directory import how_to_go_on, lacks_log

    settings = settings_for(data)
    require_store(settings)
    target = target_of(settings.clickhouse, may_begin=True)
    rows = restore(target, _place(place, target))
    with closing(ClickHouseStore(target)) as store:
        log = store.meta.get("log") or ""
    goes_on = "workers go on from its snapshots, as far as the log has the records since"
    if isinstance(target, Embedded) and lacks_log(target.data_dir, log):
        goes_on = f"before `trainfare serve` can go on with it, {how_to_go_on(target.data_dir)}"
    sys.stdout.write(f"restored {how_many(rows, 'row')} into {target}; {goes_on}\n")


def retention(
    data: DataOption = None,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, help="Instead of meter.minutes_retention_days."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which months, and drop none.")] = False,
) -> None:
    """Drop whole months of minutes that are older than the retention, as a worker does once an hour."""
    from sinks.clickhouse import ClickHouseStore
    from streams.cli.reading import target_of
    from streams.worker.storing.retention import drop_old_minutes, old_months

    settings = settings_for(data)
    require_store(settings)
    kept = settings.meter.minutes_retention_days if days is None else days
    if not kept:
        raise WrongUseError("meter.minutes_retention_days is 0, which keeps all minutes: name --days")
    store = ClickHouseStore(target_of(settings.clickhouse))
    try:
        found = old_months(store, kept) if dry_run else drop_old_minutes(store, kept)
    finally:
        store.close()
    verb = "would drop" if dry_run else "dropped"
    for table, months in found.items():
        named = ", ".join(f"{month // 100}-{month % 100:02}" for month in months)
        sys.stdout.write(f"{verb} {table}: {named}\n")
    if not found:
        sys.stdout.write(f"no month of minutes ended more than {kept} days before the newest event\n")


def _beside(target: Target) -> list[Path]:
    """What `trainfare serve` keeps beside the tables: the log, which it needs to go on, and secrets that it would make anew."""
    from sinks.target import Embedded
    from streams.costs import closing_key
    from streams.segmented_log.directory import DIRECTORY
    from streams.web import local_token

    if not isinstance(target, Embedded) or not (target.data_dir / DIRECTORY).is_dir():
        return []
    kept = (target.data_dir / name for name in (DIRECTORY, local_token.FILE_NAME, closing_key.FILE_NAME))
    return [path for path in kept if path.exists()]


def _place(text: str, target: Target) -> BackupPlace:
    from sinks.clickhouse.backup import place_of

    keys = (os.environ.get(name, "") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    return place_of(text, target, *keys)
