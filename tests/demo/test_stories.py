"""The stories' logs in the demo: the same events at other times, which no event or price of the fleet touches."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import orjson
import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.demo import job_specs
from streams.demo.catalog import LATE_PRICE, POOLS, PRICES
from streams.demo.fleet import Fleet
from streams.demo.pacer import start_before
from streams.demo.records import DemoRecord
from streams.demo.stories import CLOUD, PARTS, Stories
from streams.demo.story_logs import BEGIN_MS, STORIES
from streams.topics import Topic

START_MS = start_before(1_763_730_000_000, 60, None)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
END_MS = START_MS // DAY_MS * DAY_MS + DAY_MS - 1


@pytest.fixture(scope="module")
def records() -> list[DemoRecord]:
    return Stories(START_MS).advance(END_MS)


def value_of(record: DemoRecord) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(record.value)
    return value


def test_nothing_is_refused_by_the_decoder(records: list[DemoRecord]) -> None:
    for record in records:
        event = decode(record.topic, record.value, [], record.time_ms)
        assert not isinstance(event, Invalid), (event, record.value)


def test_they_are_the_logs_at_other_times(records: list[DemoRecord]) -> None:
    changed = {"source", "time_ms", "effective_ms", "cloud"}
    for name, part in PARTS.items():
        moved_ms = START_MS // (24 * HOUR_MS) * 24 * HOUR_MS - BEGIN_MS // (24 * HOUR_MS) * 24 * HOUR_MS
        lines = [orjson.loads(line) for line in STORIES[name]().content().splitlines()]
        played = [record for record in records if value_of(record)["source"] == f"story/{name}"]
        assert [record.time_ms for record in played] == [
            line["value"]["time_ms"] + moved_ms + part.delay_ms for line in lines
        ]
        for line, record in zip(lines, played, strict=True):
            assert line["topic"] == record.topic
            same = {key: each for key, each in value_of(record).items() if key not in changed}
            limit = {"thresholds"} if same.get("name") == "nlp-share" else set()
            assert {key for key in line["value"] if same.get(key) != line["value"][key]} <= changed | limit


def test_all_of_them_are_played() -> None:
    assert PARTS.keys() == STORIES.keys()
    assert all(part.delay_ms % HOUR_MS == 0 for part in PARTS.values())


def test_ids_are_unique_and_time_only_goes_forward(records: list[DemoRecord]) -> None:
    ids = [(value["source"], value["id"]) for value in map(value_of, records)]
    assert len(set(ids)) == len(ids)
    assert all(one.time_ms <= two.time_ms for one, two in pairwise(records))


def test_they_are_the_same_however_time_is_cut(records: list[DemoRecord]) -> None:
    stories = Stories(START_MS)
    assert (
        stories.advance(START_MS - HOUR_MS) + stories.advance(START_MS) + stories.advance(END_MS) == records
    )
    assert stories.advance(END_MS) == []


def test_no_job_has_the_name_of_one_of_the_fleet(records: list[DemoRecord]) -> None:
    fleet = Fleet(START_MS).advance(START_MS + 2 * HOUR_MS)
    theirs, others = (
        {value["job_id"] for value in map(value_of, part) if "job_id" in value} for part in (records, fleet)
    )
    assert {"diffusion-xl", "test-12"} <= theirs
    assert job_specs.GROWING in others
    assert theirs & others == set()


def test_no_price_is_for_jobs_of_both(records: list[DemoRecord]) -> None:
    fleets = {pool.price_fields["cloud"] for pool in POOLS.values()}
    assert {price["cloud"] for price in (*PRICES, LATE_PRICE)} == fleets
    assert CLOUD not in fleets
    priced = (Topic.PRICES, Topic.JOBS, Topic.NETWORK)
    assert {value_of(record)["cloud"] for record in records if record.topic in priced} == {CLOUD}


def test_logs_share_prices(records: list[DemoRecord]) -> None:
    by_key: dict[tuple[str, int], set[str]] = {}
    for value in (value_of(record) for record in records if record.topic is Topic.PRICES):
        by_key.setdefault((value["sku"], value["effective_ms"]), set()).add(value["usd"])
    assert all(len(prices) == 1 for prices in by_key.values())
    assert len({sku for sku, _ in by_key}) == len(by_key)


def test_the_owners_are_those_of_the_jobs() -> None:
    assert Stories(START_MS).owners == {"ada", "grace", "kim", "lin", "tom"}


def test_what_happened_before_the_start_is_told_at_the_start() -> None:
    captions = list(islice(Stories(START_MS).captions(), len(STORIES)))
    assert captions == sorted(captions)
    assert captions[0][0] == 0
    assert captions[-1][0] < 2 * HOUR_MS


def test_they_are_played_again_each_day(records: list[DemoRecord]) -> None:
    """By jobs and ids of their own, a day later."""
    stories = Stories(START_MS)
    assert stories.advance(END_MS) == records
    again = stories.advance(END_MS + DAY_MS)
    assert [record.time_ms - DAY_MS for record in again] == [record.time_ms for record in records]
    assert all(not isinstance(decode(x.topic, x.value, [], x.time_ms), Invalid) for x in again)
    first, second = ([value_of(record) for record in part] for part in (records, again))
    assert [value.get("job_id") for value in second] == [
        value["job_id"] + "-2" if "job_id" in value else None for value in first
    ]
    assert {(x["source"], x["id"]) for x in first}.isdisjoint((x["source"], x["id"]) for x in second)
    assert {x["job_id"] for x in first if "job_id" in x}.isdisjoint(x.get("job_id") for x in second)
    captions = list(islice(Stories(START_MS).captions(), 2 * len(STORIES)))[len(STORIES) :]
    assert all(at_ms + START_MS > END_MS and what.endswith(" (day 2)") for at_ms, what in captions)
