"""Planted faults: the same of the same seed, of events that are valid, and counted by kind of fault."""

from __future__ import annotations

import orjson

from loadtest.labelled.planted import FAULTS, Planted, plant
from loadtest.labelled.planted_run import BOUND, Found, as_table, by_kind, details, found_in, merged, shares
from schemas.decode import decode
from schemas.durations import MINUTE_MS
from schemas.invalid import Invalid
from streams.backtest.fired import FiredAlert

LATER_MS = 2**42
M = MINUTE_MS


def test_a_seed_makes_one_fault_of_each_kind_of_valid_events() -> None:
    planted = [*plant(seed=1, days=1, each=1)]
    assert planted == [*plant(seed=1, days=1, each=1)]
    assert [each.kind for each in planted] == [*FAULTS]
    for each in planted:
        assert each.from_ms <= each.due_ms < each.until_ms
        assert each.kind in each.rules
        for _, topic, value in each.events:
            found = decode(topic, orjson.dumps(value), [], LATER_MS)
            assert not isinstance(found, Invalid), (found, value)


def test_a_clock_that_is_ahead_is_that_of_one_collector_and_for_a_time() -> None:
    lengths = set()
    for each in plant(seed=1, days=2, each=8):
        if each.kind != "clock_ahead":
            continue
        (source,) = each.names
        told = [(comes_ms, value) for comes_ms, _, value in each.events if value["source"] == source]
        assert {value.get("type", "sample") for _, value in told} <= {"sample", "heartbeat", "checkpointed"}
        # What is told comes within 8 s.
        ahead = [(comes_ms, value) for comes_ms, value in told if value["time_ms"] > comes_ms]
        assert {value["source"] for comes_ms, _, value in each.events if value["time_ms"] > comes_ms} == {
            source
        }
        most_ms = max(value["time_ms"] - comes_ms for comes_ms, value in ahead)
        assert all(most_ms - 8_000 <= value["time_ms"] - comes_ms for comes_ms, value in ahead)
        assert all(each.from_ms < comes_ms <= each.until_ms + 8_000 for comes_ms, _ in ahead)
        lengths.add(-(-most_ms // M))
        assert each.subjects > {source}
    assert 10 <= min(lengths) < max(lengths) <= 20 * 60


def fault(name: str) -> Planted:
    rules = frozenset(("held", "idle_gpus"))
    return Planted("held", frozenset((name, "node")), 0, 30 * M, 15 * M, 100 * M, rules, (name,), ())


def alert(
    minute: int, subject: str = "a", rule: str = "held", messages: int = 1, summary: str = ""
) -> FiredAlert:
    said = summary or f"{subject} is suspended"
    return FiredAlert(rule, "ticket", "job", subject, minute * M, None, said, messages, 0)


def test_a_fault_is_caught_in_time_by_a_rule_for_it_that_names_it() -> None:
    def caught(*alerts: FiredAlert) -> tuple[float, float]:
        return shares(found_in(alerts, [fault("a")], 1).faults)

    assert caught(alert(45)) == (1, 1)
    assert caught(alert(46)) == (0, 1)  # late
    assert caught(alert(31, rule="traffic")) == (0, 1)  # by a rule about something else
    assert caught(alert(31, summary="b is suspended")) == (0, 1)  # of something else
    assert caught(alert(31), alert(40, rule="idle_gpus")) == (1, 0)  # told twice
    assert caught(alert(31), alert(40, rule="idle_gpus", messages=0)) == (1, 1)  # another alert tells of it
    assert caught(alert(31, messages=2)) == (1, 0)
    assert caught() == (0, 0)


def test_what_is_told_of_all_logs_is_counted_by_kind() -> None:
    early = found_in([alert(-1), alert(31), alert(33, "x")], [fault("a")], 10)
    assert [each.started_ms for each in early.others] == [-M, 33 * M]
    late = found_in([alert(40), alert(41, "node", "traffic")], [fault("a")], 10)
    whole = merged([early, late])
    assert (len(by_kind(whole)["held"]), whole.lines) == (2, 20)
    *_, row = as_table(whole)
    assert row == "| `held` | 2 | 2 | 1 | `traffic` 1 | 36, p95 40 | 6, p95 10 |"
    assert min(shares(whole.faults)) < BOUND
    assert [line.split(":")[0].strip() for line in details(whole)] == [
        "more than one", "40 min", "41 min", "none planted", "none planted",
    ]  # fmt: skip


def test_a_fault_that_nothing_told_of_has_no_delay() -> None:
    *_, row = as_table(Found([*found_in([], [fault("a")], 1).faults], [], 1))
    assert row == "| `held` | 1 | 0 | 0 |  |  |  |"
