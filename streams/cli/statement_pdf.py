"""Draws a statement as a PDF of a page or two, with the library reportlab, which is an extra.

Names are those of strangers: they are drawn as text, never read as markup, and what the font lacks is escaped.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Final

from schemas.counting import how_many
from schemas.escaping import visible
from streams.costs.exact import exact_sum
from streams.costs.statement import ADJUSTED, DOLLARS, PARTS, ShownCurrency, TeamStatement, gpu_hours
from streams.errors import WrongUseError

_JOBS: Final = 15
_PROJECTS: Final = 12
_ADJUSTMENTS: Final = 10
_BILLS: Final = 6
_NAME_CHARS: Final = 64
_EXACT: Final = "the CSV of the statement has every job to the last digit"
_INK: Final = "#1d2433"
_DIM: Final = "#5b6475"
_LINE: Final = "#d5dae3"
_BAND: Final = "#f3f5f9"
_COSTS: Final = {
    "effective": "effective cost (commitments amortised)",
    "billed": "billed cost (cash)",
    "list": "list cost",
}


def must_have_reportlab() -> None:
    """Refuse where the library is absent.

    Raises:
        WrongUseError: It is.
    """
    if find_spec("reportlab") is None:
        raise WrongUseError(
            "--format pdf needs reportlab: pip install 'trainfare[pdf]'; csv and json need nothing"
        )


def drawn(text: str, most: int = _NAME_CHARS) -> str:
    """A stranger's text as the font can draw it: escaped, and cut where it is long."""
    seen = "".join(each if each.isascii() else _in_font(each) for each in visible(text[: 4 * most]))
    return seen if len(seen) <= most else f"{seen[: most - 3]}..."


def _in_font(each: str) -> str:
    try:
        each.encode("cp1252")
    except UnicodeEncodeError:
        return each.encode("unicode_escape").decode("ascii")
    return each


def written_pdf(found: TeamStatement, shown: ShownCurrency = DOLLARS) -> bytes:
    """The statement as a PDF, in a currency; the same statement gives the same bytes."""
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.units import mm
    from reportlab.platypus import SimpleDocTemplate

    out = io.BytesIO()
    document = SimpleDocTemplate(
        out,
        pagesize=A4,
        leftMargin=20 * mm,
        rightMargin=20 * mm,
        topMargin=18 * mm,
        bottomMargin=20 * mm,
        title=f"Statement: {drawn(found.title)}, {found.month}",
        author="trainfare",
        invariant=True,
    )
    footer = _footer(found)
    # A frame pads its content by 6 points at either side.
    document.build(_story(found, shown, document.width - 12), onFirstPage=footer, onLaterPages=footer)
    return out.getvalue()


def _footer(found: TeamStatement) -> Any:
    from reportlab.lib.units import mm

    proof = (
        f"manifest {found.manifest_sha256[:16]}, key {found.key_id}"
        if found.closed
        else "not closed: figures may change"
    )

    def draw(canvas: Any, document: Any) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 7.5)
        canvas.setFillColor(_DIM)
        canvas.drawString(20 * mm + 6, 11 * mm, f"{drawn(found.title, 40)}, {found.month}: {proof}")
        canvas.drawRightString(190 * mm - 6, 11 * mm, f"Page {document.page}")
        canvas.restoreState()

    return draw


