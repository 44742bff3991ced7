"""`trainfare close 2026-10`: freezes a month under a signed manifest, and verifies one that is closed."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.calendar import UTC_ZONE
from streams.cli.bill_months import say_utc_month
from streams.cli.options import DataOption, UrlOption, check_one_of, settings_for
from streams.cli.output import FormatOption, OutputFormat, to_json, usd, write_summary
from streams.cli.reading import Reader, reader, reader_at
from streams.clock import SystemClock
from streams.costs.charge_sql import BillCost
from streams.costs.shares import Rule
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.costs.closing import ClosedMonth, ClosingRules

CostOption = Annotated[
    BillCost, typer.Option(help="Which cost of billed lines: effective (amortised), billed (cash) or list.")
]
IdleOption = Annotated[
    Rule, typer.Option(help="Share of idle time among jobs: weighted by cost, or none (a row of its own).")
]
ShareOption = Annotated[
    Rule,
    typer.Option(
        "--share-unallocated", help="Share of billed lines that no job used: weighted by cost, or none."
    ),
]


def close(
    month: Annotated[str, typer.Argument(metavar="MONTH", help="The month (UTC), e.g. 2026-10.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Change nothing; check a closed month against its manifest.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what the month would be closed with.")
    ] = False,
    unreconciled: Annotated[
        bool, typer.Option("--unreconciled", help="Close it though something of it is on no bill yet.")
    ] = False,
    cost: CostOption = BillCost.effective,
    idle: IdleOption = Rule.NONE,
    share_unallocated: ShareOption = Rule.NONE,
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Close a month: its charges never change again, and what comes later for it is an adjustment of the next month."""
    if verify and dry_run:
        raise WrongUseError("--verify and --dry-run: give one of them")
    rules = rules_of(cost, idle, share_unallocated)
    check_one_of(data, url)
    settings = settings_for(data)
    is_writing = not verify and not dry_run
    with reader(settings) if url is None else reader_at(url, settings, writes=is_writing) as store:
        if verify:
            _verify(store, month, form)
            return
        _say_shut_out(store, month)
        say_utc_month(month, settings.calendar.calendar())
        if dry_run:
            _show_open(store, month, rules, form, is_forced=unreconciled)
        else:
            closed, skipped = store.close_month(month, rules, is_forced=unreconciled)
            _show(closed, skipped, form)


def rules_of(cost: BillCost, idle: Rule, share_unallocated: Rule) -> ClosingRules:
    """How a month is charged.

    Raises:
        WrongUseError: A rule would be another one by team than by job.
    """
    from streams.costs.closing import ClosingRules

    for option, rule in (("--idle", idle), ("--share-unallocated", share_unallocated)):
        if rule is Rule.EVEN:
            raise WrongUseError(
                f"{option} even: a month is closed by job, where equal parts would be those of jobs and not of teams; weighted or none"
            )
    return ClosingRules(cost, idle, share_unallocated)


def _show(closed: ClosedMonth, skipped: list[str], form: OutputFormat) -> None:
    manifest: dict[str, Any] = msgspec.json.decode(closed.manifest)
    digest = hashlib.sha256(closed.manifest.encode()).hexdigest()
    if form is OutputFormat.json:
        found = {
            "manifest": manifest,
            "manifest_sha256": digest,
            "signature": closed.signature,
            "key_id": closed.key_id,
            "skipped": skipped,
            "tz": UTC_ZONE,
        }
        sys.stdout.write(to_json(found) + "\n")
        return
    money = ("charge_usd", "adjustments_usd", "unreconciled_usd")
    summary = {
        "month": manifest["month"],
        "tz": UTC_ZONE,
        "closed": manifest["closed"],
        **{name: usd(manifest[name]) if form is OutputFormat.table else manifest[name] for name in money},
        "rows": manifest["rows"],
        "bills": len(manifest["bills"]),
        "manifest": digest,
        "signed by key": closed.key_id,
    }
    write_summary(summary, {}, form)
    _say_skipped(skipped)


def _show_open(
    store: Reader, month: str, rules: ClosingRules, form: OutputFormat, *, is_forced: bool
) -> None:
    from streams.costs.closing import as_closed_now, early_reasons

    closing = as_closed_now(store, month, rules)
    totals = {
        "charge_usd": closing.total(adjustments=False),
        "adjustments_usd": closing.total(adjustments=True),
        "unreconciled_usd": closing.unreconciled_usd,
    }
    shown = {name: usd(value) if form is OutputFormat.table else value for name, value in totals.items()}
    reasons = early_reasons(store, month, SystemClock().now_ms())
    if not is_forced:
        reasons += closing.unreconciled_reasons
    summary: dict[str, object] = {"month": month, "tz": UTC_ZONE, **shown, "rows": len(closing.rows)}
    if form is OutputFormat.json:
        summary["refused"] = reasons
    write_summary(summary, {}, form)
    _say_skipped(closing.skipped)
    if form is OutputFormat.table:
        sys.stdout.write("nothing was closed\n")
    sys.stderr.write("".join(f"trainfare: closing it now would be refused: {reason}\n" for reason in reasons))


def _say_shut_out(store: Reader, month: str) -> None:
    from streams.costs.closing import shut_out

    if months := shut_out(store, month):
        which = "it" if len(months) == 1 else f"{len(months)} months with jobs"
        sys.stderr.write(
            f"trainfare: {month} is the first month to be closed, and months are closed in order: unless {months[0]} is closed "
            f"before it, {which} can never be\n"
        )


def _say_skipped(skipped: list[str]) -> None:
    if skipped:
        sys.stderr.write(
            f"trainfare: {', '.join(skipped)}: the minutes were dropped (meter.minutes_retention_days), so what came later for these "
            "closed months is not adjusted\n"
        )


def _verify(store: Reader, month: str, form: OutputFormat) -> None:
    from streams.costs.verifying import found_closed, verified

    closed = found_closed(store, month)
    found = verified(store, month, is_signed=store.is_signed(closed))
    if form is OutputFormat.json:
        record = {
            "month": month,
            "verified": not found.faults,
            "faults": found.faults,
            "notes": found.notes,
            "manifest": closed.manifest,
            "signature": closed.signature,
            "key_id": closed.key_id,
        }
        sys.stdout.write(to_json(record) + "\n")
    else:
        for word, texts in (("FAULT", found.faults), ("note", found.notes)):
            sys.stdout.write("".join(f"{word}: {visible(text)}\n" for text in texts))
        if not found.faults:
            sys.stdout.write(f"{month} is as it was closed\n")
    if found.faults:
        raise TrainfareError(f"{month} is not as it was closed: {how_many(len(found.faults), 'fault')}")
