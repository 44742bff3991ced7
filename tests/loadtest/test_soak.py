"""The soak's own parts: what it sends is what it accounts for, its judge finds a missing row, its slope is a slope."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from loadtest.soak_judge import Sum, Totals, differences, expected
from loadtest.soak_load import GPUS, Load
from loadtest.soak_watch import Point, Watch, line, slope_percent
from loadtest.soak_world import Look, _verdict
from schemas.decode import decode
from schemas.invalid import Invalid
from tests.oracle.compute import compute
from tests.oracle.model import Line

BEGIN_S = 1_772_366_400
SECONDS = 400


def sent(seed: int = 1, **about: Any) -> tuple[Load, list[tuple[str, bytes]]]:
    load = Load(samples_per_s=256, begin_s=BEGIN_S, seed=seed, **about)
    events = list(load.opening())
    for second in range(1, SECONDS):
        events += load.second(BEGIN_S + second)
    events += load.closing(BEGIN_S + SECONDS - 1)
    return load, [(str(event.topic), event.value) for event in events]


def test_the_same_seed_sends_the_same() -> None:
    assert sent()[1] == sent()[1]
    assert sent(1)[1] != sent(2)[1]


def test_what_is_bad_is_refused_and_nothing_else() -> None:
    load, events = sent()
    found = [decode(topic, value, (), 2 * BEGIN_S * 1000) for topic, value in events]
    assert sum(isinstance(each, Invalid) for each in found) == load.account.bad > 0
    topics = Counter(topic for topic, _ in events)
    assert min(topics[name] for name in ("jobs", "gpu", "network", "storage", "nodes", "prices")) > 0
    assert load.live == 0
    assert len(load.account.jobs) > load.groups, "none has ended and made room"


def test_the_account_is_what_the_oracle_makes_of_all_that_was_sent() -> None:
    """The soak's judge leaves the samples out, because there are millions; here they are few enough."""
    load, events = sent()
    want = expected(load.account)
    lines = [
        Line(topic, json.loads(value))
        for topic, value in events
        if not isinstance(decode(topic, value, (), 2 * BEGIN_S * 1000), Invalid)
    ]
    whole = compute(lines, as_of_ms=(BEGIN_S + SECONDS) * 1000)
    assert want.gpu_samples == sum(row.sampled_gpu_s for row in whole.usage.values()) > 0
    assert want.gpu_samples % GPUS == 0
    assert want.work_gpu_ms == sum(row.productive_gpu_ms for row in whole.usage.values())
    assert want.cost_nano() == sum(row.cost_nano for row in whole.ledger.values()) > 0
    assert sum(each.rows for each in want.jobs.values()) == len(whole.ledger)
    assert want.nodes.quantity == sum(row.quantity for row in whole.nodes.values()) > 0


def test_exporters_that_fall_silent_send_the_same_samples_later() -> None:
    about: dict[str, Any] = {"nodes_per_job": 1}
    (_, steady), (load, bursty) = sent(**about), sent(**about, burst_every_s=30)
    assert load.groups == 32
    assert steady != bursty
    assert sorted(steady) == sorted(bursty)


def test_fewer_jobs_than_nodes_have_all_of_them_some_one_more_than_others() -> None:
    load = Load(32 * GPUS, BEGIN_S, jobs=20)
    opening = list(load.opening())
    starts = [json.loads(each.value) for each in opening if each.topic == "jobs"]
    assert load.live == load.groups == len(starts) == 20
    assert sorted(len(start["nodes"]) for start in starts) == [1] * 8 + [2] * 12
    assert all(start["gpu_count"] == GPUS * len(start["nodes"]) for start in starts)
    used = [node for start in starts for node in start["nodes"]]
    known = [json.loads(each.value)["node"] for each in opening if each.topic == "nodes"]
    assert sorted(used) == sorted(known) == sorted(set(used))
    sampled = [json.loads(each.value)["node"] for each in load.second(BEGIN_S + 1) if each.topic == "gpu"]
    assert sorted(sampled) == sorted(used)


def test_the_judge_says_what_differs() -> None:
    want = Totals({"a": Sum(1, 2, 3, 0)}, Sum(1, 1, 1, 0), 8, 4_000, 1)
    assert differences(want, want) == []
    got = want._replace(jobs={"a": Sum(1, 2, 4, 0), "b": Sum(1, 1, 1, 0)}, gpu_samples=16)
    assert [words.partition(":")[0] for words in differences(got, want)] == ["job a", "job b", "gpu_samples"]


def test_a_slope_is_the_rise_of_the_line_in_percent_of_its_start() -> None:
    assert slope_percent([Point(at_s, 100 + at_s) for at_s in range(11)]) == pytest.approx(10.0)
    assert slope_percent([Point(at_s, 100 + at_s % 2) for at_s in range(101)]) == pytest.approx(0, abs=0.1)
    assert slope_percent([Point(0, 1), Point(1, 2)]) is None


def test_an_audit_counts_against_the_meter_once_it_has_caught_up() -> None:
    watch = Watch()
    wrong = Look(rss_mib=100.0, ready=True, audit_ok=False, findings=("books",))
    watch.seen(10, "w0", 1, wrong, lag=1_000_000)
    watch.seen(20, "w0", 1, wrong, lag=None)
    assert (watch.audits_wrong_behind, watch.audits_wrong) == (2, [])
    watch.seen(50, "w0", 1, wrong, lag=0)
    assert (watch.audits_wrong_behind, watch.audits_wrong) == (3, []), "the verdict may be of then"
    watch.seen(60, "w0", 1, wrong, lag=0)
    assert watch.audits_wrong == ["60 s w0: books"]
    watch.seen(70, "w0", 2, Look(), lag=0)
    assert (watch.audits_none, watch.not_ready) == (1, 1)


def test_the_canarys_counters_are_summed_over_lives_and_returns() -> None:
    watch = Watch()
    for life, runs in ((1, 3.0), (1, 5.0), (1, 1.0), (2, 2.0)):
        watch.seen(0, "w0", life, Look(rss_mib=1.0, canary={"trainfare_canary_runs_total": runs}), 0)
    assert (watch.canary["runs"], watch.canary["wrong"]) == (8, 0)


def test_a_line_of_what_is_seen() -> None:
    looks = {"w0": Look(), "observer": Look(rss_mib=300.4, ready=True, audit_ok=True)}
    text = line(10.0, 1_000, None, looks, "kill -9 w0")
    assert "sent 1,000  lag ?  MiB w0 - observer 300  ready 1/2  audit 1 ok 0 not" in text
    assert text.endswith("| kill -9 w0")


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, None),
        ((503, b""), None),
        ((200, b"<html>"), None),
        ((200, b'{"ok": null, "findings": []}'), None),
        ((200, b'{"ok": true, "findings": []}'), ()),
        ((200, b'{"ok": false}'), ("not ok, and no finding says why",)),
    ],
)
def test_an_audits_answer(answer: tuple[int, bytes] | None, verdict: tuple[str, ...] | None) -> None:
    assert _verdict(answer) == verdict
