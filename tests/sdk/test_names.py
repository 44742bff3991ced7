"""Names that the meter refuses are told by the run, and nothing that it tells can steer a terminal."""

from __future__ import annotations

from typing import Any

import pytest
import trainfare
from trainfare import names

from schemas.escaping import visible
from schemas.reserved import CANARY, GROUPS, reserved_in
from tests.sdk.endpoint import FakeEndpoint

EVIL = "a\x1b[2J\r\nERROR forged\u202e\u200b\u3164\x9b"


@pytest.mark.parametrize(
    ("job_id", "fields", "told"),
    [
        (f"{CANARY}.x", {}, "job_id: trainfare-canary.x is one of the meter's own names"),
        ("run-7", {"cloud": CANARY}, "cloud: trainfare-canary is one of the meter's own names"),
        ("run-7", {"team": "Idle"}, "team: Idle is a word of the meter's tables"),
        ("run-7", {"owner": "(none)"}, "owner: (none) is a word of the meter's tables"),
        ("run\0-7", {}, "job_id: a NUL byte in it"),
        ("run-7", {"project": "\0"}, "project: a NUL byte in it"),
    ],
)
def test_a_name_that_would_be_refused_is_told_at_once_and_nothing_is_sent(
    endpoint: FakeEndpoint, job_id: str, fields: dict[str, Any], told: str
) -> None:
    with trainfare.run(job_id, url=endpoint.url, token="t", gpus=1, **fields) as run:
        run.checkpoint()
    assert told in run.fault
    assert endpoint.requests == 0


def test_the_package_s_words_are_the_meter_s() -> None:
    assert names._RESERVED == CANARY
    assert names._GROUPS == GROUPS
    for field in ("job_id", "cloud", "owner", "team", "project", "experiment"):
        for value in (CANARY, f"{CANARY}.1", "idle", " Unallocated ", "run-7", "vision"):
            assert bool(names.fault_of({field: value})) == (reserved_in({field: value}) is not None)
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x3000), *range(0xE0000, 0xE0200)]))
    assert names.visible(every) == visible(every)


def test_what_a_run_tells_of_a_stranger_s_words_is_escaped(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        endpoint, "_take", lambda body: [{"index": 0, "reason": EVIL, "detail": EVIL} for _ in body]
    )
    with trainfare.run("run-7", url=endpoint.url, token="t", gpus=1) as run:
        pass
    assert "\\x1b[2J\\r\\n" in run.fault
    assert run.fault == visible(run.fault)


@pytest.mark.parametrize("where", ["url", "job_id", "team"])
def test_so_is_what_the_script_itself_was_given(where: str) -> None:
    given: dict[str, Any] = {"job_id": f"{CANARY}{EVIL}"} if where == "job_id" else {"job_id": "run-7"}
    given |= {"url": f"http://{EVIL}"} if where == "url" else {"url": "http://127.0.0.1:9"}
    given |= {"team": f"{EVIL}\0"} if where == "team" else {}
    with trainfare.run(**given, token="t", gpus=1) as run:
        pass
    assert run.fault
    assert run.fault == visible(run.fault)
    assert repr(run) == visible(repr(run))
