"""What a bound token may name, judged without a worker: acknowledgements, and who has a job first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.decode import decode
from schemas.events import ControlEvent, JobEvent, JobType
from schemas.invalid import Invalid
from schemas.validate_tokens import TokenBounds
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.web.errors import ApiError
from streams.web.ingest_body import AcceptedEvent
from streams.web.scopes import Caller, Scope
from streams.web.token_bounds import JobGroup, check_control, judge_bounds
from tests.web.serving import WALL_MS, run
from tests.web.test_controls import ACK

VISION = TokenBounds(teams=("vision",), sources=("sdk",))
LEAD = Caller("::1", "token/lead", frozenset({Scope.ACT}), bounds=TokenBounds(teams=("vision",)))


@pytest.mark.parametrize(
    ("alert", "more", "is_allowed"),
    [
        ({"owner": "ada", "team": "vision", "subject_name": "v1"}, {}, True),
        ({"owner": "ada", "team": "vision", "subject_name": "v1"}, {"job_id": "v1", "team": "vision"}, True),
        ({"owner": "ada", "team": "vision", "subject_name": "v1"}, {"job_id": "s1"}, False),
        ({"owner": "ada", "team": "vision", "subject_name": "v1"}, {"team": "speech"}, False),
        ({"owner": "ada", "team": "speech", "subject_name": "s1"}, {}, False),
        ({"owner": "ada", "team": "", "subject_name": "s1"}, {}, False),
        (None, {}, False),
    ],
)
def test_an_acknowledgement_is_about_the_team_of_its_alert(
    alert: dict[str, str] | None, more: dict[str, Any], is_allowed: bool
) -> None:
    if is_allowed:
        check_control({**ACK, **more}, LEAD, {}, alert)
    else:
        with pytest.raises(ApiError) as caught:
            check_control({**ACK, **more}, LEAD, {}, alert)
        # An alert of others is none, and what one's own is about can be said.
        is_own = alert is not None and alert["team"] == "vision"
        expected = (403, "beyond_token") if is_own else (404, "no_such_alert")
        assert (caught.value.status, caught.value.code) == expected


def test_what_replaces_a_control_of_another_team_is_refused_though_it_names_ones_own() -> None:
    standing = {b"budget/b": ControlEvent("s", "1", 0, "budget", "b", {"team": "speech", "usd": "5"})}
    with pytest.raises(ApiError):
        check_control({"kind": "budget", "name": "b", "team": "vision"}, LEAD, standing, None)


def event(index: int, job_id: str, team: str | None = None, kind: str = "started") -> AcceptedEvent:
    made = JobEvent("sdk", str(index), WALL_MS, job_id, 1, JobType[kind], team=team)
    return AcceptedEvent(index, OutgoingRecord(Topic.JOBS, b"", b"", []), made)


def beyond(events: list[AcceptedEvent], jobs: dict[str, JobGroup], bounds: TokenBounds = VISION) -> list[int]:
    async def known(_: Any) -> dict[str, JobGroup]:
        return jobs

    async def judged() -> list[int]:
        return [each.index for each in (await judge_bounds(events, bounds, known)).refused]

    return run(judged())


def test_a_job_that_is_nobodys_begins_with_an_event_that_says_whose_it_is() -> None:
    events = [event(0, "a", kind="heartbeat"), event(1, "a", "vision"), event(2, "a", kind="heartbeat")]
    assert beyond(events, {}) == [0]


@pytest.mark.parametrize(
    ("group", "is_refused"),
    [(JobGroup("", "vision"), False), (JobGroup("bob", "speech"), True), (JobGroup("bob", ""), True)],
)
def test_a_job_is_whose_the_store_says(group: JobGroup, is_refused: bool) -> None:
    assert beyond([event(0, "a", "vision"), event(1, "a")], {"a": group}) == ([0, 1] if is_refused else [])


def test_a_prefix_of_ids_decides_without_the_store() -> None:
    bounds = TokenBounds(teams=("vision",), sources=("sdk",), job_prefixes=("v-",))
    assert beyond([event(0, "v-1"), event(1, "s-1"), event(2, "v-1", "speech")], {"v-1": JobGroup("", "speech")}, bounds) == [1, 2]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scopes": ["read"], "owners": ["ada"]}, "owners"),
        ({"scopes": ["read"], "teams": ["vision"], "owners": ["ada"]}, "teams"),
        ({"scopes": ["metrics"], "teams": ["vision"]}, "teams"),
        ({"scopes": ["admin"], "sources": ["sdk"]}, "sources"),
        ({"scopes": ["ingest", "query"], "job_prefixes": ["v-"]}, "job_prefixes"),
        ({"scopes": ["ingest"], "teams": ["vision"]}, "sources"),
        ({"scopes": ["write"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["act"], "hash": "short"}, "hash"),
        ({"scopes": ["act"], "expires_ms": -1}, "expires_ms"),
        ({"scopes": ["act"], "team": ["vision"]}, "team"),
    ],
)
def test_a_record_whose_bound_would_not_hold_is_refused(fields: dict[str, Any], field: str) -> None:
    record = {
        "source": "t",
        "id": "1",
        "time_ms": WALL_MS,
        "kind": "token",
        "name": "a",
        "hash": 64 * "0",
        **fields,
    }
    found = decode("controls", msgspec.json.encode(record), (), WALL_MS)
    assert isinstance(found, Invalid)
    assert f"`{field}`" in found.detail
    assert 64 * "0" not in found.detail
