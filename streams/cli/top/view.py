"""The live view of `trainfare top`: a table of jobs that is updated each second, on a terminal of any size.

The source is handed in, called in a thread, and may be slow or fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from streams.cli.faults import described
from streams.cli.top.figures import Burn, Job, MeterView, Source
from streams.cli.top.lines import BEHIND_MS, alert_lines, details, fleet, help_table, status
from streams.cli.top.rows import BY_KEY, SORTS, Column, Order, cells, heading, layout, matching, ordered
from streams.clock import Clock, SystemClock
from streams.threads import Threads

TALL = 32
"""Number of lines from which the alerts are shown at the start."""


class JobTable(DataTable[Text]):
    """One row per job; the cursor stays on its job while figures change, and only changed cells are redrawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Details"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's parameter name
        super().__init__(id=id, cursor_type="row", cell_padding=0)
        self._columns_shown: tuple[list[tuple[Column, int]], Order] | None = None
        self._shown: dict[str, list[Text]] = {}

    def show(self, jobs: Sequence[Job], width: int, order: Order, *, to_top: bool = False) -> None:
        """Update the rows to these jobs, in columns that fit the width; the cursor stays on its job, or moves to the top."""
        columns = layout(width - 1)  # minus the scrollbar
        rows = {job.job_id: cells(job, columns) for job in jobs}
        if (self._columns_shown, list(self._shown)) == ((columns, order), list(rows)):
            for job_id, row in rows.items():
                for (column, _), new, old in zip(columns, row, self._shown[job_id], strict=True):
                    if new != old or new.style != old.style:
                        self.update_cell(job_id, column.key, new)
        else:
            under_bar, top = dict(enumerate(self._shown)).get(self.cursor_row), self.scroll_y
            self.clear(columns=True)
            for column, room in columns:
                self.add_column(heading(column, room, order), width=room + 1, key=column.key)
            for job_id, row in rows.items():
                self.add_row(*row, key=job_id)
            if under_bar in rows:
                # The cursor follows its job, and the scroll position stays.
                self.move_cursor(row=list(rows).index(under_bar), scroll=False)
            self.scroll_to(y=top, animate=False, force=True)
        self._columns_shown, self._shown = (columns, order), rows
        if to_top:
            self.move_cursor(row=0, animate=False)


