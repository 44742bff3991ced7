"""Of two rules about one job that tell of one cause, the first is sent."""

from __future__ import annotations

import pytest

from streams.notify.incident_hold import SURE_MS
from tests.notify.scripted_sender import run
from tests.notify.test_incident_hold import WAIT_MS, office, spins, stalls


@pytest.mark.parametrize(
    ("rule", "beside"),
    [("oversized", "ceiling"), ("silent_job", "after_node"), ("no_checkpoint", "silent_job")],
)
@pytest.mark.parametrize("ago_ms", [60_000, -60_000])
def test_what_the_first_message_about_a_job_tells_of_is_not_sent_again(
    rule: str, beside: str, ago_ms: int
) -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        there.keep(spins(rule=beside, ago_ms=ago_ms))
        await there.offer(stalls(rule=rule, severity="ticket"))
        await there.work(WAIT_MS)
        await there.work(SURE_MS)
        assert there.sender.told == ([] if ago_ms > 0 else [("a", "firing")])

    run(scenario())
