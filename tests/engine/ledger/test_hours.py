"""Hour rows by hand: who has which ms and nano-dollar of an hour."""

from __future__ import annotations

import pyarrow as pa

from schemas.tables import JOB_HOURS, SCHEMAS
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.state.hour_measures import UNKNOWN_TIME
from tests.harness import FAR_FUTURE_MS, Meter, meter
from tests.oracle.cases import T0, gpu, job, network, price
from tests.oracle.compute import compute
from tests.oracle.intake import body
from tests.oracle.model import COMPONENTS, HOUR_MS, HourKey, HourRow, Line

H0 = T0 // HOUR_MS
HOUR = 3_600_000
NOBODY = ("",) * 8
SPOT = (*NOBODY[:7], "spot")


def hours(*lines: Line) -> dict[tuple[int, int, str], HourRow]:
    """By attempt, hours after T0 and purchase."""
    found = meter(lines).hours
    return {(key.attempt, key.hour - H0, key.fields[7]): row for key, row in found.items()}


def test_a_change_of_purchase_within_a_minute_splits_it_to_the_ms() -> None:
    """1 GPU at $3.60: a minute costs $0.06; what falls before the change costs what it would cost alone."""
    found = hours(
        price("s", "3.60"),
        job("j", "started", T0, gpu_count=1, purchase="spot"),
        job("j", "updated", T0 + 90_001, purchase="on_demand"),
        job("j", "completed", T0 + 180_000),
    )
    spot, on_demand = found[1, 0, "spot"], found[1, 0, "on_demand"]
    assert (spot.wall_clock_ms, on_demand.wall_clock_ms) == (90_001, 89_999)
    assert (spot.cost_nano[0], on_demand.cost_nano[0]) == (90_001_000, 89_999_000)
    assert (spot.gpu_milli_ms, on_demand.gpu_milli_ms) == (90_001_000, 89_999_000)


def test_traffic_stands_under_the_fields_of_its_instant() -> None:
    """600 bytes in a minute, of which the change leaves a third before it."""
    found = hours(
        price("net", "1", component="network", per="gib"),
        job("j", "started", T0, purchase="spot"),
        job("j", "updated", T0 + 20_000, purchase="on_demand"),
        network("j", T0 + 60_000, 60_000, direction="egress", path="internet", bytes=600 * 2**20),
        job("j", "completed", T0 + 60_000),
    )
    assert found[1, 0, "spot"].cost_nano[2] == round(10**9 * 200 / 1024)
    assert found[1, 0, "spot"].cost_nano[2] + found[1, 0, "on_demand"].cost_nano[2] == round(
        10**9 * 600 / 1024
    )


def test_traffic_that_comes_after_its_hour_was_summed_is_cut_at_the_change_too() -> None:
    lines = (
        price("net", "1", component="network", per="gib"),
        job("j", "started", T0, purchase="spot"),
        job("j", "updated", T0 + 20_000, purchase="on_demand"),
        network("j", T0 + 60_000, 60_000, direction="egress", path="internet", bytes=600 * 2**20),
        job("j", "completed", T0 + 120_000),
        network("j", T0 + 61_000, 60_000, direction="egress", path="internet", bytes=300 * 2**20),
        network("j", T0 + 121_000, 60_000, direction="egress", path="internet", bytes=300 * 2**20),
    )
    cuts = range(1, len(lines))
    found = meter(lines, cuts=cuts, open_at=cuts).hours
    assert {key: row.cost_nano for key, row in found.items()} == {
        key: row.cost_nano for key, row in compute(lines).hours.items()
    }


def test_usage_moves_to_the_fields_of_a_sample_that_wins_its_minute_after_its_hour_was_written() -> None:
    """The first sample covers no second: it wins no minute, and the hour is written for its traffic alone."""
    lines = (
        price("net", "1", component="network", per="gib"),
        gpu("j", T0 + 500, 300, {"0": 1.0}),
        network("j", T0 + 60_000, 60_000, direction="egress", path="internet", bytes=2**20),
        gpu("j", T0 + 90_000, 30_000, {"0": 1.0}, purchase="spot"),
    )
    cuts = range(1, len(lines))
    found = meter(lines, cuts=cuts, open_at=cuts).hours
    assert found == compute(lines).hours
    assert {key.fields[7]: row.sampled_gpu_ms for key, row in found.items()} == {"": 0, "spot": 30_000}


