"""The rows of `trainfare top`: which columns fit, the order of jobs, the text and colour of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from schemas.escaping import visible
from streams.cli.output import usd
from streams.cli.rule_titles import title_of
from streams.cli.top.figures import Job, is_unpriced

BARS = "▁▂▃▄▅▆▇█"
HIGH, VERY_HIGH = 1.5, 2.5
"""Ratios from which a job is marked: of the slowest burn rule, and of the fastest over its long window."""
LOW = 0.5


class Column(NamedTuple):
    """One column: its minimum and maximum width, and the field of a job that it sorts by and shows."""

    key: str
    title: str
    least: int
    most: int
    right: bool
    field: str | None

    def value(self, job: Job) -> Any:
        """The sort value."""
        return burning(job) if self.key == "ratio" else getattr(job, str(self.field))


COLUMNS = (
    Column("mark", "", 1, 1, False, None),
    Column("job", "job", 14, 34, False, "job_id"),
    Column("owner", "owner", 8, 16, False, "owner"),
    Column("team", "team", 8, 14, False, "team"),
    Column("state", "state", 9, 10, False, "state"),
    Column("gpus", "GPUs", 5, 8, True, "gpu_count"),
    Column("now", "$/h now", 9, 11, True, "usd_per_hour_now"),
    Column("m15", "15m", 8, 11, True, "usd_per_hour_15m"),
    Column("h1", "1h", 8, 11, True, "usd_per_hour_1h"),
    Column("expected", "expected", 9, 11, True, "expected_usd_per_hour"),
    Column("ratio", "ratio", 7, 8, True, "ratio"),
    Column("cost", "cost", 9, 12, True, "cost_usd"),
    Column("spark", "trend", 8, 24, False, None),
)
BY_KEY = {column.key: column for column in COLUMNS}
SORTS = tuple(column.key for column in COLUMNS if column.field is not None)
SORT_CYCLE = ("now", "ratio", "cost", "m15", "h1", "gpus", "job", "owner", "team", "state", "expected")
_FIRST = (
    "mark", "job", "now", "ratio", "cost", "gpus", "state", "owner", "spark", "m15", "expected", "h1", "team",
)  # fmt: skip
_MORE = (
    ("job", 24), ("team", 12), ("owner", 12), ("spark", 16), ("job", 34), ("spark", 24), ("owner", 16), ("team", 14),
    *((key, BY_KEY[key].most) for key in ("cost", "now", "m15", "h1", "expected", "state", "ratio", "gpus")),
)  # fmt: skip
"""Columns that get the remaining width in turn, with their maximum."""


class Order(NamedTuple):
    """The sort column and direction."""

    key: str = "now"
    descending: bool = True

    def after(self) -> Order:
        """The next sort column, numbers descending and names ascending."""
        return Order.natural(SORT_CYCLE[(SORT_CYCLE.index(self.key) + 1) % len(SORT_CYCLE)])

    @staticmethod
    def natural(key: str) -> Order:
        """The usual direction of a column."""
        return Order(key, BY_KEY[key].right)

    def reversed(self) -> Order:
        """The opposite direction."""
        return Order(self.key, not self.descending)

    @property
    def arrow(self) -> str:
        """The sign of the direction."""
        return "↓" if self.descending else "↑"


def layout(width: int) -> list[tuple[Column, int]]:
    """The columns that fit a width, with the width of each."""
    chosen: list[str] = []
    left = width
    for key in _FIRST:
        need = BY_KEY[key].least + 1
        if need > left:
            break  # in order of importance: no less important column takes its place
        chosen.append(key)
        left -= need
    room = {key: BY_KEY[key].least for key in chosen}
    for key, enough in _MORE:
        if key in room:
            more = max(0, min(left, enough - room[key]))
            room[key] += more
            left -= more
    return [(column, room[column.key]) for column in COLUMNS if column.key in room]


def ordered(jobs: Iterable[Job], order: Order) -> list[Job]:
    """The jobs sorted; missing values come last in either direction, equal ones by cost.

    Raises:
        ValueError: The column cannot be sorted by.
    """
    column = BY_KEY[order.key]
    if column.field is None:
        raise ValueError(f"column {order.key} has nothing to sort by")
    listed = sorted(jobs, key=lambda job: (-job.cost_usd, job.job_id))
    known = [job for job in listed if column.value(job) is not None]
    known.sort(key=column.value, reverse=order.descending)
    return known + [job for job in listed if column.value(job) is None]


def matching(jobs: Iterable[Job], words: str) -> list[Job]:
    """The jobs whose names, state or alerts contain every word, ignoring case."""
    wanted = words.lower().split()
    return [job for job in jobs if all(word in _haystack(job) for word in wanted)]


def _haystack(job: Job) -> str:
    names = (job.job_id, job.owner, job.team, job.project, job.experiment, job.state)
    return "\n".join((*names, *(f"{alert.rule} {title_of(alert.rule)}" for alert in job.alerts))).lower()


def cells(job: Job, columns: Sequence[tuple[Column, int]]) -> list[Text]:
    """The row of a job, each cell padded to its column's width and gap."""
    return [_cell(*_content(job, column, room), column, room) for column, room in columns]


