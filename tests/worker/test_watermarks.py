"""How far the log is known to have been read, on Kafka and in a log that we feed ourselves."""

from streams.clock import ManualClock
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.ingest.watermarks import KafkaWatermarks, Mark, ReplayWatermarks
from streams.worker.log_time import LogTime


class Ends:
    def __init__(self, **ends: tuple[int, int]) -> None:
        self.ends = {topic: LogEnd(end, end, answered_ms) for topic, (end, answered_ms) in ends.items()}

    def log_end(self, tp: TP) -> LogEnd | None:
        assert tp.topic.startswith("x.")
        return self.ends.get(tp.topic.removeprefix("x."))


def kafka(now_ms: int, **ends: tuple[int, int]) -> KafkaWatermarks:
    clock = ManualClock()
    log_time = LogTime(clock)
    clock.advance(now_ms)
    return KafkaWatermarks(lambda: Ends(**ends), "x.", log_time)


def test_a_partition_read_to_its_end_is_quiet_up_to_the_last_answer() -> None:
    watermarks = kafka(50_000, jobs=(7, 50_000))
    assert watermarks.quiet_until_ms("jobs", 0, 7) == 49_900  # less what a record takes to be seen


def test_a_partition_that_is_behind_or_never_answered_is_not_known() -> None:
    watermarks = kafka(50_000, jobs=(7, 50_000))
    assert watermarks.quiet_until_ms("jobs", 0, 6) == -1
    assert watermarks.quiet_until_ms("gpu", 0, 0) == -1


def test_ticks_go_on_without_a_partition_that_nobody_has_reached_for_half_a_minute() -> None:
    assert kafka(100_000, jobs=(7, 60_000)).quiet_until_ms("jobs", 0, 7) == 70_000
    assert kafka(100_000, jobs=(7, 60_000)).quiet_until_ms("jobs", 0, 6) == -1  # what is there is waited for


def test_a_log_time_of_tomorrow_is_a_wrong_clocks() -> None:
    assert kafka(100_000).latest_ms() == 130_000
    assert ReplayWatermarks().latest_ms() > 2**60  # a file may be of any time


def test_a_log_that_we_feed_is_quiet_up_to_the_mark_once_all_of_it_was_read() -> None:
    watermarks = ReplayWatermarks()
    assert watermarks.quiet_until_ms("jobs", 0, 0) == -1
    watermarks.mark = Mark(9_999, {("jobs", 0): 3, ("prices", 0): 2})
    assert watermarks.quiet_until_ms("jobs", 0, 3) == -1  # prices come before ticks, too
    watermarks.reference_next = {"prices": 2}
    assert watermarks.quiet_until_ms("jobs", 0, 2) == -1
    assert watermarks.quiet_until_ms("jobs", 0, 3) == 9_999
    assert watermarks.quiet_until_ms("gpu", 5, 0) == 9_999  # nothing was sent there
    assert watermarks.clock_ms() == 9_999