def _story(found: TeamStatement, shown: ShownCurrency, width: float) -> list[Any]:
    from reportlab.platypus import KeepTogether, Spacer

    own, adjustments = found.own, found.adjustments
    made_of, late = found.in_cents(shown)
    story: list[Any] = [
        _text(f"Statement of {_month_name(found.month)}", 10, _DIM),
        _text(drawn(found.title), 20, _INK, is_bold=True),
        Spacer(1, 4),
        _text(_state(found, shown, made_of), 9, _DIM),
        *_rate(found, shown),
        Spacer(1, 10),
        _total(found, shown, width, made_of),
        Spacer(1, 12),
    ]
    shared = found.amount("unallocated_usd")
    beside = (
        {"billed_usd": f", {shown.said(shown.cents([shared])[0])} of it shares of lines that no job used"}
        if shared
        else {}
    )
    titles = {**dict(PARTS), ADJUSTED: "Adjustments of earlier months"}
    story += _section(
        "What it is made of",
        ("", shown.code),
        [(f"{titles[name]}{beside.get(name, '')}", shown.said(amount)) for name, amount in made_of.items()],
        (width - 90, 90),
        total=shown.said(shown.cents([found.total_usd])[0]),
    )
    if adjustments:
        kept = adjustments[:_ADJUSTMENTS]
        listed = [
            (each.of_month, drawn(each.reason, 70), str(each.jobs), shown.said(cent))
            for each, cent in zip(kept, late, strict=False)
        ]
        if len(adjustments) > len(kept):
            rest = exact_sum(late[len(kept) :])
            listed.append(("", f"{len(adjustments) - len(kept)} more", "", shown.said(rest)))
        story.append(
            KeepTogether(
                _section(
                    "Adjustments: what came after a month was closed",
                    ("Month", "Why", "Jobs", shown.code),
                    listed,
                    (60, width - 200, 50, 90),
                )
            )
        )
    if any(each.name for each in found.projects):
        groups = [
            (drawn(each.name, 44) or "(no project)", each.jobs, each.gpu_h, each.charge_usd)
            for each in found.projects
        ]
        story += _section(
            "By project",
            ("Project", "Jobs", "GPU-hours", shown.code, "Share"),
            _grouped(groups, shown, _PROJECTS, "projects"),
            (width - 300, 50, 80, 90, 80),
        )
    jobs = [(drawn(row.subject, 44), drawn(row.key[3], 24), gpu_hours([row]), row.charge_usd) for row in own]
    story += _section(
        "Largest jobs",
        ("Job", "Owner", "GPU-hours", shown.code),
        _cut_jobs(jobs, shown),
        (width - 290, 120, 80, 90),
    )
    story.append(KeepTogether([_text(each, 8, _DIM) for each in _small_print(found)]))
    return story


def _total(found: TeamStatement, shown: ShownCurrency, width: float, made_of: dict[str, Decimal]) -> Any:
    from reportlab.platypus import Table, TableStyle

    cells = [
        (f"Total ({shown.code})", shown.said(shown.cents([found.total_usd])[0])),
        ("Jobs", f"{len(found.own):,}"),
        ("GPU-hours", f"{gpu_hours(found.own):,.1f}"),
    ]
    if ADJUSTED in made_of:
        cells.insert(1, ("Of it earlier months", shown.said(made_of[ADJUSTED])))
    table = Table(
        [
            [_text(title, 8, _DIM) for title, _ in cells],
            [_text(value, 15, _INK, is_bold=True) for _, value in cells],
        ],
        colWidths=[width / len(cells)] * len(cells),
    )
    table.setStyle(
        TableStyle(
            [
                ("BACKGROUND", (0, 0), (-1, -1), _BAND),
                ("LEFTPADDING", (0, 0), (-1, -1), 10),
                ("BOTTOMPADDING", (0, 1), (-1, 1), 8),
                ("TOPPADDING", (0, 0), (-1, 0), 6),
            ]
        )
    )
    return table


def _section(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[float], total: str = ""
) -> list[Any]:
    """A title and a table; the first column is text, amounts stand at the right."""
    from reportlab.platypus import Spacer, Table, TableStyle

    body = [[*row] for row in rows]
    if total:
        body.append(["Total", *[""] * (len(head) - 2), total])
    has_head = any(head[:1])
    table = Table(
        [[_cell(cell) for cell in row] for row in ([[*head]] if has_head else []) + body],
        colWidths=[*widths],
        repeatRows=1 if has_head else 0,
    )
    # Texts come first: the title of the first number is one of these, or in a table of two columns the currency.
    numbers = next((at for at, each in enumerate(head) if each in ("Jobs", "GPU-hours")), len(head) - 1)
    style: list[Any] = [
        ("FONT", (0, 0), (-1, -1), "Helvetica", 9),
        ("TEXTCOLOR", (0, 0), (-1, -1), _INK),
        ("ALIGN", (numbers, 0), (-1, -1), "RIGHT"),
        ("LINEBELOW", (0, 0), (-1, -1), 0.4, _LINE),
        ("TOPPADDING", (0, 0), (-1, -1), 3),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
        ("LEFTPADDING", (0, 0), (0, -1), 0),
        ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ]
    if has_head:
        style += [("FONT", (0, 0), (-1, 0), "Helvetica", 8), ("TEXTCOLOR", (0, 0), (-1, 0), _DIM)]
    if total:
        style.append(("FONT", (0, -1), (-1, -1), "Helvetica-Bold", 9))
    table.setStyle(TableStyle(style))
    return [_text(title, 11, _INK, is_bold=True, is_heading=True), table, Spacer(1, 12)]


