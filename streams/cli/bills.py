"""`trainfare bills load`, `list` and `reconcile`: providers' bills beside what was metered."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.bills.limits import TEXT_ENDINGS
from streams.calendar import UTC_ZONE
from streams.cli.bill_months import say_utc_days
from streams.cli.files import must_exist
from streams.cli.manifests import bill_parts
from streams.cli.options import DataOption, UrlOption, check_one_of, levels_of, settings_for
from streams.cli.output import (
    FormatOption,
    Grid,
    OutputFormat,
    plain,
    say_full,
    say_none,
    to_json,
    usd,
    write,
)
from streams.cli.reading import Reader, reader, reader_at, reader_for
from streams.cli.spans import AskedSpan, LastOption, LastWeekOption, MonthOption, Step
from streams.clock import SystemClock
from streams.costs.loaded_bills_sql import CLOSED, LOADS
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.bills.outcome import LoadedFile

_ENDINGS: Final = (
    *(f"{each}{packed}" for each in TEXT_ENDINGS for packed in ("", ".gz", ".zst")),
    ".parquet",
    ".zip",
)
_WANTED: Final = "name a bill: CSV or JSON lines, also .gz, .zst or .zip, or Parquet, or a folder of them"
_LEVELS: Final = ("day", "account", "resource", "sku")
#: The months that a file has bills of.
_MONTHS: Final = """
SELECT DISTINCT formatDateTime(billing_period_start, '%Y-%m') AS name FROM bill_loads FINAL
WHERE file = {file:String} AND status = 'loaded' ORDER BY name
"""
#: What the lines of a file in other currencies come to.
_CONVERTED: Final = """
SELECT billing_currency, sum(billed_cost) AS billed, ifNull(sum(billed_usd), 0) AS usd, countIf(isNull(billed_usd)) AS unrated
FROM billed_lines
WHERE billing_currency != 'USD' AND load_id IN (SELECT load_id FROM bill_loads FINAL WHERE file = {file:String} AND status = 'loaded')
GROUP BY billing_currency ORDER BY billing_currency
"""
_GROUPS: Final = """
SELECT {by}, sum(r.metered_usd) AS metered_usd, sum(r.billed_usd) AS billed_usd, sum(r.correction_usd) AS correction_usd,
       sum(r.variance_usd) AS variance_usd,
       toFloat64(sum(r.variance_usd)) / nullIf(toFloat64(sum(r.billed_usd)), 0) AS variance_ratio,
       if(uniqExact(r.status) > 1, 'mixed', any(r.status)) AS status,
       arraySort(arrayDistinct(arrayFlatten(groupArray(r.causes)))) AS causes
FROM bill_reconciliation AS r
WHERE r.day >= {{first:String}} AND r.day < {{until:String}}
GROUP BY {by} ORDER BY {by} LIMIT {{limit:UInt64}}
"""
_TOTALS: Final = """
SELECT sum(r.metered_usd) AS metered_usd, sum(r.billed_usd) AS billed_usd, sum(r.correction_usd) AS correction_usd,
       sum(r.variance_usd) AS variance_usd, sumIf(r.metered_usd, r.status = 'only_metered') AS only_metered_usd,
       sumIf(r.billed_usd, r.status = 'only_billed') AS only_billed_usd
FROM bill_reconciliation AS r
WHERE r.day >= {first:String} AND r.day < {until:String}
"""
#: What the lines themselves say, of causes that are of a line.
_LINES: Final = """
SELECT cause, count() AS lines, sum(billed) AS lines_usd
FROM
(
    SELECT assumeNotNull(billed_usd) AS billed, arrayFilter(each -> each != '', [
        if(charge_category IN ('Credit', 'Adjustment', 'Tax', 'Purchase'), lower(toString(charge_category)), ''),
        if(is_correction OR charge_period_end <= billing_period_start, 'late_line', ''),
        if(commitment_discount_id != '', 'commitment', '')]) AS causes
    FROM billed_lines
    WHERE isNotNull(billed_usd) AND toDate(charge_period_start) < {until:String} AND toDate(charge_period_end - 1) >= {first:String}
)
ARRAY JOIN causes AS cause GROUP BY cause
"""
_FINDINGS: Final = """
SELECT cause, count() AS places, sum(r.metered_usd) AS metered_usd, sum(r.billed_usd) AS billed_usd,
       sum(r.correction_usd) AS correction_usd, sum(r.variance_usd) AS variance_usd
