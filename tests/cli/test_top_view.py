"""The live view driven by keys, at any size, over a source that is scripted, slow or broken."""

from __future__ import annotations

import asyncio
import threading

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from streams.cli.top.figures import JobAlert, MeterView, SourceError
from streams.cli.top.view import DetailsScreen, HelpScreen, JobTable, TopApp
from streams.clock import ManualClock
from tests.cli.top_script import (
    PAGE,
    T0_MS,
    THREE,
    Script,
    drive,
    job,
    listed,
    look_again,
    said,
    settle,
    snapshot,
    titles,
)


def test_jobs_stand_by_what_they_burn_and_keys_sort_them() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        assert listed(app) == ["job-002", "job-003", "job-001"]
        assert "$/h now↓" in titles(app)
        await pilot.press("r")
        assert listed(app) == ["job-001", "job-003", "job-002"]
        await pilot.press("s", "s")
        assert app.order.key == "cost"
        assert listed(app)[0] == "job-001"
        assert "cost↓" in titles(app)

    drive(Script(*THREE), steps)


def test_a_click_on_a_title_sorts_by_it_and_turns_it_round() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        at = titles(app).index("owner")
        column = sum(
            each.get_render_width(app.query_one(JobTable))
            for each in app.query_one(JobTable).ordered_columns[:at]
        )
        for expected in (["job-001", "job-002", "job-003"], ["job-003", "job-002", "job-001"]):
            await pilot.click(JobTable, offset=(column + 2, 0))
            await pilot.pause()
            assert listed(app) == expected

    drive(Script(job(1, 1, owner="a"), job(2, 2, owner="b"), job(3, 3, owner="c")), steps)


def test_a_filter_shows_what_fits_while_it_is_typed_and_escape_shows_all() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"ZOE")
        assert listed(app) == ["job-003"]
        await pilot.press("enter")
        assert not app.query_one(Input).display
        assert "filter: ZOE" in said(app, "#status")
        await pilot.press("s")  # a key of the table again, not a letter of the filter
        assert app.order.key == "ratio"
        await pilot.press("slash", *"nobody", "enter")
        assert "none of 3 jobs" in said(app, "#empty")
        await pilot.press("escape")
        assert len(listed(app)) == 3

    drive(Script(*THREE), steps)


def test_letters_of_a_filter_are_no_keys() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"qsra?")
        assert app.is_running
        assert app.query_one(Input).value == "qsra?"
        assert app.order.key == "now"

    drive(Script(*THREE), steps)


def test_enter_shows_the_job_under_the_bar_and_its_figures_go_on() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        screen = app.screen
        assert isinstance(screen, DetailsScreen)
        assert screen._job_id == "job-003"
        source.now = snapshot(*THREE[:2])
        await look_again(app, pilot)
        assert isinstance(app.screen, DetailsScreen)
        await pilot.press("escape")
        assert listed(app) == ["job-002", "job-001"]

    source = Script(*THREE)
    drive(source, steps)


@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "enter"])
def test_help_opens_and_closes_and_quits_nothing(key: str) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press(key)
        assert not isinstance(app.screen, HelpScreen)
        assert app.is_running

    drive(Script(*THREE), steps)


def test_alerts_come_and_go_by_key_and_are_there_where_there_is_room() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        pane = app.query_one("#alerts")
        assert not pane.display
        assert "● 1 alert firing" in said(app, "#fleet")
        await pilot.press("a")
        assert pane.display
        assert "too fast" in str(pane.query_one(Static).render())
        await pilot.press("a")
        assert not pane.display

    async def tall(app: TopApp, pilot: Pilot[None]) -> None:
        assert app.query_one("#alerts").display

    drive(Script(*THREE, alerts=(PAGE,)), steps)
    drive(Script(*THREE, alerts=(PAGE,)), tall, size=(160, 50))


def test_the_bar_stays_with_its_job_when_others_overtake_it() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        source.now = snapshot(job(1, 500), job(2, 50), job(3, 7))
        await look_again(app, pilot)
        assert listed(app) == ["job-001", "job-002", "job-003"]
        assert app.query_one(JobTable).cursor_row == 2
        source.now = snapshot(job(1, 500), job(2, 50), job(3, 9))
        await look_again(app, pilot)
        cell = app.query_one(JobTable).get_cell("job-003", "now")
        assert "9.00" in cell.plain

    source = Script(*THREE)
    drive(source, steps)


