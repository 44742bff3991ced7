"""The live view driven by keys, at any size, over a source that is scripted, slow or broken."""

from __future__ import annotations

import asyncio
import shlex

import msgspec
import pytest

from streams.cli.top.figures import JobAlert, MeterView, SourceError
from streams.cli.top.terminal import TopApp, keys_of
from streams.worker.receipts.receipt import show_command
from tests.cli.top_script import PAGE, T0_MS, THREE, Script, Terminal, job, snapshot


def test_jobs_stand_by_what_they_burn_and_keys_sort_them() -> None:
    terminal = Terminal(*THREE)
    assert terminal.listed() == ["job-002", "job-003", "job-001"]
    assert "$/h_now↓" in terminal.titles()
    terminal.press("r")
    assert terminal.listed() == ["job-001", "job-003", "job-002"]
    terminal.press("s", "s")
    assert terminal.view.order.key == "cost"
    assert terminal.listed()[0] == "job-001"
    assert "cost↓" in terminal.titles()


def test_a_filter_shows_what_fits_while_it_is_typed_and_escape_shows_all() -> None:
    terminal = Terminal(*THREE)
    terminal.press("/", *"ZOX", "backspace", "E")
    assert terminal.listed() == ["job-003"]
    assert terminal.lines()[-1] == "filter: ZOE▏"
    terminal.press("enter")
    assert terminal.lines()[-1].startswith("q Quit")
    assert "filter: ZOE" in terminal.lines()[1]
    terminal.press("s")  # a key of the table again, not a letter of the filter
    assert terminal.view.order.key == "ratio"
    terminal.press("/", *"nobody", "enter")
    assert any("none of 3 jobs" in line for line in terminal.lines())
    terminal.press("escape")
    assert len(terminal.listed()) == 3


def test_a_command_with_the_name_of_a_job_is_safe_to_paste() -> None:
    odd = "a'; rm -r ~; '"
    terminal = Terminal(msgspec.structs.replace(job(1, 1.0), job_id=odd))
    terminal.press("down", "enter")
    line = next(line for line in terminal.lines() if "trainfare explain" in line)
    assert shlex.split(line.strip(" │").partition("why")[2]) == ["trainfare", "explain", odd]
    assert shlex.split(show_command(odd)) == ["trainfare", "receipts", "show", odd]


def test_letters_of_a_filter_are_no_keys() -> None:
    terminal = Terminal(*THREE)
    terminal.press("/", *"qsra?")
    assert not terminal.view.closed
    assert terminal.lines()[-1] == "filter: qsra?▏"
    assert terminal.view.order.key == "now"


def test_enter_shows_the_job_under_the_bar_and_its_figures_go_on() -> None:
    terminal = Terminal(*THREE)
    terminal.press("down", "enter")
    assert any("trainfare explain job-003" in line for line in terminal.lines())
    terminal.view.answered(snapshot(*THREE[:2]))
    assert any("no longer among the jobs" in line for line in terminal.lines())
    terminal.press("escape")
    assert terminal.listed() == ["job-002", "job-001"]


def test_a_sheet_higher_than_the_terminal_scrolls_to_its_end_and_no_further() -> None:
    terminal = Terminal(*THREE)
    terminal.height = 10
    terminal.press("?")
    assert "q  " in terminal.lines()[1]
    terminal.press(*["pgdn"] * 50)
    assert "Esc closes" in terminal.lines()[-1]
    assert len(terminal.lines()) == 10


@pytest.mark.parametrize("key", ["escape", "q", "?", "enter"])
def test_help_opens_and_closes_and_quits_nothing(key: str) -> None:
    terminal = Terminal(*THREE)
    terminal.press("?")
    assert any("this help" in line for line in terminal.lines())
    terminal.press(key)
    assert len(terminal.listed()) == 3
    assert not terminal.view.closed


def test_alerts_come_and_go_by_key_and_are_there_where_there_is_room() -> None:
    terminal = Terminal(*THREE, alerts=(PAGE,))
    terminal.width = 100
    assert "● 1 alert firing" in terminal.lines()[0]
    for shown in (False, True, False):
        assert any("too fast" in line for line in terminal.lines()) == shown
        terminal.press("a")
    tall = Terminal(*THREE, alerts=(PAGE,))
    tall.width, tall.height = 160, 50
    assert any("too fast" in line for line in tall.lines())


def test_alerts_without_room_are_counted() -> None:
    terminal = Terminal(*THREE, alerts=(PAGE,) * 30)
    terminal.press("a")
    assert any("alerts 23 more" in line for line in terminal.lines())
    assert len(terminal.lines()) == 24


def test_the_bar_stays_with_its_job_when_others_overtake_it() -> None:
    terminal = Terminal(*THREE)
    terminal.press("down")
    assert terminal.bar() == "job-003"
    terminal.view.answered(snapshot(job(1, 500), job(2, 50), job(3, 9)))
    assert terminal.listed() == ["job-001", "job-002", "job-003"]
    assert terminal.bar() == "job-003"
    assert "9.00" in terminal.lines()[5]


