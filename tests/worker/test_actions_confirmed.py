"""That actions are sent waits for a second person: until then, and once that is taken back, `live` is a dry run."""

from __future__ import annotations

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from tests.notify.scripted_sender import BUSY, ScriptedSender, run
from tests.worker.ledger_lab import T0, Life
from tests.worker.test_actions import HOOK, LIVE, SWEEP, Fleet, asked, play, shared, store

__all__ = ["shared", "store"]


def test_live_is_a_dry_run_until_a_second_person_confirms_and_again_once_that_is_taken_back(
    store: ClickHouseStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        fleet, sender = Fleet(store, 2, 100), ScriptedSender({HOOK: [BUSY]})
        confirmed: list[bool] = []
        life = Life(
            store, ManualClock(T0), SWEEP, actions=LIVE, sender=sender, is_confirmed=lambda: bool(confirmed)
        )
        await play(life, fleet, 4, first=49)
        assert sender.sent == []
        assert {mode for (mode,) in asked(store, "mode")} == {"dry_run"}
        confirmed.append(True)
        await play(life, fleet, 2)
        assert sender.sent
        assert "live" in {mode for (mode,) in asked(store, "mode")}
        confirmed.clear()
        count = len(sender.sent)
        await play(life, fleet, 3)
        assert len(sender.sent) == count, "what was under way is not sent again"
        confirmed.append(True)
        await play(life, fleet, 2)
        assert len(sender.sent) > count

    run(scenario())
    said = [each for each in caplog.records if "waits for a second person" in each.message]
    assert len(said) == 1, "it says so once"
