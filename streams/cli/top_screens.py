"""The sheets that `trainfare top` lays over its table: one job, and the keys.

It must not fetch: a job's figures are those of the snapshot on the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from streams.cli.top_data import MeterView
from streams.cli.top_lines import details, help_table


class Sheet(ModalScreen[None]):
    """Something to read, until Esc."""

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

    def compose(self) -> ComposeResult:
        """A frame that scrolls."""
        with VerticalScroll() as frame:
            frame.border_title, frame.border_subtitle = self.title_text(), "Esc closes"
            yield Static(self.content(), markup=False)

    def title_text(self) -> str:
        """Return what stands on the frame."""
        raise NotImplementedError

    def content(self) -> RenderableType:
        """Return what stands in it."""
        raise NotImplementedError


class HelpScreen(Sheet):
    """The keys and the signs."""

    def title_text(self) -> str:
        """Return what stands on the frame."""
        return "trainfare top"

    def content(self) -> RenderableType:
        """Return the keys and the signs."""
        return help_table()


class DetailsScreen(Sheet):
    """One job; it lives on with the snapshots below it."""

    def __init__(self, job_id: str, snapshot: Callable[[], MeterView | None]) -> None:
        super().__init__()
        self._job_id, self._snapshot = job_id, snapshot

    def title_text(self) -> str:
        """Return what stands on the frame."""
        return "job"

    def content(self) -> RenderableType:
        """Return what is known of the job now."""
        snapshot = self._snapshot()
        jobs = () if snapshot is None else snapshot.jobs
        job = next((each for each in jobs if each.job_id == self._job_id), None)
        alerts, as_of_ms = ((), 0) if snapshot is None else (snapshot.alerts, snapshot.as_of_ms)
        return details(job, alerts, as_of_ms, self.app.size.width)

    def draw(self) -> None:
        """Show the newest figures."""
        if self.is_mounted:
            self.query_one(Static).update(self.content())