def test_a_place_in_a_long_list_is_kept() -> None:
    terminal = Terminal(*(job(number, 1_000 - number) for number in range(200)))
    terminal.press("pgdn", "pgdn", "up")
    before = terminal.listed(), terminal.bar()
    assert before[0][0] != "job-000"
    terminal.view.answered(snapshot(*(job(number, 1_000 - number + 0.5) for number in range(200))))
    assert (terminal.listed(), terminal.bar()) == before
    terminal.press("home", "end", "down")
    assert terminal.bar() == "job-199"


def test_columns_come_and_go_with_the_width() -> None:
    terminal = Terminal(*THREE)
    assert "team" not in terminal.titles()
    terminal.width, terminal.height = 160, 50
    assert {"team", "15m", "1h", "expected"} < set(terminal.titles())
    assert len(terminal.lines()) == 50
    terminal.width, terminal.height = 40, 10
    assert terminal.titles()[:2] == ["job", "$/h_now↓"]
    assert len(terminal.listed()) == 3
    assert max(map(len, terminal.lines())) <= 40


def test_what_cannot_be_read_is_said_and_the_last_figures_stay() -> None:
    terminal = Terminal(*THREE)
    terminal.view.failed("nobody answers at http://127.0.0.1:8787")
    terminal.clock.advance(12_000)
    assert "STALE for 12 s" in terminal.lines()[1]
    assert "nobody answers" in terminal.lines()[1]
    assert len(terminal.listed()) == 3
    terminal.view.answered(snapshot(*THREE))
    assert "STALE" not in terminal.lines()[1]


@pytest.mark.parametrize(("late_ms", "is_said"), [(10_000, False), (3_600_000, True)])
def test_old_figures_are_said_to_be_old(late_ms: int, is_said: bool) -> None:
    assert ("NO NEWS FOR 1 h" in Terminal(*THREE, now_ms=T0_MS + late_ms).lines()[1]) == is_said


def test_figures_of_another_day_that_go_on_are_behind_not_silent() -> None:
    terminal = Terminal(*THREE, now_ms=T0_MS + 3_601_000)
    terminal.view.answered(snapshot(*THREE, as_of_ms=T0_MS + 1_000))
    assert "1 h BEHIND" in terminal.lines()[1]
    terminal.clock.advance(11 * 60_000)
    terminal.view.answered(snapshot(*THREE, as_of_ms=T0_MS + 1_000))
    assert "NO NEWS FOR 1 h 11 min" in terminal.lines()[1]


def test_marks_of_alerts_stand_before_their_jobs() -> None:
    terminal = Terminal(job(1, 1, alerts=(JobAlert("burn_fast", "page"),)))
    assert any(line.startswith("● job-001") for line in terminal.lines())


def test_an_empty_fleet_is_no_fault() -> None:
    assert any("no jobs yet" in line for line in Terminal().lines())


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_keys_that_leave(key: str) -> None:
    terminal = Terminal(*THREE)
    terminal.press(key)
    assert terminal.view.closed


def test_keys_by_what_a_terminal_sends() -> None:
    assert keys_of("q\x1b[A\x1bOB\x1b[6~é\r\x7f\x1b[99~\x01\x03") == [
        "q", "up", "down", "pgdn", "é", "enter", "backspace", "ctrl+c",
    ]  # fmt: skip
    assert keys_of("\x1b") == ["escape"]


def test_a_fault_nobody_foresaw_does_not_end_the_view() -> None:
    source = Script()
    source.now = RuntimeError("boom")
    terminal = Terminal()

    async def go() -> None:
        app = TopApp(source, clock=terminal.clock)
        await app.fetch()
        terminal.view = app.view
        assert "NO FIGURES" in terminal.lines()[1]
        assert "RuntimeError" in terminal.lines()[1]
        source.now = SourceError("nobody answers")
        await app.fetch()
        assert "nobody answers" in terminal.lines()[1]

    asyncio.run(go())


def test_the_meter_is_asked_for_the_words_and_its_answer_is_not_searched_again() -> None:
    """It finds jobs beyond those at hand, by names that a row does not have, as that of a node."""
    source = Script(*THREE)
    terminal = Terminal()

    async def go() -> None:
        app = TopApp(source, clock=terminal.clock)
        await app.fetch()
        terminal.view = app.view
        terminal.press("/", *"node-17")
        assert terminal.listed() == []
        assert isinstance(source.now, MeterView)
        source.now = msgspec.structs.replace(
            source.now, jobs=(job(471, 1),), words="node-17", matched=1, total=50_013
        )
        await app.fetch()
        assert source.words == "node-17"
        assert terminal.listed() == ["job-471"]
        assert "1 of 50,013 jobs" in terminal.lines()[1]

    asyncio.run(go())