def test_a_place_in_a_long_list_is_kept() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("pagedown", "pagedown")
        table = app.query_one(JobTable)
        top, bar = table.scroll_y, table.cursor_row
        assert top > 0
        source.now = snapshot(*(job(number, 1_000 - number + 0.5) for number in range(200)))
        await look_again(app, pilot)
        assert (table.scroll_y, table.cursor_row) == (top, bar)

    source = Script(*(job(number, 1_000 - number) for number in range(200)))
    drive(source, steps)


def test_columns_come_and_go_with_the_width() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        assert "team" not in titles(app)
        await pilot.resize_terminal(160, 50)
        await pilot.pause()
        assert {"team", "15m", "1h", "expected"} < set(titles(app))
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert titles(app)[1:3] == ["job", "$/h now↓"]
        assert len(listed(app)) == 3

    drive(Script(*THREE), steps)


def test_what_cannot_be_read_is_said_and_the_last_figures_stay() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        source.now = SourceError("nobody answers at http://127.0.0.1:8787")
        clock.advance(12_000)
        await look_again(app, pilot)
        assert "STALE for 12 s" in said(app, "#status")
        assert "nobody answers" in said(app, "#status")
        assert len(listed(app)) == 3
        source.now = snapshot(*THREE)
        await look_again(app, pilot)
        assert "STALE" not in said(app, "#status")

    source, clock = Script(*THREE), ManualClock(T0_MS)
    drive(source, steps, clock=clock)


def test_a_fault_nobody_foresaw_does_not_end_the_view() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        assert "NO FIGURES" in said(app, "#status")
        assert "RuntimeError" in said(app, "#status")
        assert app.is_running

    source = Script()
    source.now = RuntimeError("boom")
    drive(source, steps)


@pytest.mark.parametrize(("late_ms", "is_said"), [(10_000, False), (3_600_000, True)])
def test_old_figures_are_said_to_be_old(late_ms: int, is_said: bool) -> None:
    async def steps(app: TopApp, _: Pilot[None]) -> None:
        assert ("NO NEWS FOR 1 h" in said(app, "#status")) == is_said

    drive(Script(*THREE), steps, clock=ManualClock(T0_MS + late_ms))


def test_figures_of_another_day_that_go_on_are_behind_not_silent() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        source.now = snapshot(*THREE, as_of_ms=T0_MS + 1_000)
        await look_again(app, pilot)
        assert "1 h BEHIND" in said(app, "#status")
        clock.advance(11 * 60_000)
        await look_again(app, pilot)
        assert "NO NEWS FOR 1 h 11 min" in said(app, "#status")

    source, clock = Script(*THREE), ManualClock(T0_MS + 3_601_000)
    drive(source, steps, clock=clock)


def test_a_slow_source_is_not_asked_twice_at_once() -> None:
    release = threading.Event()

    class Slow(Script):
        def fetch(self) -> MeterView:
            found = super().fetch()
            release.wait(30)
            return found

    async def go() -> None:
        source = Slow(*THREE)
        app = TopApp(source, clock=ManualClock(T0_MS), interval_s=3_600)
        async with app.run_test() as pilot:
            for _ in range(3):
                app._poll()
            assert source.asked == 1
            release.set()
            await settle(app, pilot)
            await look_again(app, pilot)
            assert source.asked == 2

    asyncio.run(asyncio.wait_for(go(), 60))


def test_marks_of_alerts_stand_before_their_jobs() -> None:
    async def steps(app: TopApp, _: Pilot[None]) -> None:
        assert app.query_one(JobTable).get_cell("job-001", "mark").plain.strip() == "●"

    drive(Script(job(1, 1, alerts=(JobAlert("burn_fast", "page"),))), steps)


def test_an_empty_fleet_is_no_fault() -> None:
    async def steps(app: TopApp, _: Pilot[None]) -> None:
        assert said(app, "#empty") == "no jobs yet"

    drive(Script(), steps)


def test_q_leaves() -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        assert not app.is_running

    drive(Script(*THREE), steps)
