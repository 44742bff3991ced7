"""`trainfare upgrade check`: what this version will do to the tables, snapshots and settings of a meter, without doing it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from schemas.release import release
from sinks.errors import StoreInUse
from streams.cli.faults import FAILED
from streams.cli.options import DataOption, UrlOption, check_one_of
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.config.load import former_names, load_settings
from streams.config.settings import Settings

if TYPE_CHECKING:
    from sinks.clickhouse.upgrade import StoredForm, StoredHead
    from streams.cli.remote import RemoteReader


class UpgradeStep(NamedTuple):
    """A row of the command; `mend` is empty unless this version would refuse to start."""

    part: str
    subject: str
    happens: str
    mend: str = ""


def check(data: DataOption = None, url: UrlOption = None, form: FormatOption = OutputFormat.table) -> None:
    """Say what the first start of this version changes, without doing it; exit 1 where it would refuse to start."""
    check_one_of(data, url)
    settings = load_settings(os.environ, overrides={"clickhouse.data_dir": data})
    from sinks.clickhouse.upgrade import changes_to  # loads ClickHouse's client

    where, stored = _stored(settings, url)
    steps = [UpgradeStep("store", where, f"is looked at by trainfare {release()}; nothing is changed")]
    steps += [UpgradeStep("tables", *each) for each in changes_to(stored)]
    steps += _log(settings, stored.log)
    steps += _snapshots(stored.heads)
    steps += _settings()
    write(Grid(("part", "subject", "at the first start", "to mend"), steps), form)
    if any(each.mend for each in steps):
        raise typer.Exit(FAILED)


def _stored(settings: Settings, url: str | None) -> tuple[str, StoredForm]:
    """Where the store is, and what is in it: asked itself, or through the worker that has it open."""
    from sinks.clickhouse.upgrade import read_form
    from sinks.target import Embedded
    from streams.cli.reading import target_of
    from streams.cli.remote import RemoteReader, api_of, token_of
    from streams.cli.running_meter import of_running_meter, says_if_none_runs
    from streams.engine.shard.snapshot_format import HEAD_BYTES  # loads the decoder of snapshots

    if url is not None:
        return url, _through(RemoteReader(url, settings.web.token))
    settings = of_running_meter(settings)
    target = target_of(settings.clickhouse)
    try:
        with says_if_none_runs(settings):
            return str(target), read_form(target, HEAD_BYTES)
    except StoreInUse as in_use:
        if not isinstance(target, Embedded):
            raise
        found = api_of(target.data_dir, in_use)
        return f"{target}, open at {found}", _through(
            RemoteReader(found, token_of(target.data_dir, settings.web.token, settings.at_rest.keys))
        )


def _through(worker: RemoteReader) -> StoredForm:
    """What a worker of any version has, by its SQL."""
    from sinks.clickhouse.migrate import Form, origins_of
    from sinks.clickhouse.upgrade import HEADS, MIGRATIONS, StoredForm, StoredHead
    from streams.engine.shard.snapshot_format import HEAD_BYTES

    done = {str(name): int(str(checksum)) for name, checksum in worker.ask(MIGRATIONS, {}).rows()}
    heads = worker.ask(HEADS, {"bytes": HEAD_BYTES}).rows()
    comments = worker.view_origins()
    return StoredForm(
        Form(is_new=False, migrations=done, views=origins_of(comments or {})),
        [StoredHead(int(str(n)), int(str(version)), bytes.fromhex(str(head))) for n, version, head in heads],
        has_origins=comments is not None,
    )


def _log(settings: Settings, log: str) -> Iterator[UpgradeStep]:
    from streams.segmented_log.directory import DIRECTORY, how_to_go_on, lacks_log

    data = settings.clickhouse.data_dir
    if data is not None and lacks_log(data, log):
        yield UpgradeStep(
            "log", str(data / DIRECTORY), "is not there: `serve` would refuse to start", how_to_go_on(data)
        )


def _snapshots(heads: Sequence[StoredHead]) -> Iterator[UpgradeStep]:
    from streams.engine.shard.snapshot_format import FORMAT, format_in_head

    if not heads:
        yield UpgradeStep("snapshots", "all shards", "none yet")
        return
    readable, writers = 0, set[str]()
    for each in heads:
        found = format_in_head(each.head)
        if found is not None and found.format == FORMAT:
            readable += 1
            writers.add(found.written_by or "a version before 0.2.0")
            continue
        what = (
            "cannot be read"
            if found is None
            else f"have format {found.format}, and this version reads {FORMAT}"
        )
        by = f" (written by {found.written_by})" if found is not None and found.written_by else ""
        yield UpgradeStep(
            "snapshots",
            f"shard {each.shard}",
            f"{what}{by}",
            "keep the version that wrote them, or meter the log again into an empty store under another group",
        )
    if readable:
        yield UpgradeStep(
            "snapshots",
            f"{readable} shards",
            f"are read as they are: format {FORMAT}, written by {', '.join(sorted(writers))}",
        )


def _settings() -> Iterator[UpgradeStep]:
    former = former_names(os.environ)
    for renamed, origin in former:
        yield UpgradeStep(
            "settings",
            renamed.former,
            f"is read as {renamed.name} by {renamed.since} alone: rename it (from {origin})",
        )
    if not former:
        yield UpgradeStep("settings", "all", "are read as they are")