class Sheet(ModalScreen[None]):
    """A text to read, until Esc."""

    DEFAULT_CSS = """
    Sheet {
        align: center middle;
        VerticalScroll {
            width: 96%; max-width: 120; height: auto; max-height: 96%;
            border: round $primary; border-title-style: bold; padding: 0 1; background: $surface;
            scrollbar-size-vertical: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "app.pop_screen", "Close", show=key == "escape")
        for key in ("escape", "q", "enter", "question_mark")
    ]

    def __init__(self, title: str, content: Callable[[], Table]) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        """A frame that scrolls."""
        with VerticalScroll() as frame:
            frame.border_title, frame.border_subtitle = self._title, "Esc closes"
            yield Static(self._content(), markup=False)

    def draw(self) -> None:
        """Show the newest figures."""
        if self.is_mounted:
            self.query_one(Static).update(self._content())


class HelpScreen(Sheet):
    """The keys and the signs."""

    def __init__(self) -> None:
        super().__init__("trainfare top", help_table)


class DetailsScreen(Sheet):
    """One job, updated with each snapshot."""

    def __init__(self, job_id: str, snapshot: Callable[[], MeterView | None]) -> None:
        super().__init__("job", self._figures)
        self._job_id, self._snapshot = job_id, snapshot

    def _figures(self) -> Table:
        snapshot = self._snapshot() or MeterView(0, Burn())
        job = next((each for each in snapshot.jobs if each.job_id == self._job_id), None)
        return details(job, snapshot.alerts, snapshot.as_of_ms, self.app.size.width)


class TopApp(App[None]):
    """Jobs by burn rate."""

    TITLE = "trainfare top"
    ENABLE_COMMAND_PALETTE = False
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {"help": HelpScreen}
    CSS = """
    #fleet, #status, #note { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #fleet { background: $panel; }
    #jobs { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    #empty { height: 1fr; padding: 1 2; display: none; }
    #alerts { height: auto; max-height: 30%; min-height: 3; border-top: solid $panel; scrollbar-size-vertical: 1; padding: 0 1; }
    #alerts Static { width: auto; text-wrap: nowrap; }
    #filter { height: 1; border: none; display: none; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("a", "alerts", "Alerts"),
        Binding("question_mark", "push_screen('help')", "Help", key_display="?"),
        Binding("escape", "all", "All jobs", show=False),
    ]

    def __init__(
        self,
        source: Source,
        *,
        note: str = "",
        clock: Clock | None = None,
        event_time: bool = False,
        interval_s: float = 1.0,
    ) -> None:
        """Show the figures of a source. `event_time`: its instants are not those of this machine's clock."""
        super().__init__()
        self._source, self._note, self._interval_s = source, note, interval_s
        self._clock = SystemClock() if clock is None else clock
        self._event_time = event_time
        self._busy = False
        self._words = ""
        self._wants_alerts: bool | None = None  # None: if there is room
        self._answered_ms = self._clock.monotonic_ms()
        self._moved_ms: int | None = None  # when the figures' time was last seen to advance
        self._fault: str | None = None
        self._threads = Threads("top")
        self.order = Order()
        self.snapshot: MeterView | None = None

    def compose(self) -> ComposeResult:
        """Return two lines, the table, the alerts, the keys."""
        yield Static(id="fleet")
        yield Static(id="status")
        if self._note:
            yield Static(self._note, id="note", markup=False)
        yield JobTable(id="jobs")
        yield Static(id="empty", markup=False)
        with VerticalScroll(id="alerts", can_focus=False):
            yield Static(markup=False)
        yield Input(placeholder="words of a job, owner, team, state or rule", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Fetch immediately, then each second."""
        self.query_one(JobTable).focus()
        self._draw()
        self._poll()
        self.set_interval(self._interval_s, self._poll)

    def _poll(self) -> None:
        if not self._busy:  # a source slower than the interval is called again after it has answered
            self._busy = True
            self._fetch()
        elif self._fault is not None:
            self._draw_lines()

    @work
    async def _fetch(self) -> None:
        try:
            snapshot = await self._threads.run(self._source.fetch)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the screen says it and the next second tries again
            self._fault = "; ".join(described(fault)[1])
            self._draw_lines()
            return
        finally:
            self._busy = False
        self._fault = None
        self._answered_ms = self._clock.monotonic_ms()
        if self.snapshot is not None and self.snapshot.as_of_ms != snapshot.as_of_ms:
            self._moved_ms = self._answered_ms
        self.snapshot = snapshot
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns again."""
        self._draw(event.size.width, event.size.height)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the clicked column, or reverse its direction."""
        key = str(event.column_key.value)
        if key in SORTS:
            self.order = self.order.reversed() if key == self.order.key else Order.natural(key)
            self._draw(to_top=True)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show one job."""
        self.push_screen(DetailsScreen(str(event.row_key.value), lambda: self.snapshot))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._words = event.value
        self._draw(to_top=True)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Keep the filter, return to the table."""
        self._close_filter()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.order = self.order.after()
        self._draw(to_top=True)

    def action_reverse(self) -> None:
        """Reverse the direction."""
        self.order = self.order.reversed()
        self._draw(to_top=True)

    def action_alerts(self) -> None:
        """Show or hide the alerts."""
        self._wants_alerts = not self.query_one("#alerts").display
        self._draw()

    def action_filter(self) -> None:
        """Open the filter."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def action_all(self) -> None:
        """Clear the filter."""
        self.query_one("#filter", Input).value = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one(JobTable).focus()

    def _draw(self, width: int | None = None, height: int | None = None, *, to_top: bool = False) -> None:
        self._draw_lines()
        listed = () if self.snapshot is None else self.snapshot.jobs
        jobs = ordered(matching(listed, self._words), self.order)
        root = self.screen_stack[0]
        table, empty = root.query_one(JobTable), root.query_one("#empty", Static)
        pane = root.query_one("#alerts")
        table.show(jobs, self.size.width if width is None else width, self.order, to_top=to_top)
        table.display, empty.display = bool(jobs), not jobs
        if not jobs:
            empty.update(self._why_empty(len(listed)))
        tall = (self.size.height if height is None else height) >= TALL
        pane.display = tall if self._wants_alerts is None else self._wants_alerts
        if self.snapshot is not None:
            pane.query_one(Static).update(alert_lines(self.snapshot.alerts, self.snapshot.as_of_ms))
        if isinstance(self.screen, DetailsScreen):
            self.screen.draw()

    def _draw_lines(self) -> None:
        root = self.screen_stack[0]
        root.query_one("#fleet", Static).update(fleet(self.snapshot))
        by = f"by {BY_KEY[self.order.key].title}{self.order.arrow}"
        shown = f"{by} · filter: {self._words}" if self._words else by
        silent_ms = self._clock.monotonic_ms() - self._answered_ms
        now_ms = None if self._event_time else self._clock.now_ms()
        moving = self._moved_ms is not None and self._answered_ms - self._moved_ms < BEHIND_MS
        line = status(self.snapshot, self._fault, silent_ms, now_ms, shown, moving=moving)
        root.query_one("#status", Static).update(line)

    def _why_empty(self, listed: int) -> str:
        if listed:
            return f"none of {listed} jobs has {self._words!r} in its names, state or alerts; Esc shows all"
        if self._fault is not None:
            return "No figures yet; asked again each second."
        return "no jobs yet" if self.snapshot is not None else ""
