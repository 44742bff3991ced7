"""Changes of alerts become episodes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.tables import ALERTS, JOBS
from streams.backtest.fired import FiredAlert
from streams.backtest.recorder import AlertRecorder
from streams.engine.alerts.rows import alerts_table
from streams.notify.history import StoredDeliveries
from streams.notify.kind_figures import KindFigures
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved
from tests.sinks.rows import rows

NOTHING_STORED = StoredDeliveries(MemoryStore()), KindFigures(MemoryStore())


def test_an_episode_has_its_first_sentence_and_its_last_end() -> None:
    recorder = AlertRecorder()
    again = an_alert(changed_ms=NOW_MS + 20_000, summary="again", firings=2)
    recorder.offer([an_alert(summary="first"), resolved(after_ms=10_000, summary="over")], 0)
    recorder.offer([again, resolved(after_ms=30_000)], 0)
    assert recorder.episodes(*NOTHING_STORED) == (
        FiredAlert("burn_fast", "page", "job", "job-1", NOW_MS, NOW_MS + 30_000, "first", 2, 0),
    )


def test_a_repeated_change_counts_once_and_a_silenced_one_apart() -> None:
    recorder = AlertRecorder()
    recorder.offer([an_alert(silenced=True)], 0)
    recorder.offer([an_alert(silenced=True)], 3)
    recorder.offer([an_alert(changed_ms=NOW_MS + 20_000)], 0)
    (found,) = recorder.episodes(*NOTHING_STORED)
    assert (found.messages, found.silenced, found.resolved_ms) == (1, 1, None)


def test_an_alert_for_the_digest_sends_no_message() -> None:
    recorder = AlertRecorder()
    recorder.offer([an_alert(severity="digest")], 0)
    (found,) = recorder.episodes(*NOTHING_STORED)
    assert (found.severity, found.messages, found.silenced) == ("digest", 0, 0)


def test_alerts_about_the_meter_are_left_out_and_the_others_in_order() -> None:
    recorder = AlertRecorder()
    late = an_alert("a", alert_id="al_2", started_ms=NOW_MS + 1)
    recorder.offer([late, an_alert("b"), an_alert("shard", subject_kind="meter", alert_id="al_3")], 0)
    assert [found.subject for found in recorder.episodes(*NOTHING_STORED)] == ["b", "a"]


def test_what_an_alert_about_its_cause_tells_of_sends_nothing() -> None:
    recorder = AlertRecorder()
    price: dict[str, Any] = {"shared_cause": '["price","h100"]'}
    jump = an_alert("h100", rule="price_jump", subject_kind="sku", alert_id="al_0", **price)
    later: dict[str, Any] = {"started_ms": NOW_MS + 60_000, "changed_ms": NOW_MS + 60_000}
    burns = [an_alert(name, alert_id=f"al_{name}", **later, **price) for name in "ab"]
    recorder.offer([jump, *burns, an_alert("c", alert_id="al_c", **later)], 0)
    assert [(found.subject, found.messages) for found in recorder.episodes(*NOTHING_STORED)] == [
        ("h100", 1), ("a", 0), ("b", 0), ("c", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("after_ms", "messages"), [(40_000, 0), (200_000, 1)])
def test_a_burn_waits_for_the_jump_of_its_price_that_a_later_correction_hides(
    after_ms: int, messages: int
) -> None:
    recorder = AlertRecorder()
    price: dict[str, Any] = {"shared_cause": '["price","h100"]'}
    later: dict[str, Any] = {"started_ms": NOW_MS + after_ms, "changed_ms": NOW_MS + after_ms}
    burn = an_alert("a", alert_id="al_a", **price)
    jump = an_alert("h100", rule="price_jump", subject_kind="sku", alert_id="al_0", **later, **price)
    recorder.offer([burn, jump], 0)
    found = {each.subject: each.messages for each in recorder.episodes(*NOTHING_STORED)}
    assert found == {"a": messages, "h100": 1}


def test_an_incident_tells_of_its_alerts_but_not_of_those_sent_before_it() -> None:
    recorder = AlertRecorder()
    for place, name in enumerate("abcd"):
        at_ms = NOW_MS + 20_000 * (place > 0) + 10_000 * (place == 3)
        times: dict[str, Any] = {"started_ms": at_ms, "changed_ms": at_ms}
        recorder.offer([an_alert(name, alert_id=f"al_{name}", shared_cause='["sweep","x"]', **times)], 0)
    assert [found.messages for found in recorder.episodes(*NOTHING_STORED)] == [1, 0, 0, 0]


@pytest.mark.parametrize(("run_id", "messages"), [("llama", 0), ("gpt", 1)])
def test_what_an_alert_about_its_run_tells_of_sends_nothing(run_id: str, messages: int) -> None:
    """As live delivery has it: the alert is about another job, and the run is known by what is stored of both."""
    store = MemoryStore()
    jobs = [{"job_id": "train-2", "run_id": "llama"}, {"job_id": "train-3", "run_id": run_id}]
    store.insert(JOBS, rows(JOBS, *({**job, "owner": "ada", "version": 1} for job in jobs)), "jobs")
    resubmits = an_alert("train-2", rule="resubmit_loop", alert_id="al_1", started_ms=NOW_MS - 60_000)
    store.insert(ALERTS, alerts_table([resubmits], 0, 1), "alerts")
    recorder = AlertRecorder()
    recorder.offer([resubmits, an_alert("train-3", rule="retry_loop", alert_id="al_2")], 0)
    found = recorder.episodes(StoredDeliveries(store), KindFigures(store))
    assert [(each.subject, each.messages) for each in found] == [("train-2", 1), ("train-3", messages)]
