"""The alerts of jobs that stand still are the members of their cluster's incident, whatever cause of their own they have."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from schemas.columns import rows_of
from schemas.tables import ALERTS, JOBS
from sinks.clickhouse import ClickHouseStore
from streams.explain.alert_list import MEMBERS, AlertsAsked, settled
from tests.sinks.rows import rows
from tests.sinks.stores import embedded
from tests.web.live import alert, at, put
from tests.web.log import T0_MS

CAUSE = '["standstill","c1"]'


def _fires(
    name: str, job: str, minute: int, rule: str = "stalled", stood: int | None = 5, **more: Any
) -> dict[str, Any]:
    at_ms = T0_MS + minute * 60_000
    about: dict[str, Any] = {"subject_name": job, "started": at(at_ms), "changed": at(at_ms), "rule": rule}
    about["stood_since"] = None if stood is None else at(T0_MS + stood * 60_000)
    return alert(f"al_{name}", **about, opened_usd_per_hour=Decimal(10), **more)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("clusters")) as found:
        known = {"a": "c1", "lr-2": "c1", "c": "c1", "d": "c2", "e": "", "f": "c1"}
        jobs = [{"job_id": job, "cluster": cluster} for job, cluster in known.items()]
        found.insert(JOBS, rows(JOBS, *jobs), "jobs")
        over = {"status": "resolved", "resolved": at(T0_MS + 90 * 60_000)}
        hangs: dict[str, Any] = {"subject_kind": "cluster", "shared_cause": CAUSE, **over}
        alerts = [
            _fires("a", "a", 11),
            _fires("b", "lr-2", 15, "idle_gpus", shared_cause='["sweep","idle_gpus","speech","lr"]'),
            _fires("c", "c", 60, "idle_gpus"),
            _fires("early", "f", 19, stood=-1),
            _fires("later", "f", 60, "idle_gpus", stood=11),
            _fires("old", "f", 60, stood=None),
            _fires("after", "f", 95),
            _fires("other", "d", 15),
            _fires("unknown", "e", 15),
            _fires("burns", "a", 16, "burn_fast"),
            _fires("hangs", "c1", 20, "incident", **hangs),
            _fires("first", "c1", -60, "incident", stood=-90, **hangs),
        ]
        put(found, ALERTS, alerts, "alerts")
        yield found


def _found(store: ClickHouseStore, **given: Any) -> list[dict[str, Any]]:
    asked = AlertsAsked(**given)
    return [*rows_of(store.query(settled(asked.sql()), asked.parameters()))]


def test_the_incident_of_a_cluster_has_its_members(store: ClickHouseStore) -> None:
    members = _found(store, part_of="al_hangs")
    assert {each["alert_id"] for each in members} == {"al_a", "al_b", "al_c"}
    (sums,) = rows_of(store.query(settled(MEMBERS), {"alerts": ["al_hangs"]}))
    assert (sums["jobs"], sums["usd_per_hour"]) == (3, 30)


def test_they_are_one_row_with_it(store: ClickHouseStore) -> None:
    folded = {each["alert_id"]: each["matched"] for each in _found(store, folded=True)}
    assert folded == {
        "al_hangs": 4,
        **dict.fromkeys(("al_early", "al_later", "al_old", "al_after"), 1),
        **dict.fromkeys(("al_first", "al_other", "al_unknown", "al_burns"), 1),
    }
