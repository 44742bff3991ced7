"""The engine's alerts and burn rates against the plain judge's: whatever the batches, checkpoints and crashes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import ALERTS, BURN_RATES
from tests.oracle import job_rules as plain_rules
from tests.oracle import judge as plain_judge
from tests.oracle.cases import T0, gpu, job, network, price
from tests.oracle.intake import body
from tests.oracle.judge import BURN_RULES
from tests.oracle.knowledge import Knowledge, Told, in_log_time
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.breaking import FedLogs
from tests.property.compare import MOST_SHOWN
from tests.property.compare_alerts import Stored, alert_differences, rate_differences
from tests.property.profile import PROFILE
from tests.property.watching import Watching
from tests.strategies.logs import batch_cuts, fleets, seeds, time_of
from tests.strategies.telling import Trace
from tests.strategies.traces import make_trace, merged, traces

M = MINUTE_MS


def alerts_differ(watching: Watching, told: Sequence[Told]) -> list[str]:
    """Alerts stored other than the judge says."""
    stored = [Stored.of(row) for row in watching.rows(ALERTS)]
    return alert_differences(stored, plain_judge.judge(told, until_ms=told[-1].log_ms), Knowledge(told))


def rates_differ(watching: Watching, told: Sequence[Told], but: Sequence[str] = ()) -> list[str]:
    """Burn rates stored other than the ledger says, of a hundred rows; columns in `but` are not looked at."""
    knowledge = Knowledge(told)
    rows = sorted(watching.rows(BURN_RATES), key=lambda row: (row["job_id"], row["time"]))
    found = (words for row in rows[:: len(rows) // 100 + 1] for words in rate_differences(row, knowledge))
    return [words for words in found if not any(f": {column}:" in words for column in but)]


def check(
    lines: list[Line],
    cuts: Sequence[int] = (),
    crashes: Mapping[int, int] | None = None,
    but: Sequence[str] = (),
) -> Watching:
    """Feed the log in pieces; at some of them the newest snapshots are lost, and the shards are restored."""
    told = in_log_time(lines)
    watching = Watching(told)
    for cut in (*cuts, len(told)):
        watching.feed(cut)
        watching.checkpoint()
        if crashes and cut in crashes:
            watching.crash(crashes[cut])
    watching.checkpoint()
    found = [*alerts_differ(watching, told), *rates_differ(watching, told, but)]
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:MOST_SHOWN])
    return watching


@PROFILE
@given(traces(hours_at_most=3, jobs_at_most=3), st.data())
def test_any_trace_in_any_batches(trace: Trace, data: st.DataObject) -> None:
    lines = merged([trace])
    check(lines, data.draw(batch_cuts(len(lines)).filter(lambda cuts: len(cuts) < 20)))


@PROFILE
@given(traces(hours_at_most=3, jobs_at_most=3), st.data())
def test_a_crash_changes_no_alert(trace: Trace, data: st.DataObject) -> None:
    lines = merged([trace])
    cuts = data.draw(
        st.lists(st.integers(1, len(lines) - 1), min_size=1, max_size=5, unique=True).map(sorted)
    )
    lost = data.draw(st.lists(st.integers(0, 2), min_size=len(cuts), max_size=len(cuts)))
    check(lines, cuts, dict(zip(cuts, lost, strict=True)))


MOST = {"bytes": 10**9, "requests": 10**5}


def in_small_disorder(rng: random.Random, lines: list[Line]) -> list[Line]:
    """By event time, but one in five up to 90 s late; amounts and prices such that windows can be compared exactly.

    No cost is beyond Decimal(18, 9), and no rate but 0 is below a cent per hour.
    """
    changed = []
    for one in lines:
        event = dict(body(one))
        event |= {unit: min(event[unit], most) for unit, most in MOST.items() if unit in event}
        if one.topic == "prices":
            event["usd"] = max(event["usd"], "0.01", key=Decimal) if Decimal(event["usd"]) else "0"
        changed.append(replace(one, value=event))
    return sorted(changed, key=lambda x: time_of(x) + (rng.randrange(90_000) if rng.random() < 0.2 else 0))


@PROFILE
@given(fleets(nodes=False), seeds(), st.data())
def test_any_fleet_in_small_disorder(lines: list[Line], rng: random.Random, data: st.DataObject) -> None:
    cuts = batch_cuts(len(lines)).filter(lambda cuts: len(cuts) < 10)
    if lines:
        # Which instant stands for the present one of a job that is sampled and has lifecycle events is left open.
        check(
            in_small_disorder(rng, lines), data.draw(cuts), but=("usd_per_hour_now", "expected_usd_per_hour")
        )


def doubled(name: str) -> dict[str, dict[str, Fraction]]:
    """A threshold of every burn rule twice as high."""
    names = [rule.name for rule in BURN_RULES]
    return plain_rules.DEFAULTS | {
        rule: plain_rules.DEFAULTS[rule] | {name: 2 * plain_rules.DEFAULTS[rule][name]} for rule in names
    }


SILENT_LATER = plain_rules.DEFAULTS | {
    "silent_job": plain_rules.DEFAULTS["silent_job"] | {"minutes": Fraction(11)}
}
BROKEN = (
    (plain_judge, "DRIFT_WAITS_MS", 0),
    (plain_judge, "CLEARS_BELOW", Fraction(1)),
    (plain_judge, "LEAST_EXTRA_NANO", 0),
    (plain_judge, "SUSTAINED_WAITS_MS", 0),
    (plain_rules, "DEFAULTS", SILENT_LATER),
    (plain_rules, "DEFAULTS", doubled("long_ratio")),
    (plain_rules, "DEFAULTS", doubled("short_ratio")),
    (plain_judge, "BURN_RULES", [rule._replace(short_ms=rule.short_ms * 2) for rule in BURN_RULES]),
)


#: Logs that show all of these come first: the search takes half a minute, and this order a few seconds.
SHOWING = (9, 31, 14, 7, 5)


@pytest.fixture(scope="module")
def some_logs() -> FedLogs:
    return FedLogs(
        lambda seed: in_log_time(merged([make_trace(seed, hours_at_most=4, jobs_at_most=3)])),
        alerts_differ,
        [*SHOWING, *(seed for seed in range(40) if seed not in SHOWING)],
    )


def test_an_episode_that_began_anew_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ((60, 72), (66, 8), (74, 72), (80, 8))
    scaled = [job("j", "scaled", T0 + minute * M, gpu_count=gpus) for minute, gpus in sizes]
    start = [price("p", "2", time_ms=T0), job("j", "started", T0, gpu_count=8)]
    watching = check([*start, *scaled, job("j", "completed", T0 + 100 * M)])
    assert [row["firings"] for row in watching.rows(ALERTS)] == [2]
    monkeypatch.setattr(plain_judge, "SAME_EPISODE_MS", 0)
    assert alerts_differ(watching, watching.told)


@pytest.mark.parametrize(("module", "name", "value"), BROKEN)
def test_a_judge_with_a_broken_rule_is_found_out(
    some_logs: FedLogs, module: ModuleType, name: str, value: object
) -> None:
    assert some_logs.find_out(lambda patch: patch.setattr(module, name, value))


def ninefold(*more: Line) -> list[Line]:
    lines = [
        price("p", "2", time_ms=T0),
        job("j", "started", T0, gpu_count=8),
        job("j", "scaled", T0 + HOUR_MS, gpu_count=72),
        job("j", "heartbeat", T0 + 2 * HOUR_MS),
    ]
    return [*lines, *more]


def test_a_crash_in_an_episode_is_one_episode() -> None:
    # Read up to the step and 70 min further, in pieces, and restored after each with and without the last snapshot.
    told = [*ninefold(), *(job("j", "heartbeat", T0 + 2 * HOUR_MS + n * M) for n in range(1, 9))]
    watching = check(told, range(3, len(told)), {4: 0, 5: 1, 6: 2, 7: 0})
    assert len(watching.rows(ALERTS)) == 1


def test_a_job_that_is_sampled_long_keeps_its_quoted_rate() -> None:
    # Windows forget what is older than 6 h; what was quoted in the first minute stands.
    samples = [
        gpu("j", T0 + m * M, M, {f"g{n}": 1.0 for n in range(20 if m > 420 else 2)}, id=f"s{m}")
        for m in range(1, 441)
    ]
    check([price("p", "2", time_ms=T0), *samples], [100, 200, 430], {430: 0})


def test_what_is_told_hours_late_changes_the_ticks_to_come() -> None:
    lines = [
        price("p", "3", time_ms=T0),
        job("j", "started", T0 + HOUR_MS, gpu_count=8),
        job("j", "heartbeat", T0 + 9 * HOUR_MS),
        job("j", "started", T0, gpu_count=1),  # eight hours late, and it quotes an eighth
        job("j", "scaled", T0 + 9 * HOUR_MS + M, gpu_count=80),
        job("j", "heartbeat", T0 + 10 * HOUR_MS),
    ]
    check(lines, [2, 3, 4, 5], {4: 0})


def test_eight_hours_of_traffic_told_at_once() -> None:
    lines = [
        price("p", "3", time_ms=T0),
        price("n", "1", component="network", per="gb", time_ms=T0),
        job("j", "started", T0, gpu_count=8),
        network("j", T0 + 8 * HOUR_MS, 8 * HOUR_MS, bytes=3 * 10**12),
        job("j", "heartbeat", T0 + 9 * HOUR_MS),
    ]
    check(lines, [3, 4], {4: 1})


def test_an_amount_counts_in_windows_as_the_ledger_bills_it() -> None:
    # 3.7 nano-dollars are billed as 4; in a job's first millisecond that is 0.0134 or 0.0144 $/h.
    check(
        [
            price("n", "4", component="network", per="gib", time_ms=T0),
            network("j", T0, 0, bytes=1),
            job("j", "started", T0 + M - 1),
            job("j", "completed", T0 + M),
        ]
    )


@pytest.mark.parametrize("end", ["preempted", "failed", "completed"])
@pytest.mark.parametrize("minutes", [(), (1, 2), (7, 7), (1, 9), (1, 12)])  # since the end: queued, started
def test_a_job_that_broke_off_is_one_episode_with_its_next_attempt(
    end: str, minutes: tuple[int, ...]
) -> None:
    end_ms = T0 + 65 * M
    following = [
        job("j", kind, end_ms + minute * M, attempt=2)
        for kind, minute in zip(("queued", "started"), minutes, strict=False)
    ]
    lines = [
        price("p", "2"),
        job("j", "started", T0, gpu_count=8),
        job("j", "scaled", T0 + 60 * M, gpu_count=72),
        job("j", end, end_ms),
        *following,
        job("other", "started", end_ms + 20 * M),
    ]
    watching = check(lines, cuts=(4,), crashes={4: 1})
    [alert, *_] = [row for row in watching.rows(ALERTS) if row["rule"] == "burn_fast"]
    if end != "completed" and minutes and minutes[1] < 10:
        assert (alert["firings"], alert["status"]) == (1, "firing")


@PROFILE
@given(st.data())
def test_a_running_job_that_is_not_heard_of(data: st.DataObject) -> None:
    """Heartbeats and samples now and then, of an attempt that pauses, breaks off and begins again."""
    pauses = st.sampled_from([1, 3, 9, 10, 11, 25])
    what = st.sampled_from(
        ["heartbeat", "gpu", "gpu", "suspended", "resumed", "preempted", "checkpointed", "network"]
    )
    lines, at_ms, attempt = [price("p", "2"), job("j", "started", T0, gpu_count=2)], T0, 1
    for number, (minutes, kind) in enumerate(data.draw(st.lists(st.tuples(pauses, what), max_size=12))):
        at_ms += minutes * M + data.draw(st.sampled_from([0, 0, 9_999, 10_000]))
        if kind == "gpu":
            lines.append(gpu("j", at_ms, M, {"g0": 1.0}, attempt=attempt, id=f"s{number}"))
        elif kind == "network":
            lines.append(network("j", at_ms, M, attempt=attempt, id=f"n{number}", bytes=1))
        else:
            lines.append(job("j", kind, at_ms, attempt=attempt))
        if kind == "preempted":
            attempt += 1
            lines.append(job("j", "started", at_ms + M, attempt=attempt))
    lines.append(job("other", "started", at_ms + 30 * M))
    lines.sort(key=time_of)
    cuts = data.draw(batch_cuts(len(lines)).filter(lambda cuts: len(cuts) < 10))
    check(lines, cuts, {cut: data.draw(st.integers(0, 2)) for cut in cuts})
