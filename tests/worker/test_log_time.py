"""What time it is by the log, whatever the clock of the machine shows."""

from __future__ import annotations

import pytest

from streams.worker.log_time import OFF_MS, LogTime, MessageTime

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


class Clocks:
    """The brokers' time, and a machine whose clocks may be wrong."""

    def __init__(self) -> None:
        self.true_ms = NOW_MS
        self.wrong_ms = 0
        self.monotonic_wrong_ms = 0

    def now_ms(self) -> int:
        return self.true_ms + self.wrong_ms

    def monotonic_ms(self) -> int:
        return self.true_ms - NOW_MS + self.monotonic_wrong_ms


class Scene:
    """A log that is read to its end, with a record each second."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.log = LogTime(self.clocks)
        self.answered_ms: int | None = None

    def live(self, seconds: int, off_ms: int = 0) -> None:
        """Records come; `off_ms` is what is wrong with the brokers' clocks."""
        for _ in range(seconds):
            self.clocks.true_ms += 1_000
            newest_ms = self.clocks.true_ms - 20 + off_ms
            self.log.observe(newest_ms, newest_ms, self.answered_ms)
            self.answered_ms = self.clocks.monotonic_ms()

    def idle(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clocks.true_ms += 1_000
            self.log.now_ms()

    @property
    def error_ms(self) -> int:
        """How much later it is believed to be than it is."""
        return self.log.now_ms() - self.clocks.true_ms


@pytest.mark.parametrize("wrong_ms", [2 * HOUR_MS, 27 * 365 * 24 * HOUR_MS, -2 * HOUR_MS, OFF_MS + 5_000])
def test_a_clock_that_jumps_moves_no_tick_and_is_said_until_it_is_right(wrong_ms: int) -> None:
    scene = Scene()
    scene.live(5)
    assert (scene.error_ms, scene.log.is_off, scene.log.faults) == (-20, False, 0)
    scene.clocks.wrong_ms = wrong_ms
    scene.live(20)
    assert (scene.error_ms, scene.log.is_off, scene.log.faults) == (-20, True, 1)
    assert abs(scene.log.ahead_ms - wrong_ms) < 1_000
    scene.clocks.wrong_ms = 0
    scene.live(5)
    assert (scene.error_ms, scene.log.is_off, scene.log.faults) == (-20, False, 1)


def test_a_clock_that_drifts_is_said_from_a_minute_on() -> None:
    scene = Scene()
    scene.live(5)
    for seconds in range(1, 70):
        scene.clocks.wrong_ms = seconds * 1_000
        scene.live(1)
        assert scene.log.is_off == (seconds >= 60)  # the newest record is 20 ms old
        assert scene.error_ms == -20


def test_a_log_that_falls_silent_is_not_timeless() -> None:
    scene = Scene()
    scene.live(5)
    scene.clocks.wrong_ms = 2 * HOUR_MS
    scene.idle(1_000)
    assert scene.error_ms == -20


def test_a_monotonic_clock_that_jumps_is_believed_for_no_more_than_a_tick() -> None:
    scene = Scene()
    scene.live(5)
    scene.clocks.wrong_ms = scene.clocks.monotonic_wrong_ms = 2 * HOUR_MS
    assert 0 <= scene.error_ms <= 10_000
    scene.clocks.wrong_ms = scene.clocks.monotonic_wrong_ms = 0
    scene.live(30)
    assert abs(scene.error_ms) <= 1_000


def test_a_process_that_was_frozen_takes_the_logs_word_for_it() -> None:
    scene = Scene()
    scene.live(5)
    scene.clocks.true_ms += HOUR_MS
    assert scene.error_ms < -HOUR_MS // 2
    scene.live(1)
    assert scene.error_ms == -20


def test_before_the_end_of_the_log_was_seen_the_clock_counts_for_a_minute_at_most() -> None:
    """At the start a backlog of an hour ago is read, by a machine that is two hours ahead."""
    scene = Scene()
    scene.clocks.wrong_ms = 2 * HOUR_MS
    behind_ms = NOW_MS - HOUR_MS
    scene.log.observe(behind_ms, behind_ms, None)
    assert scene.log.now_ms() == behind_ms + OFF_MS
    assert (scene.log.live_ms, scene.log.is_off) == (None, False)
    scene.live(2)
    assert (scene.error_ms, scene.log.live_ms) == (-20, scene.log.now_ms())


def test_a_restart_over_a_silent_log_goes_on_where_it_was_left() -> None:
    scene = Scene()
    scene.clocks.wrong_ms = 2 * HOUR_MS
    scene.log.restore(NOW_MS)
    scene.idle(5)
    assert scene.log.now_ms() == NOW_MS + OFF_MS + 5_000
    assert scene.log.accrue_until_ms() == scene.clocks.now_ms()
    scene.clocks.wrong_ms = 0
    assert scene.error_ms == 0


def test_messages_are_signed_by_the_wall_clock_while_the_log_is_silent() -> None:
    """Receivers refuse what was signed five minutes ago: a worker that starts long after the last record would reach none."""
    scene = Scene()
    scene.log.restore(NOW_MS - HOUR_MS)
    signs = MessageTime(scene.log)
    scene.idle(5)
    assert (signs.now_ms(), scene.error_ms) == (scene.clocks.true_ms, OFF_MS - HOUR_MS)


def test_messages_are_signed_by_the_log_where_the_clock_of_the_machine_is_wrong() -> None:
    scene = Scene()
    scene.live(5)
    scene.clocks.wrong_ms = 2 * HOUR_MS
    scene.live(5)
    assert MessageTime(scene.log).now_ms() - scene.clocks.true_ms == scene.error_ms == -20


def test_the_last_records_of_a_log_are_believed_without_one_after_them() -> None:
    """A machine that is five minutes behind starts as the log ends."""
    scene = Scene()
    scene.clocks.wrong_ms = -5 * 60_000
    scene.log.restore(NOW_MS - HOUR_MS)
    scene.log.observe(NOW_MS, NOW_MS, None)
    assert scene.log.now_ms() == NOW_MS - HOUR_MS + OFF_MS
    scene.idle(10)
    assert scene.log.now_ms() == NOW_MS + 10_000


def test_the_last_records_of_a_log_are_believed_though_older_ones_came_with_them() -> None:
    """A clock 300 s behind reads all of a log in one go: records of the time before an outage, and of after it."""
    scene = Scene()
    scene.clocks.wrong_ms = -300_000
    for age_ms in (1_000_000, 20):
        scene.log.observe(scene.clocks.true_ms - age_ms, scene.clocks.true_ms - age_ms, None)
    scene.idle(30)
    assert abs(scene.error_ms) <= 1_000


def test_one_record_of_tomorrow_in_a_quiet_log_moves_nothing() -> None:
    scene = Scene()
    scene.live(5)
    scene.idle(9)
    tomorrow_ms = scene.clocks.true_ms + 24 * HOUR_MS
    scene.log.observe(tomorrow_ms, tomorrow_ms, None)
    scene.idle(60)
    assert scene.error_ms == -20


def test_one_broker_of_tomorrow_or_yesterday_moves_nothing() -> None:
    scene = Scene()
    scene.live(5)
    for off_ms in (24 * HOUR_MS, -24 * HOUR_MS):
        for _ in range(30):
            scene.live(1)
            scene.log.observe(
                scene.clocks.true_ms + off_ms,
                scene.clocks.true_ms + off_ms,
                scene.clocks.monotonic_ms() - 1_000,
            )
        assert scene.error_ms == -20


def test_a_log_that_goes_back_as_a_whole_is_followed() -> None:
    """Every broker was ahead, and all were put right."""
    scene = Scene()
    scene.live(30, off_ms=HOUR_MS)
    assert scene.error_ms == HOUR_MS - 20
    assert scene.log.is_off
    scene.live(30)
    assert scene.error_ms == -20
    assert not scene.log.is_off
