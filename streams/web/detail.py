"""Collects everything about one job: its cost and why, attempts, phases, GPU use and alerts."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from streams.explain import receipts
from streams.explain.job import Explanation, explained, state_of
from streams.explain.phases import phases
from streams.explain.stored import ExplainedStore, StoredJobs
from streams.explain.why.judged import JudgedJob, judged
from streams.web import queries
from streams.web.figures import ApiFigures
from streams.web.receipts import of_own_team, receipt_facts
from streams.web.store_reader import Row, StoreReader

#: A larger stored state of a shard is not read; phases and intervals then have a resolution of whole minutes.
STATE_MAX_BYTES: Final = 64 * 2**20


class Details:
    """Assembles the details of one job."""

    def __init__(
        self, store_reader: StoreReader, figures: ApiFigures, stored: StoredJobs | None = None
    ) -> None:
        self._store_reader = store_reader
        self._figures = figures
        #: Cached states of shards; /metrics reports `fallbacks`.
        self.stored = StoredJobs() if stored is None else stored

    async def job(self, job_id: str) -> dict[str, Any] | None:
        """Everything about one job; None if the store does not know it."""

        async def make() -> dict[str, Any] | None:
            job = await self._figures.one(job_id)
            if job is None:
                return None
            ask = self._store_reader.rows
            of_job = asyncio.gather(
                ask(queries.COSTS, job=job_id),
                ask(queries.ATTEMPTS, job=job_id),
                ask(queries.USAGE, job=job_id),
                ask(queries.BURN, job=job_id),
                ask(queries.ALERTS_OF_JOB, job=job_id),
                ask(queries.MEASURES, job=job_id),
                ask(queries.CHECKPOINTS, job=job_id),
                ask(queries.NODES, job=job_id),
                ask(queries.TRAFFIC, job=job_id),
                ask(queries.BILLED, job=job_id),
                self._phases(job_id),
            )
            (
                (costs, attempts, usage, burn, alerts, measures, saves, nodes, hours, billed, spans),
                run,
                kept,
            ) = await asyncio.gather(of_job, self._figures.run_of(job_id), self.receipt(job_id))
            return {
                "as_of_ms": await self._figures.as_of_ms(),
                "job": job,
                "costs": {row["component"]: row["cost_usd"] for row in costs},
                "billed": billed,
                "attempts": attempts,
                "run": run,
                "receipt": None if kept is None else receipt_facts(kept),
                "phases": spans,
                "usage": [[row["minute_ms"], row["sampled"], row["productive_ratio"]] for row in usage],
                "burn": [[row["time_ms"], *row["rates"]] for row in burn],
                "alerts": await self._figures.with_deliveries(alerts),
                **{name: dict(measures[0][name]) if measures else {} for name in ("progress", "quality")},
                "checkpoints": _counted(saves, "checkpoints"),
                "nodes": _counted(nodes, "nodes"),
                # The oldest first, as all that is over time.
                "traffic": [
                    [row["hour_ms"], row["network_usd"], row["storage_usd"]] for row in reversed(hours)
                ],
            }

        return await self._figures.kept(("detail", job_id), make)

    async def receipt(self, job_id: str) -> Row | None:
        """The last receipt of a job as it is stored; None: it has none."""
        found = await self._store_reader.rows(receipts.FOUND, id=job_id)
        if not found or self._store_reader.teams is None:
            return found[0] if found else None
        return of_own_team(found[0])

    async def _phases(self, job_id: str) -> list[dict[str, Any]]:
        as_of_ms = await self._figures.as_of_ms()

        def work(store: ExplainedStore) -> list[dict[str, Any]] | None:
            state = state_of(store, job_id, STATE_MAX_BYTES, self.stored)
            return None if state is None else [each._asdict() for each in phases(state, as_of_ms)]

        found = await self._store_reader.explained(work)
        return await self._store_reader.rows(queries.PHASES, job=job_id) if found is None else found

    async def explanation(self, job_id: str, *, by_minute: bool) -> Explanation | None:
        """Every interval of the job's cost; None if the store does not know it."""

        def work(store: ExplainedStore) -> Explanation | None:
            return explained(
                store, job_id, by_minute=by_minute, state_max_bytes=STATE_MAX_BYTES, stored=self.stored
            )

        return await self._store_reader.explained(work)

    async def rules(self, job_id: str, at_ms: int | None) -> JudgedJob | None:
        """How far each rule is from firing for the job; None if the store does not know it."""
        if await self._figures.one(job_id) is None:
            return None
        found = await self._store_reader.explained(
            lambda store: judged(store, job_id, at_ms, state_max_bytes=STATE_MAX_BYTES)
        )
        if self._store_reader.teams is None:
            return found
        return msgspec.structs.replace(found, records_unknown=min(found.records_unknown, 1))


def _counted(rows: list[Row], counted: str) -> dict[str, Any]:
    """The rows that are shown, and how many there are in all."""
    total = rows[0][counted] if rows else 0
    return {"total": total, "shown": [{name: row[name] for name in row if name != counted} for row in rows]}