def _grouped(
    groups: Sequence[tuple[str, int, Decimal, Decimal]], shown: ShownCurrency, most: int, what: str
) -> list[tuple[str, ...]]:
    whole = exact_sum(each[3] for each in groups)
    kept = [*groups[:most]]
    if len(groups) > most:
        rest = groups[most:]
        kept.append(
            (
                f"{len(rest)} more {what}",
                sum(each[1] for each in rest),
                exact_sum(each[2] for each in rest),
                exact_sum(each[3] for each in rest),
            )
        )
    cents = shown.cents([each[3] for each in kept])
    return [
        (name, f"{jobs:,}", f"{hours:,.1f}", shown.said(cent), f"{charge / whole:.0%}" if whole > 0 else "")
        for (name, jobs, hours, charge), cent in zip(kept, cents, strict=True)
    ]


def _cut_jobs(
    jobs: Sequence[tuple[str, str, Decimal, Decimal]], shown: ShownCurrency
) -> list[tuple[str, ...]]:
    kept = [*jobs[:_JOBS]]
    if len(jobs) > _JOBS:
        rest = jobs[_JOBS:]
        kept.append(
            (
                f"{how_many(len(rest), 'more job')}",
                "",
                exact_sum(each[2] for each in rest),
                exact_sum(each[3] for each in rest),
            )
        )
    cents = shown.cents([each[3] for each in kept])
    return [
        (name, owner, f"{hours:,.1f}", shown.said(cent))
        for (name, owner, hours, _), cent in zip(kept, cents, strict=True)
    ]


def _state(found: TeamStatement, shown: ShownCurrency, made_of: dict[str, Decimal]) -> str:
    if found.closed:
        return f"Closed on {found.closed[:10]}. These charges do not change; what comes later is an adjustment of a later month."
    left = made_of.get("only_metered_usd")
    waiting = "" if left is None else f" {shown.said(left)} {shown.code} are on no bill yet."
    return f"Open: the month is not closed, and these charges may change.{waiting}"


def _rate(found: TeamStatement, shown: ShownCurrency) -> list[Any]:
    """At which rate amounts are converted, and what is charged in dollars."""
    if shown.rate is None:
        return []
    (dollars,) = DOLLARS.cents([found.total_usd])
    said = f"Amounts are in {shown.code}, at {shown.rate.words()}. Charges are kept in dollars: {DOLLARS.said(dollars)} USD in all."
    return [_text(said, 9, _DIM)]


def _small_print(found: TeamStatement) -> list[str]:
    rules = found.rules
    shares = [
        f"{what} {'shared by cost' if rule.value == 'weighted' else 'not shared'}"
        for what, rule in (("idle time", rules.idle), ("lines that no job used", rules.share_unallocated))
    ]
    bills = [
        f"{drawn(each.file, 40)} ({drawn(each.issuer, 30)}, {how_many(each.lines, 'line')})"
        for each in found.bills[:_BILLS]
    ]
    if len(found.bills) > _BILLS:
        bills.append(f"{len(found.bills) - _BILLS} more")
    unrated = "".join(f" {drawn(each.words, 200)}." for each in found.without_rate)
    said = [
        f"Charged at {_COSTS[rules.cost.value]}; {', '.join(shares)}. Amounts are rounded to cents so that each table sums: {_EXACT}.",
        f"The month is that of UTC, as months of bills are. Bills of the month: {'; '.join(bills) if bills else 'none'}.{unrated}",
    ]
    if found.closed:
        said.append(
            f"trainfare close {found.month} --verify checks the month against its manifest, SHA-256 {found.manifest_sha256}."
        )
    return said


def _text(text: str, size: float, colour: str, *, is_bold: bool = False, is_heading: bool = False) -> Any:
    """A paragraph of plain text: nothing in it is markup. A heading stays with what follows it."""
    from xml.sax.saxutils import escape

    from reportlab.lib.styles import ParagraphStyle
    from reportlab.platypus import Paragraph

    font = "Helvetica-Bold" if is_bold else "Helvetica"
    style = ParagraphStyle(
        "",
        fontName=font,
        fontSize=size,
        leading=size * 1.3,
        textColor=colour,
        splitLongWords=True,
        keepWithNext=is_heading,
        spaceAfter=3 if is_heading else 0,
    )
    return Paragraph(escape(text), style)


def _cell(text: str) -> Any:
    """A cell: long text breaks into lines, and a number stays whole."""
    return text if len(text) < 24 else _text(text, 9, _INK)


def _month_name(month: str) -> str:
    return f"{date.fromisoformat(f'{month}-01'):%B %Y}"