FROM bill_reconciliation AS r
ARRAY JOIN if(empty(r.causes) AND r.differs AND r.status = 'matched', ['price'], r.causes) AS cause
WHERE r.day >= {first:String} AND r.day < {until:String}
GROUP BY cause ORDER BY cause
"""
_CURRENCIES: Final = """
SELECT billing_currency, count() AS lines, sum(billed_cost) AS billed
FROM billed_lines
WHERE isNull(billed_usd) AND toDate(charge_period_start) >= {first:String} AND toDate(charge_period_start) < {until:String}
GROUP BY billing_currency ORDER BY billing_currency
"""
_LEFT_OUT: Final = """
SELECT uniqExact(d.day) AS days FROM billed_days AS d
WHERE d.day >= {first:String} AND d.day < {until:String}
    AND toYYYYMM(d.day) < (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
"""
#: What the bills of a month come to, on whatever days their lines are.
_OF_MONTH: Final = """
SELECT sum(assumeNotNull(l.billed_usd)) AS billed FROM billed_lines AS l
WHERE isNotNull(l.billed_usd) AND l.billing_period_start >= {first:String} AND l.billing_period_start < {until:String}
"""
_MONEY: Final = frozenset({"metered_usd", "billed_usd", "correction_usd", "variance_usd", "billed"})
_WHAT: Final = {
    "adjustment": "charges of category Adjustment",
    "commitment": "paid for by a commitment",
    "credit": "credits",
    "discount": "billed below the list price",
    "double_count": "lines that say the same twice, or two jobs that claim one resource",
    "late_line": "corrections, and charges of an earlier billing period",
    "missing_tag": "only billed, and no tag says whose",
    "price": "billed otherwise than metered without a cause here, so by price or by quantity",
    "purchase": "purchases",
    "tax": "taxes",
    "tier": "the SKU had several unit prices, or a free part",
    "unattributed": "only billed, without a resource and a tag",
}


def load(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="A bill: FOCUS, AWS CUR, Google Cloud, Azure, Oracle, a list or a licence invoice; CSV, JSON lines or Parquet, "
            "also .gz, .zst or .zip; or a manifest, or a folder of parts.",
        ),
    ],
    data: DataOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the files in the place of the bills that they are about.")
    ] = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Take the files for this format, whatever their header says: focus, aws-cur-2, aws-cur, gcp, azure-mca, azure-ea, "
            "oracle, seats, plain.",
        ),
    ] = "",
    issuer: Annotated[
        str, typer.Option(metavar="NAME", help="Who wrote the invoice, where a plain list does not say it.")
    ] = "",
    units_per_usd: Annotated[
        str,
        typer.Option(
            metavar="NUMBER", help="Rate of an invoice in another currency, e.g. 0.92; else that of each day."
        ),
    ] = "",
    is_trial: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Store nothing; show the sums by service, and what is not understood."
        ),
    ] = False,
    url: UrlOption = None,
) -> None:
    """Load bills: all of the files, or none; the same files again change nothing."""
    check_one_of(data, url)
    files = bill_parts(files, _ENDINGS, _WANTED)
    must_exist(files, _WANTED)
    from streams.bills.reading import AskedFormat  # loads Arrow

    asked = AskedFormat(format=form, issuer=issuer, units_per_usd=units_per_usd)
    if is_trial:
        from streams.cli.bills_trial import show_trials

        show_trials(files, asked)
        return
    with reader_for(data, url, writes=True) as store:
        for each in store.load_bills(files, asked, replace=replace):
            _say_loaded(each)
            if each.is_new:
                file = Path(each.name).name
                if each.other_currency_lines:
                    _say_converted(store, file)
                _say_closed(store, file)
        store.allocate_bills()


def allocate(
    data: DataOption = None,
    month: MonthOption = "",
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Put each line of the bills on the jobs that it is for; without --month of all months whose bills or meter have changed."""
    check_one_of(data, url)
    settings = settings_for(data)
    with reader(settings) if url is None else reader_at(url, settings, writes=True) as store:
        found = store.allocate_bills([month] if month else [])
    rows = [
        (*each[:3], *(usd(each[at]) if form is OutputFormat.table else each[at] for at in (3, 4, 5)))
        for each in found
    ]
    write(Grid(("month", "lines", "jobs", "to_jobs_usd", "to_idle_usd", "to_nobody_usd"), rows), form)
    if not found and form is OutputFormat.table:
        sys.stdout.write("nothing has changed since bills were allocated last\n")


def list_(data: DataOption = None, url: UrlOption = None, form: FormatOption = OutputFormat.table) -> None:
    """List the bills that were loaded, also those that were replaced."""
    with reader_for(data, url) as store:
        answer = store.ask(LOADS)
    rows = list(answer.rows())
    say_none(rows, form, "no bill is loaded: `trainfare bills load FILE`")
    if form is OutputFormat.table:
        rows = [(*row[:9], usd(row[9]), row[10], str(row[11])[:12]) for row in rows]
    write(Grid(answer.names, rows), form)


def reconcile(
    data: DataOption = None,
    first: Annotated[str, typer.Option("--from", metavar="DAY", help="First day, e.g. 2026-10-01.")] = "",
    until: Annotated[str, typer.Option("--to", metavar="DAY", help="The day after the last one.")] = "",
    last: LastOption = "",
    last_week: LastWeekOption = False,
    month: MonthOption = "",
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL[,LEVEL]", help="day (default), account, resource, sku; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Compare what was billed with what was metered, by days of UTC, and name what is found."""
    asked = AskedSpan(first=first, until=until, last=last, last_week=last_week, month=month)
    begin, end = asked.resolved(SystemClock().now_ms(), Step.day)
    span = {
        "first": day_of("--from", begin, date(2000, 1, 1)),
        "until": day_of("--to", end, date(2149, 1, 1)),
    }
    levels = ", ".join(levels_of(by, _LEVELS, "day"))
    check_one_of(data, url)
    settings = settings_for(data)
    with reader_for(data, url, settings=settings) as store:
        rows = store.records(_GROUPS.format(by=levels), **span, limit=limit)
        (totals,) = store.records(_TOTALS, **span)
        findings = _found(store, span)
        (known,) = store.records("SELECT count() AS loads FROM bill_loads FINAL")
        notes = _notes(store, span, is_billed=bool(known["loads"]))
        if month and not notes:
            notes = _other_days(store, month, span, totals)
    sys.stderr.write("".join(f"trainfare: {note}\n" for note in notes))
    say_utc_days(month, settings.calendar.calendar())
    say_full(rows, form, limit)
    if form is OutputFormat.json:
        found = {"tz": UTC_ZONE, "rows": rows, "totals": totals, "findings": findings}
        sys.stdout.write(to_json(found) + "\n")
        return
    write(_grid(rows, form), form)
    if form is OutputFormat.table:
        _show(totals, findings, is_billed=bool(known["loads"]))


def day_of(option: str, text: str, otherwise: date) -> str:
    """The day as ISO 8601.

    Raises:
        WrongUseError: The text is not a day.
    """
    if not text:
        return otherwise.isoformat()
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise WrongUseError(f"{option} {text}: expected a day such as 2026-10-01") from None
    if not date(1970, 1, 1) <= found <= date(2149, 1, 1):
        raise WrongUseError(f"{option} {text}: expected a day from 1970 to 2149")
    return found.isoformat()


def _notes(store: Reader, span: dict[str, str], *, is_billed: bool) -> list[str]:
    if not is_billed:
        return ["no bill is loaded; `trainfare bills load FILE`"]
    (left,) = store.records(_LEFT_OUT, **span)
    days = left["days"]
    said = f"{days} billed days are not compared: their minutes were dropped (meter.minutes_retention_days)"
    return [said] if days else []


def _other_days(store: Reader, month: str, span: dict[str, str], totals: dict[str, object]) -> list[str]:
    """Why what is billed on the days of a month is not what its bills come to, by which the month is charged."""
    (bills,) = store.records(_OF_MONTH, **span)
    of_bills = Decimal(str(bills["billed"]))
    of_days = sum((Decimal(str(totals[name])) for name in ("billed_usd", "correction_usd")), Decimal(0))
    if of_bills == of_days:
        return []
    said = (
        f"the bills of {month} come to {usd(of_bills)} USD, and lines of its days to {usd(of_days)}: here a line counts on the "
        "days of its charge period, in chargeback, close and statements in the month of its bill"
    )
    return [said]


def _found(store: Reader, span: dict[str, str]) -> list[dict[str, object]]:
    found = store.records(_FINDINGS, **span)
    of_lines = {row["cause"]: row for row in store.records(_LINES, **span)}
    for row in found:
        row["meaning"] = _WHAT.get(str(row["cause"]), "")
        line = of_lines.get(row["cause"], {"lines": None, "lines_usd": None})
        row |= {"lines": line["lines"], "lines_usd": line["lines_usd"]}
    for row in store.records(_CURRENCIES, **span):
        said = f"{plain(row['billed'])} {row['billing_currency']} in lines without a rate of their day: `trainfare fx load`"
        money = dict.fromkeys(("metered_usd", "billed_usd", "correction_usd", "variance_usd"), 0)
        found.append({"cause": "other_currency", "places": row["lines"], **money, "meaning": said})
    return found


def _grid(rows: list[dict[str, object]], form: OutputFormat) -> Grid:
    if not rows:
        return Grid(("bill_reconciliation",), [])
    shown = [[_cell(name, cell, form) for name, cell in row.items()] for row in rows]
    return Grid(tuple(rows[0]), shown)


def _cell(name: str, cell: object, form: OutputFormat) -> object:
    if name == "causes" and isinstance(cell, list | tuple):
        return " ".join(map(str, cell))
    if form is not OutputFormat.table:
        return cell
    if name == "variance_ratio":
        return "" if cell is None else f"{float(str(cell)):+.2%}"
    return usd(cell) if name in _MONEY else cell


def _show(totals: dict[str, object], findings: list[dict[str, object]], *, is_billed: bool) -> None:
    write(
        Grid(("", ""), [(name.replace("_", " "), usd(value)) for name, value in totals.items()]),
        OutputFormat.table,
    )
    for row in findings:
        lines = row.get("lines")
        of_lines = (
            "" if lines is None else f"; {how_many(int(str(lines)), 'line')} of {usd(row['lines_usd'])} USD"
        )
        money = ", ".join(
            f"{name.removesuffix('_usd')} {usd(row[name])}"
            for name in sorted(_MONEY & row.keys())
            if row[name]
        )
        sys.stdout.write(
            visible(
                f"FOUND {row['cause']}: {row['places']} x {row['meaning']}{f' ({money} USD)' if money else ''}{of_lines}"
            )
            + "\n"
        )
    if not findings and is_billed:
        sys.stdout.write("no cause found\n")
    if len(findings) > 1:
        sys.stdout.write(
            "one place may have several causes, and its dollars count for each; what each cause is worth:"
            " `trainfare chargeback --variance`\n"
        )


def _say_loaded(each: LoadedFile) -> None:
    from streams.bills.values import trimmed

    name = visible(each.name)
    if not each.is_new:
        sys.stdout.write(f"{name}: loaded already, nothing changed\n")
        return
    said = f"{name}: {each.format}, {how_many(each.lines, 'line')}, {trimmed(each.billed_usd)} USD"
    for count, what, rest in (
        (each.corrections, "correction", ""),
        (each.other_currency_lines, "line", " in other currencies"),
        (each.rounded, "number", " of more than 18 decimals, rounded"),
    ):
        said += f"; {how_many(count, what)}{rest}" if count else ""
    if each.replaces:
        said += f"; replaces {', '.join(map(visible, each.replaces))}"
    sys.stdout.write(said + "\n")
    for note in each.notes:
        sys.stdout.write(f"  {visible(note)}\n")


def _say_converted(store: Reader, file: str) -> None:
    """What the lines of a file in other currencies come to, and what to do about those without a rate."""
    for row in store.records(_CONVERTED, file=file):
        said = f"  {usd(row['billed'])} {visible(str(row['billing_currency']))} are {usd(row['usd'])} USD"
        if row["unrated"]:
            said += f"; {how_many(int(str(row['unrated'])), 'line')} without a rate of the day, charged to nobody until `trainfare fx load FILE`"
        sys.stdout.write(said + "\n")


def _say_closed(store: Reader, file: str) -> None:
    closed = {row["name"] for row in store.records(CLOSED)}
    for row in store.records(_MONTHS, file=file) if closed else ():
        if row["name"] in closed:
            sys.stdout.write(
                f"  {row['name']} is closed: its statements stay, and this is an adjustment of the next month that is closed\n"
            )
