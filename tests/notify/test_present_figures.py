"""A repetition to people says the figures of now: those of the alert's newest row, and what its job pays."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from schemas.tables import ALERTS, BURN_RATES, JOB_HOURS, JOBS
from streams.clock import ManualClock
from tests.notify.scripted_sender import NOW_MS, Watched, an_alert, run
from tests.notify.test_groups import REPEAT_MS, WAIT_MS, office
from tests.sinks.rows import rows
from tests.web.test_outlook import FIRED_MS, of_budget, use

MORE = ", else $60 more by 17:00 UTC"
SAID = f"j burns $9.00/h: 64 GPUs; stop it{MORE}"


def rate(job_id: str, at_ms: int, usd: str) -> dict[str, object]:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return {"job_id": job_id, "time": at, "usd_per_hour_now": Decimal(usd), "shard": 0, "version": at_ms}


def test_the_newest_row_and_the_rate_of_now_are_said() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("j", rule="held", summary=SAID), an_alert("k", summary=SAID))
        await there.work(WAIT_MS)
        now_ms = NOW_MS + WAIT_MS + REPEAT_MS
        # Of k the judge has stored newer figures; of j its job's rate is known alone.
        there.keep(an_alert("k", held_ms=now_ms - 20_000, summary="k burns $70/h: 80 GPUs; stop it"))
        found = [rate("j", now_ms - 120_000, "7"), rate("j", now_ms - 60_000, "448"), rate("x", now_ms, "1")]
        there.store.insert(BURN_RATES, rows(BURN_RATES, *found), "rates")
        await there.work(REPEAT_MS)
        text = str(there.sender.sent[-1].body)
        assert "j burns $9.00/h: 64 GPUs; stop it; firing for 4 h" in text
        assert ", pays $448/h now" in text
        assert "k burns $70/h: 80 GPUs; stop it" in text
        assert MORE not in text
        assert len(there.sender.sent) == 2

    run(go())


def test_where_the_store_does_not_answer_it_says_what_was() -> None:
    looks: list[bool] = []

    def fails(table: str, columns: object) -> None:
        if table == ALERTS and columns is None and looks:
            raise RuntimeError("no")

    async def go() -> None:
        there = office(store=Watched(fails))
        await there.offer(an_alert("j", summary=SAID))
        await there.work(WAIT_MS)
        looks.append(True)
        await there.work(REPEAT_MS)
        assert "j burns $9.00/h: 64 GPUs; stop it" in str(there.sender.sent[-1].body)
        assert len(there.sender.sent) == 2

    run(go())


def test_of_a_run_how_many_jobs_followed_is_said() -> None:
    def job(name: str, begun_ms: int, ended_ms: int | None, work_dir: str = "/w") -> dict[str, object]:
        began, ended = (
            None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in (begun_ms, ended_ms)
        )
        state = "running" if ended is None else "failed"
        about = {"owner": "ada", "experiment": "train", "work_dir": work_dir, "state": state}
        return {"job_id": name, "started": began, "ended": ended, "shard": 0, "version": 1, **about}

    def lost(name: str, usd: str) -> dict[str, object]:
        return {"job_id": name, "lost_cost_usd": Decimal(usd), "shard": 0, "version": 1}

    async def go() -> None:
        there = office()
        loop = an_alert(
            "44", rule="resubmit_loop", cost_nano=120_000_000_000, summary="3 jobs failed; fix it"
        )
        jobs = [
            job("43", NOW_MS - 600_000, NOW_MS - 400_000),
            job("44", NOW_MS - 300_000, NOW_MS),
            job("45", NOW_MS + 60_000, NOW_MS + 300_000),
            job("46", NOW_MS + 360_000, None),
            job("9", NOW_MS + 370_000, None, "/other"),
        ]
        there.store.insert(JOBS, rows(JOBS, *jobs), "jobs")
        hours = [lost("44", "100"), lost("45", "30.5")]
        there.store.insert(JOB_HOURS, rows(JOB_HOURS, *hours), "hours")
        await there.offer(loop)
        await there.work(WAIT_MS)
        await there.work(REPEAT_MS)
        assert len(there.sender.sent) == 2
        first, again = (str(each.body) for each in there.sender.sent)
        assert "more job" not in first
        assert "firing for 4 h; 2 more jobs since, the last 46, $150.50 of work lost in all" in again

    run(go())


def test_of_a_budget_what_is_used_by_now_is_said() -> None:
    async def go() -> None:
        clock = ManualClock(FIRED_MS)
        there = office(clock=clock)
        eighty = msgspec.structs.replace(of_budget("budget_used", 80), owner="ada")
        await there.offer(eighty)
        await there.work(WAIT_MS)
        at_ms = FIRED_MS + WAIT_MS + REPEAT_MS - 60_000
        for minute_ms, usd in (
            (at_ms - 3_600_000, "85"),
            (at_ms, "90.5"),
        ):  # a row is written again each minute
            use(there.store, minute_ms, usd, at=datetime.fromtimestamp(minute_ms / 1000, UTC))
        await there.work(REPEAT_MS)
        text = str(there.sender.sent[-1].body)
        assert (
            "stop or shrink a ($1.00/h), or raise it; firing for 4 h; 90.5 % at 13:29 UTC, $19/h, used up at 13:59 UTC"
            in text
        )
        assert "used up at 10:30" not in text
        assert len(there.sender.sent) == 2

    run(go())
