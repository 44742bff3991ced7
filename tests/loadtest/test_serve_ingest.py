"""The load on `trainfare serve`: as many events as asked for, and all of them taken."""

from __future__ import annotations

import json

from loadtest.serve_ingest import at_quantile, bodies
from streams.web.ingest_body import events_of, records_of

BEGIN_MS = 1_780_000_000_000


def test_requests_hold_whole_batches_of_events_that_the_ingest_takes() -> None:
    requests = list(bodies(5_000, 500, BEGIN_MS, jobs=20))
    assert all(len(json.loads(each)) == 500 for each in requests[:-1])
    found = [
        record
        for body in requests
        for record in records_of(
            events_of(body, "application/json", "", {}), 0, "", "application/json", {}, BEGIN_MS + 10**9
        )
    ]
    assert 5_000 <= len(found) <= 5_000 + 200
    assert {type(record).__name__ for record in found} == {"AcceptedEvent"}
    assert len(set(map(str, found))) == len(found)


def test_a_quantile_is_one_of_the_values() -> None:
    assert [at_quantile([3.0, 1.0, 2.0], share) for share in (0, 0.5, 0.99, 1)] == [1, 2, 3, 3]
