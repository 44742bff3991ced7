"""What the live view of `trainfare top` shows on a terminal of any size, and what each key changes."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.segment import SegmentLines
from rich.text import Text

from schemas.counting import how_many
from streams.cli.top.figures import Burn, Job, MeterView
from streams.cli.top.lines import BEHIND_MS, alert_lines, details, fleet, help_table, status
from streams.cli.top.rows import BY_KEY, Order, cells, heading, layout, matching, ordered
from streams.clock import Clock

TALL = 32
"""Number of lines from which the alerts are shown at the start."""
_KEYS = "q Quit  s Sort  r Reverse  / Filter  a Alerts  Enter Details  ? Help"
_CLOSING = ("escape", "q", "enter", "?")
_SHEET_WIDTH = 120


@dataclass(slots=True)
class _Sheet:
    """A text over the table, until Esc; `skip`: its lines that are scrolled away."""

    title: str
    job_id: str | None  # None: the help
    skip: int = 0


class View:
    """Jobs by burn rate; the bar stays on its job while figures change."""

    def __init__(self, clock: Clock, *, note: str = "", event_time: bool = False) -> None:
        """`event_time`: the instants of the figures are not those of this machine's clock."""
        self._clock, self.note, self._event_time = clock, note, event_time
        self._answered_ms = clock.monotonic_ms()
        self._moved_ms: int | None = None  # when the figures' time was last seen to advance
        self._fault: str | None = None
        self.words, self._typing = "", False
        self._wants_alerts: bool | None = None  # None: if there is room
        self._shows_alerts = False
        self._bar, self._top, self._room = 0, 0, 1
        self._under_bar: str | None = None
        self._sheet: _Sheet | None = None
        self._snapshot: MeterView | None = None
        self.order = Order()
        self.closed = False

    def answered(self, snapshot: MeterView) -> None:
        """Take new figures."""
        self._fault, self._answered_ms = None, self._clock.monotonic_ms()
        if self._snapshot is not None and self._snapshot.as_of_ms != snapshot.as_of_ms:
            self._moved_ms = self._answered_ms
        self._snapshot = snapshot

    def failed(self, fault: str) -> None:
        """The last figures stay, and the screen says why there are no newer ones."""
        self._fault = fault

    # -- keys ----------------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """Do what a key says."""
        moves = {
            "up": -1, "k": -1, "down": 1, "j": 1, "pgup": -self._room, "pgdn": self._room,
            "home": -10**9, "end": 10**9,
        }  # fmt: skip
        if key == "ctrl+c":
            self.closed = True
        elif self._typing:
            self._type(key)
        elif self._sheet is not None:
            if key in _CLOSING:
                self._sheet = None
            else:
                self._sheet.skip = max(0, self._sheet.skip + moves.get(key, 0))
        elif key in moves:
            self._move(moves[key])
        else:
            self._do(key)

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self._typing = False
        if key == "escape":
            self.words = ""
        elif key == "backspace":
            self.words = self.words[:-1]
        elif len(key) == 1:
            self.words += key
        self._to_top()

    def _do(self, key: str) -> None:
        if key == "q":
            self.closed = True
        elif key in ("s", "r"):
            self.order = self.order.after() if key == "s" else self.order.reversed()
            self._to_top()
        elif key == "/":
            self._typing = True
        elif key == "escape":
            self.words = ""
        elif key == "a":
            self._wants_alerts = not self._shows_alerts
        elif key == "?":
            self._sheet = _Sheet("trainfare top", None)
        elif key == "enter" and self._under_bar is not None:
            self._sheet = _Sheet("job", self._under_bar)

    def _move(self, by: int) -> None:
        jobs = self._jobs()
        self._bar = max(0, min(self._bar + by, len(jobs) - 1))
        self._under_bar = jobs[self._bar].job_id if jobs else None

    def _to_top(self) -> None:
        self._bar = self._top = 0
        self._under_bar = None

    # -- lines ---------------------------------------------------------------------------------------------

    def screen(self, width: int, height: int) -> RenderableType:
        """Everything at once."""
        if self._sheet is not None:
            return self._over(self._sheet, width)
        head = [fleet(self._snapshot), self._status(), *map(Text, self.note.splitlines())]
        self._shows_alerts = height >= TALL if self._wants_alerts is None else self._wants_alerts
        alerts = self._alerts(max(2, height * 3 // 10), width) if self._shows_alerts else []
        foot = Text(f"filter: {self.words}▏", "bold") if self._typing else Text(_KEYS, "dim")
        rows = self._rows(width, max(1, height - len(head) - len(alerts) - 2))
        return Group(*(_cut(line, width) for line in (*head, *rows, *alerts, foot)))

    def _jobs(self) -> list[Job]:
        """What is listed, with the bar on the job that it was on."""
        now = self._snapshot or MeterView(0, Burn())
        # While words are being typed, the jobs at hand are searched; then the meter's answer is of all its jobs.
        jobs = ordered(matching(now.jobs, "" if now.words == self.words else self.words), self.order)
        at = next((place for place, job in enumerate(jobs) if job.job_id == self._under_bar), self._bar)
        self._bar = max(0, min(at, len(jobs) - 1))
        self._under_bar = jobs[self._bar].job_id if jobs else None
        return jobs

    def _rows(self, width: int, room: int) -> list[Text]:
        """The titles and as many jobs as there is room for, the bar among them."""
        jobs, columns = self._jobs(), layout(width)
        self._room = room
        self._top = max(self._bar - room + 1, min(self._top, self._bar, max(0, len(jobs) - room)))
        titles = Text.assemble(*(heading(column, wide, self.order) for column, wide in columns), style="bold")
        shown = [Text.assemble(*cells(job, columns)) for job in jobs[self._top : self._top + room]]
        if shown:
            shown[self._bar - self._top].stylize("reverse")
        else:
            shown = [Text(), Text(f"  {self._why_empty()}")][:room]
        return [titles, *shown, *(Text() for _ in range(room - len(shown)))]

    def _alerts(self, room: int, width: int) -> list[Text]:
        """A line and the newest alerts; how many there is no room for stands in the line."""
        if self._snapshot is None:
            return []
        lines = list(alert_lines(self._snapshot.alerts, self._snapshot.as_of_ms).split("\n"))
        more = f" {len(lines) - room} more " if len(lines) > room else ""
        return [Text(f"── alerts{more or ' '}".ljust(width, "─"), "dim"), *lines[:room]]

    def _status(self) -> Text:
        by = f"by {BY_KEY[self.order.key].title}{self.order.arrow}"
        shown = f"{by} · filter: {self.words}" if self.words else by
        now = self._snapshot
        if now is not None and now.total > len(now.jobs):
            listed = f"the {len(now.jobs):,} that burn most of " if now.matched > len(now.jobs) else ""
            shown += f" · {listed}{now.matched:,} of {how_many(now.total, 'job')}"
        silent_ms = self._clock.monotonic_ms() - self._answered_ms
        now_ms = None if self._event_time else self._clock.now_ms()
        moving = self._moved_ms is not None and self._answered_ms - self._moved_ms < BEHIND_MS
        return status(self._snapshot, self._fault, silent_ms, now_ms, shown, moving=moving)

    def _why_empty(self) -> str:
        if self._snapshot is not None and (all_jobs := max(self._snapshot.total, len(self._snapshot.jobs))):
            listed = f"{all_jobs:,}"
            return f"none of {listed} jobs has {self.words!r} in its names, state, nodes or alerts; Esc shows all"
        if self._fault is not None:
            return "No figures yet; asked again each second."
        return "no jobs yet" if self._snapshot is not None else ""

    def _over(self, sheet: _Sheet, width: int) -> RenderableType:
        content = help_table()
        if sheet.job_id is not None:
            now = self._snapshot or MeterView(0, Burn())
            job = next((each for each in now.jobs if each.job_id == sheet.job_id), None)
            content = details(job, now.alerts, now.as_of_ms, width)
        return _Scrolled(Panel(content, title=sheet.title, subtitle="Esc closes"), sheet)


@dataclass(frozen=True, slots=True)
class _Scrolled:
    """A sheet from one of its lines on, which is never further than its last page."""

    content: RenderableType
    sheet: _Sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _SHEET_WIDTH)
        lines = console.render_lines(self.content, options.update(width=width, height=None))
        self.sheet.skip = min(self.sheet.skip, max(0, len(lines) - options.max_height))
        yield SegmentLines(lines[self.sheet.skip :], new_lines=True)


def _cut(line: Text, width: int) -> Text:
    """One line of the terminal."""
    line = line.copy()
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