def test_no_row_stays_under_fields_that_a_late_start_takes_from_an_hour() -> None:
    """Traffic before the start has none of its price fields; an earlier start takes it over."""
    lines = (
        price("net", "1", component="network", per="gib"),
        network("j", T0 + 60_000, 60_000, direction="egress", path="internet", bytes=2**20),
        job("j", "started", T0 + 120_000, gpu_count=1, purchase="spot"),
        network("j", T0 + 120_000, 60_000, direction="egress", path="internet", bytes=2**20),
        job("j", "allocated", T0 - 1, gpu_count=1, purchase="spot"),
        job("j", "completed", T0 + 180_000),
    )
    cuts = range(1, len(lines))
    found = meter(lines, cuts=cuts, open_at=cuts).hours
    want = compute(lines).hours
    assert {key: row for key, row in found.items() if any(row.cost_nano) or row.wall_clock_ms} == want


def test_a_job_that_only_samples_pay_for_has_run_time() -> None:
    """Seconds 0 to 29 on one node and 20 to 39 on another are 40 seconds, and 50 GPU-seconds."""
    found = hours(
        gpu("j", T0 + 30_000, 30_000, {"0": 1.0}, node="a"),
        gpu("j", T0 + 40_000, 20_000, {"0": 1.0}, node="b"),
    )
    row = found[1, 0, ""]
    assert (row.wall_clock_ms, row.gpu_milli_ms, row.unpriced_gpu_milli_ms) == (
        40_000,
        50_000_000,
        50_000_000,
    )


def test_of_attempts_that_overlap_the_lower_has_the_time() -> None:
    found = hours(
        job("j", "started", T0, attempt=1, gpu_count=1),
        job("j", "started", T0 + 1000, attempt=2, gpu_count=1),
        job("j", "completed", T0 + 3000, attempt=1),
        job("j", "completed", T0 + 4000, attempt=2),
    )
    assert [found[attempt, 0, ""].wall_clock_ms for attempt in (1, 2)] == [3000, 1000]


def test_spans_are_those_in_which_an_hour_was_paid() -> None:
    """Starting and running are one span; a pause parts two, and a change of purchase within the hour makes two rows."""
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))
    lines = [
        job("j", "allocated", T0 + 1, gpu_count=1, purchase="spot"),
        job("j", "started", T0 + 500),
        job("j", "suspended", T0 + 1_000),
        job("j", "resumed", T0 + 61_007),
        job("j", "updated", T0 + 62_000, purchase="on_demand"),
        job("j", "completed", T0 + HOUR + 5),
    ]
    machine.feed(list(enumerate(lines)))
    machine.tables()
    assert spans_of(machine) == {
        (0, "spot"): [(1, 1_000), (61_007, 62_000)],
        (0, "on_demand"): [(62_000, HOUR)],
        (1, "on_demand"): [(0, 5)],
    }


def spans_of(machine: Meter) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """By hours after T0 and purchase, as they are stored."""
    found = {}
    for row in machine.store.tables[JOB_HOURS].values():
        begins, ends = row["wall_clock_from_ms"], row["wall_clock_until_ms"]
        hour = int(row["hour"].timestamp()) // 3600 - H0
        found[hour, row["purchase"]] = list(zip(begins, ends, strict=True))
    return found


def test_time_in_the_queue_counts_once_the_wait_has_ended() -> None:
    waiting = (job("j", "queued", T0 - 1_800_000), job("j", "heartbeat", T0 + 60_000))
    assert hours(*waiting) == {}
    found = hours(
        *waiting, job("j", "allocated", T0 + 90_000, gpu_count=1), job("j", "started", T0 + 100_000)
    )
    assert [found[1, hour, ""].queued_ms for hour in (-1, 0)] == [1_800_000, 90_000]
    assert found[1, 0, ""].starting_ms == 10_000


def test_hours_of_two_years_add_up() -> None:
    """T0 is the first instant of a year: the wait before it stands in the month before."""
    found = hours(
        price("s", "1"),
        job("j", "started", T0 - 3 * HOUR, gpu_count=1),
        job("j", "completed", T0 + 2 * HOUR),
    )
    assert sorted(hour for _, hour, _ in found) == [-3, -2, -1, 0, 1]
    assert sum(row.cost_nano[0] for row in found.values()) == 300 * 16_666_667  # minutes, each rounded


def test_a_late_event_moves_an_hour_and_leaves_an_empty_row() -> None:
    """The purchase was another from the start: the row that was written under none is emptied, not forgotten."""
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))
    lines = [
        price("s", "1"),
        job("j", "started", T0 + 1000, gpu_count=1),
        job("j", "completed", T0 + HOUR),
        job("j", "allocated", T0, gpu_count=1, purchase="spot"),
    ]
    machine.feed(list(enumerate(lines[:3])))
    machine.feed(list(enumerate(lines))[3:])
    assert machine.tables().hours.keys() == {HourKey("j", 1, H0, SPOT)}
    stored = {key[3:]: row for key, row in machine.store.tables[JOB_HOURS].items()}
    assert stored[NOBODY]["wall_clock_ms"] == stored[NOBODY]["gpu_milli_ms"] == 0
    assert stored[SPOT]["wall_clock_ms"] == HOUR


