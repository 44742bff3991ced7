"""`trainfare prices load FILE`: checks price lists and publishes them, or writes them to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from schemas.counting import how_many
from schemas.validate_sources import PRICES_PREFIX
from schemas.wire_types import MIN_TIME_MS
from streams.accounts.account import metered
from streams.cli.acting import worker_at
from streams.cli.deeds import put_on_record
from streams.cli.files import must_be_new, must_exist
from streams.cli.options import UrlOption, check_one_of, settings_for
from streams.cli.output import OutputFormat, write
from streams.cli.price_files import price_list, write_records
from streams.cli.price_output import book_of, price_grid, publish_account, publish_prices, send_prices, warn
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.errors import WrongUseError
from streams.prices.findings import findings
from streams.prices.records import format_of, records_of
from streams.prices.skypilot import zone_ids
from streams.prices.source import PriceFormat

_DATED = (PriceFormat.jsonl, PriceFormat.json, PriceFormat.csv)


def load(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV with a header, JSON lines, a JSON array, OpenCost's JSON, SkyPilot's catalogue, or a document of AWS, Azure or Google.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Compare with the prices of this embedded ClickHouse, too, before publishing."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be published, and publish nothing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write JSON lines for `replay` and `publish`, without Kafka; - is stdout."
        ),
    ] = None,
    from_format: Annotated[
        PriceFormat | None, typer.Option(help="Format of the file, if its content does not show it.")
    ] = None,
    cloud: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cloud of a catalogue, or of OpenCost's prices.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DATE",
            help="From when prices of a catalogue or OpenCost hold; else since ever.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file with warnings.")] = False,
    url: UrlOption = None,
    comment: Annotated[
        str, typer.Option("--comment", metavar="TEXT", help="Why, for those who look later; with --url.")
    ] = "",
) -> None:
    """Publish price records; workers apply them immediately, also to usage already metered.

    What is odd is a warning on stderr: price 0, a jump, spot above on-demand, a gap, a price never applied.
    """
    check_one_of(data, url)
    settings = settings_for(data)
    if comment and url is None:
        raise WrongUseError("--comment: only a worker keeps it; name one by --url")
    if out is not None and url is not None:
        raise WrongUseError("--out and --url: write the prices to a file, or send them to a worker")
    if out is not None:
        must_be_new(out)
    must_exist(
        [file], "name a price list (CSV, JSON, OpenCost, SkyPilot or a cloud's, optionally .gz or .zst)"
    )
    given = price_list(file, cloud, begin)
    form = from_format or format_of(given)
    if form in _DATED and (cloud is not None or begin is not None):
        option = "--cloud" if cloud is not None else "--from"
        raise WrongUseError(f"{option}: {file} is {form}, which names clouds and dates itself")
    now_ms = SystemClock().now_ms()
    # A file for `replay` must not move its clock: what it reads there is as old as events may be.
    records = records_of(given, form, now_ms if out is None else MIN_TIME_MS, newest_allowed_ms=now_ms)
    known = []
    if data is not None:
        with reader(settings) as store:
            known = book_of(store)
    warn(findings([(each.line, each.event) for each in records], known), strict=strict)
    account = given.offers.total()
    if account.read:
        sys.stderr.write(f"{account}\n")
    by_id = zone_ids(each.event.match.get("zone", "") for each in records)
    if form is PriceFormat.skypilot and by_id:
        sys.stderr.write(
            f"note: prices for zones by AWS's ids (use1-az4): {by_id}; they apply to jobs that send such ids in `zone`\n"
        )
    alone = sum(
        1 for each in records if each.event.component == "gpu" and "instance_type" not in each.event.match
    )
    if form is PriceFormat.skypilot and alone:
        sys.stderr.write(f"note: prices of GPUs alone, without a host in the catalogue: {alone}\n")
    if dry_run:
        write(price_grid(records), OutputFormat.table)
        sys.stdout.write(f"{how_many(len(records), 'price')} read as {form}; nothing was published\n")
    elif out is not None:
        write_records(out, records)
        sys.stderr.write(f"{how_many(len(records), 'price')} written to {out}\n")
    elif url is not None:
        send_prices(worker_at(None, url, settings), records, comment, url)
    else:
        publish_prices(settings.kafka, records)
        put_on_record(settings, "prices", str(now_ms), f"{file.name} as {form}", len(records), own_log=False)
        publish_account(
            settings.kafka,
            f"{PRICES_PREFIX}{form}",
            account if account.read else metered(len(records)),
            now_ms,
        )