def heading(column: Column, room: int, order: Order) -> Text:
    """A column's title, with the sign of the direction if it is the sort column."""
    return _cell(column.title + (order.arrow if column.key == order.key else ""), "", column, room)


def _cell(text: str, style: str, column: Column, room: int) -> Text:
    cell = Text(text, style)
    cell.truncate(room, overflow="ellipsis")
    cell.align("right" if column.right else "left", room)
    return cell.append(" ")


def _content(job: Job, column: Column, room: int) -> tuple[str, str]:
    match column.key:
        case "mark":
            return alert_sign(job)
        case "job":
            return middle(visible(job.job_id), room), ""
        case "ratio":
            return ratio_sign(burning(job))
        case "spark":
            return sparkline(job.sparkline, room), ratio_sign(burning(job))[1]
        case "gpus":
            return count(job.gpu_count), ""
        case "owner" | "team" | "state":
            ended = column.key == "state" and job.ended_ms is not None
            return visible(column.value(job)), "dim" if ended else ""
        case "cost" if is_unpriced(job):
            return ("unpriced" if not job.cost_usd else f"≥{money(job.cost_usd)}"), "yellow"
        case _:
            value: Decimal = column.value(job)
            return money(value), "" if value else "dim"


def alert_sign(job: Job) -> tuple[str, str]:
    """The sign of the most severe firing alert of a job: filled for a page, hollow for a ticket."""
    firing = [alert.severity for alert in job.alerts if alert.status == "firing"]
    if "page" in firing:
        return "●", "bold red"
    return ("○", "yellow") if firing else (" ", "")


def burning(job: Job) -> float | None:
    """A job's ratio while it has a rate; otherwise None, which has no sign."""
    return job.ratio if job.usd_per_hour_now else None


def ratio_sign(ratio: float | None) -> tuple[str, str]:
    """Actual over expected with its sign, and a matching colour."""
    if ratio is None:
        return "-  ", "dim"
    shown = f"{ratio:.2f}" if ratio < 100 else f"{min(ratio, 99_999):.0f}"
    if ratio >= VERY_HIGH:
        return f"{shown}▲▲", "bold red"
    if ratio >= HIGH:
        return f"{shown}▲ ", "yellow"
    return (f"{shown}▽ ", "cyan") if ratio < LOW else (f"{shown}  ", "green")


def sparkline(points: Sequence[tuple[int, float]], room: int) -> str:
    """The newest values as bars from zero; nothing is a blank, and a small value is still a bar."""
    values = [max(0.0, value) for _, value in points[-room:]]
    top = max(values, default=0.0)
    if top == 0:
        return "".join(" " for _ in values)
    bars = (" " if value == 0 else BARS[min(7, int(value / top * 8))] for value in values)
    return "".join(bars).rjust(room)


def money(value: Decimal) -> str:
    """Format dollars for a column: cents, fewer digits where large amounts have no room for them."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:,.2f}M"
    if value >= 10_000:
        return f"{value:,.0f}"
    return str(usd(value).to(2))


def count(gpus: Decimal) -> str:
    """Format a number of GPUs without trailing zeros."""
    return f"{gpus.normalize():f}" if gpus else "0"


def middle(text: str, room: int) -> str:
    """Shorten a name in its middle: the numbers that distinguish jobs are at the end."""
    if cell_len(text) <= room:
        return text
    tail = (room - 1) // 2
    return set_cell_size(text, room - 1 - tail) + "…" + text[-tail:]