def test_a_sampled_minute_has_the_fields_that_held_when_it_ended() -> None:
    """The change comes within the second minute: the first is spot, the second and third are not."""
    found = hours(
        job("j", "started", T0, gpu_count=1, purchase="spot"),
        job("j", "updated", T0 + 90_000, purchase="on_demand"),
        gpu("j", T0 + 180_000, 180_000, {"0": 0.5}, tensor_ratio=[0.25]),
        gpu("j", T0 + 180_000, 180_000, {"1": 1.0}, node="b"),
        job("j", "completed", T0 + 180_000),
    )
    usage = {purchase: row[6:10] for (_, _, purchase), row in found.items()}
    assert usage == {
        "spot": (120_000, 90_000, 15_000, 60_000),
        "on_demand": (240_000, 180_000, 30_000, 120_000),
    }


def test_samples_outside_of_the_paid_time_have_hours_too() -> None:
    found = hours(
        job("j", "started", T0, gpu_count=1),
        job("j", "completed", T0 + 60_000),
        gpu("j", T0 + 2 * HOUR, 30_000, {"0": 1.0}),
    )
    assert found[1, 1, ""] == HourRow(0, 0, 0, 0, 0, 0, 30_000, 30_000, 0, 0, (0,) * len(COMPONENTS), 0, 0)


def test_a_late_sample_changes_the_hour_before() -> None:
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))
    lines = [
        job("j", "started", T0, gpu_count=1),
        gpu("j", T0 + HOUR, 60_000, {"0": 0.5}),
        gpu("j", T0 + HOUR + 60_000, 60_000, {"0": 0.5}),
        gpu("j", T0 + HOUR, 60_000, {"0": 1.0}),
    ]
    machine.feed(list(enumerate(lines[:3])))
    machine.checkpoint(machine.newest_ms)
    machine.feed(list(enumerate(lines))[3:])
    machine.restart()  # the job is open: the snapshot says that its hour is due
    machine.checkpoint(machine.newest_ms)
    row = machine.tables().hours[HourKey("j", 1, H0, NOBODY)]
    assert (row.sampled_gpu_ms, row.productive_gpu_ms) == (60_000, 60_000)


def test_hours_whose_usage_was_evicted_keep_it_when_a_late_price_restates_them() -> None:
    """Two days later, usage minutes are no longer in memory; the purchase that changed within the hour still splits it."""
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))
    lines = [
        job("j", "started", T0, gpu_count=1, purchase="spot"),
        job("j", "updated", T0 + HOUR + 600_000, purchase="on_demand"),
        *(
            gpu("j", T0 + minute * 60_000, 60_000, {"0": 0.5}, tensor_ratio=[0.25])
            for minute in range(1, 50 * 60, 5)
        ),
        *(job("j", "heartbeat", T0 + hour * HOUR) for hour in range(1, 50)),
    ]
    lines.sort(key=lambda line: int(body(line)["time_ms"]))
    for begin in range(0, len(lines), 50):
        machine.feed(list(enumerate(lines))[begin : begin + 50])
    attempt = machine.shards[0].jobs["j"].attempts[1]
    assert attempt.evicted_to > T0 // 60_000 + 20 * 60
    machine.restart()
    late = price("s", "1", effective_ms=T0)
    machine.feed([(len(lines), late)])
    machine.checkpoint(machine.newest_ms)
    found = machine.tables().hours
    assert found == compute([*lines, late]).hours
    assert found[HourKey("j", 1, H0 + 1, SPOT)][6:10] == (60_000 * 2, 30_000 * 2, 15_000 * 2, 60_000 * 2)


def test_hours_that_an_upgrade_made_of_minutes_are_replaced_under_other_fields() -> None:
    """It knew the last price fields only: the first hour was spot."""
    machine = Meter(ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS))
    lines = [
        price("s", "1"),
        job("j", "started", T0, gpu_count=1, purchase="spot"),
        job("j", "updated", T0 + HOUR, purchase="on_demand"),
        job("j", "completed", T0 + 2 * HOUR),
    ]
    machine.feed(list(enumerate(lines)))
    want = machine.tables().hours
    (stored,) = (row for key, row in machine.store.tables[JOB_HOURS].items() if key[2] == H0 * 3600)
    made = dict(stored) | {"purchase": "on_demand", "version": 0}
    machine.store.tables[JOB_HOURS].clear()
    machine.store.insert(JOB_HOURS, pa.Table.from_pylist([made], schema=SCHEMAS[JOB_HOURS]))
    known = machine.shards[0].jobs["j"]
    known.attempts[1].written.clear()
    known.booked_time = UNKNOWN_TIME
    known.owe_booked_hours()
    machine.shards[0].due.dirty_jobs.add("j")
    machine.checkpoint(machine.newest_ms)
    assert machine.tables().hours == want
