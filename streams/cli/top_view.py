"""The live view of `trainfare top`: a table of jobs that is read anew each second, on a terminal of any size.

It must not know where snapshots come from: a source is handed in, asked in a thread, and may be slow or fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from streams.cli.faults import described
from streams.cli.top_data import MeterView, Source
from streams.cli.top_lines import BEHIND_MS, alert_lines, fleet, status
from streams.cli.top_rows import BY_KEY, SORTS, Order, matching, ordered
from streams.cli.top_screens import DetailsScreen, HelpScreen
from streams.cli.top_table import JobTable
from streams.clock import Clock, SystemClock

TALL = 32
"""Lines from which there is room for the alerts from the start."""


class Fetched(Message):
    """A thread came back with a snapshot, or with words why not."""

    def __init__(self, snapshot: MeterView | None, fault: str | None) -> None:
        super().__init__()
        self.snapshot = snapshot
        self.fault = fault


class TopApp(App[None]):
    """Jobs by what they burn now."""

    TITLE = "trainfare top"
    ENABLE_COMMAND_PALETTE = False
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
        Binding("question_mark", "help", "Help", key_display="?"),
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
        """Show what the source says. `event_time`: its instants are not those of this machine's clock."""
        super().__init__()
        self._source, self._note, self._interval_s = source, note, interval_s
        self._clock = SystemClock() if clock is None else clock
        self._event_time = event_time
        self._busy = False
        self._words = ""
        self._wants_alerts: bool | None = None  # None: as there is room
        self._answered_ms = self._clock.monotonic_ms()
        self._moved_ms: int | None = None  # when the figures' own time was last seen to go on
        self._fault: str | None = None
        self.order = Order()
        self.snapshot: MeterView | None = None

    def compose(self) -> ComposeResult:
        """Two lines, the table, the alerts, the keys."""
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
        """Ask at once, then each second."""
        self.query_one(JobTable).focus()
        self._draw()
        self._poll()
        self.set_interval(self._interval_s, self._poll)

    def _poll(self) -> None:
        if not self._busy:  # a source slower than the interval is asked again when it has answered
            self._busy = True
            self._fetch()
        elif self._fault is not None:
            self._draw_lines()

    @work(thread=True)
    def _fetch(self) -> None:
        """Runs in a thread: only `post_message` may touch the screen from here."""
        try:
            self.post_message(Fetched(self._source.fetch(), None))
        except Exception as fault:  # noqa: BLE001  # whatever it is, the screen says it and the next second tries again
            self.post_message(Fetched(None, "; ".join(described(fault)[1])))

    def on_fetched(self, message: Fetched) -> None:
        """Show the news, or that there is none."""
        self._busy = False
        self._fault = message.fault
        if message.snapshot is not None:
            self._answered_ms = self._clock.monotonic_ms()
            if self.snapshot is not None and self.snapshot.as_of_ms != message.snapshot.as_of_ms:
                self._moved_ms = self._answered_ms
            self.snapshot = message.snapshot
            self._draw()
        else:
            self._draw_lines()

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns anew."""
        self._draw(event.size.width, event.size.height)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click on a title sorts by it, on the same again the other way."""
        key = str(event.column_key.value)
        if key in SORTS:
            self.order = self.order.reversed() if key == self.order.key else Order.natural(key)
            self._draw(to_top=True)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter: everything about one job."""
        self.push_screen(DetailsScreen(str(event.row_key.value), lambda: self.snapshot))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        self._words = event.value
        self._draw(to_top=True)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Keep the filter, go back to the table."""
        self._close_filter()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.order = self.order.after()
        self._draw(to_top=True)

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.order = self.order.reversed()
        self._draw(to_top=True)

    def action_alerts(self) -> None:
        """Show or hide the alerts."""
        self._wants_alerts = not self.query_one("#alerts").display
        self._draw()

    def action_filter(self) -> None:
        """Ask for words."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def action_all(self) -> None:
        """Forget the filter."""
        self.query_one("#filter", Input).value = ""
        self._close_filter()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one(JobTable).focus()

    def _draw(self, width: int | None = None, height: int | None = None, *, to_top: bool = False) -> None:
        self._draw_lines()
        listed = () if self.snapshot is None else self.snapshot.jobs
        jobs = ordered(matching(listed, self._words), self.order)
        root = self.screen_stack[0]
        table, empty, pane = (
            root.query_one(JobTable),
            root.query_one("#empty", Static),
            root.query_one("#alerts"),
        )
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


def show(
    source: Source,
    *,
    note: str = "",
    event_time: bool = False,
    on_start: Callable[[TopApp], None] | None = None,
) -> None:
    """Show a source until the user quits; `on_start` gets the app, whose `exit` any thread may call through `call_from_thread`."""
    app = TopApp(source, note=note, event_time=event_time)
    if on_start is not None:
        on_start(app)
    app.run()
