"""The table of jobs on the screen: rows that stay under the bar while the figures move.

It must not choose what to show: rows come sorted and filtered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from streams.cli.top_data import Job
from streams.cli.top_rows import Column, Order, cells, heading, layout

_SCROLLBAR = 1


class JobTable(DataTable[Text]):
    """One row per job; only what changed is drawn again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Details"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002  # Textual's own name for it
        super().__init__(id=id, cursor_type="row", cell_padding=0)
        self._columns_shown: tuple[list[tuple[Column, int]], Order] | None = None
        self._shown: dict[str, list[Text]] = {}

    def show(self, jobs: Sequence[Job], width: int, order: Order, *, to_top: bool = False) -> None:
        """Make the rows those of the jobs, in columns that fit the width; the bar stays with its job, or goes up."""
        columns = layout(width - _SCROLLBAR)
        rows = {job.job_id: cells(job, columns) for job in jobs}
        if self._columns_shown != (columns, order):
            self._rebuild(rows, columns, order)
        elif list(rows) != list(self._shown):
            self._refill(rows)
        else:
            self._update(rows, columns)
        self._shown = rows
        if to_top:
            self.move_cursor(row=0, animate=False)

    def _rebuild(self, rows: dict[str, list[Text]], columns: list[tuple[Column, int]], order: Order) -> None:
        under_bar, top = self._bar(), self.scroll_y
        self.clear(columns=True)
        for column, room in columns:
            self.add_column(heading(column, room, order), width=room + 1, key=column.key)
        self._columns_shown = (columns, order)
        self._fill(rows, under_bar, top)

    def _refill(self, rows: dict[str, list[Text]]) -> None:
        under_bar, top = self._bar(), self.scroll_y
        self.clear()
        self._fill(rows, under_bar, top)

    def _fill(self, rows: dict[str, list[Text]], under_bar: str | None, top: float) -> None:
        for job_id, row in rows.items():
            self.add_row(*row, key=job_id)
        if under_bar in rows:
            # The bar stays with its job wherever that stands now; the eye stays where it was.
            self.move_cursor(row=list(rows).index(str(under_bar)), scroll=False)
        self.scroll_to(y=top, animate=False, force=True)

    def _update(self, rows: dict[str, list[Text]], columns: list[tuple[Column, int]]) -> None:
        for job_id, row in rows.items():
            for (column, _), new, old in zip(columns, row, self._shown[job_id], strict=True):
                if new != old or new.style != old.style:
                    self.update_cell(job_id, column.key, new)

    def _bar(self) -> str | None:
        """The job under the bar."""
        names = list(self._shown)
        return names[self.cursor_row] if 0 <= self.cursor_row < len(names) else None
