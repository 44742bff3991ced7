"""Builds the objects of the API from rows of the store, for the page, the terminal and other programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from schemas.durations import DAY_MS, MINUTE_MS
from streams.costs.budgets import RECORDS, TAKEN, USED, budgets
from streams.costs.headroom import HEADROOM, least, lefts
from streams.engine.alerts.alert import FIRING
from streams.engine.ledger_rules.budget_now import budgets_by_alert
from streams.engine.rules import run_jobs, team_burn
from streams.engine.rules.registry import BUDGET_NAMES
from streams.engine.rules.run_jobs import LaterTries
from streams.explain import acts, run
from streams.explain.why.own_rules import is_by_sql
from streams.web import queries
from streams.web.cache import Cache, RowCache
from streams.web.outlook import is_of_run, jobs_of, of_now
from streams.web.store_reader import Row, StoreReader

Object = dict[str, Any]
T = TypeVar("T")

# Ids are part of a request's URL, for which servers and proxies allow some 16 KiB.
_IDS_BYTES: Final = 4096
_NOTHING: Final = Decimal("0.000000000")


class ApiFigures:
    """Live figures of the whole store, each cached for about a second."""

    def __init__(
        self, store_reader: StoreReader, now_ms: Callable[[], int], wall_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self._store_reader = store_reader
        self._cache = Cache(now_ms)
        self._wall_ms = wall_ms  # log time, which goes on where no job costs anything
        self._details = RowCache(now_ms, self._make_details)

    async def as_of_ms(self) -> int:
        """The instant of the figures: the newest burn rate, else the newest event (ms since 1970)."""

        async def make() -> int:
            found = (await self._store_reader.rows(queries.NEWEST))[0]
            return int(found["burn_ms"] or found["event_ms"] or 0)

        return await self._cache.get("as_of", make)

    async def now_ms(self) -> int:
        """Log time: that of the figures, or later where no job costs anything."""
        return max(await self.as_of_ms(), self._wall_ms())

    # -- jobs ----------------------------------------------------------------------------------------------

    async def some(self, ids: Sequence[str]) -> list[Object]:
        """Jobs by their ids, in this order; what the store does not know is left out."""
        since_ms = _before(await self.as_of_ms(), queries.LIVE_MS)
        found: dict[str, Row] = {}
        for part in chunks(ids):
            for row in await self._store_reader.rows(queries.JOBS, since_ms=since_ms, jobs=part):
                found[row["job_id"]] = row
        return await self._objects([found[job_id] for job_id in ids if job_id in found])

    async def one(self, job_id: str) -> Object | None:
        """One job as in the list; None if the store does not know it."""

        async def make() -> Object | None:
            found = await self.some([job_id])
            return found[0] if found else None

        return await self._cache.get(("job", job_id), make)

    async def _objects(self, listed: Sequence[Row]) -> list[Object]:
        firing, details = await asyncio.gather(
            self.firing(), self._details.get(row["job_id"] for row in listed)
        )
        return [_job(row, details[row["job_id"]], firing.get(row["job_id"], [])) for row in listed]

    async def _make_details(self, ids: tuple[str, ...]) -> dict[str, Object]:
        as_of_ms = await self.as_of_ms()
        found: dict[str, Object] = {job_id: {} for job_id in ids}
        for some in chunks(ids):
            totals, usage, lines = await asyncio.gather(
                self._store_reader.rows(queries.TOTALS, jobs=some),
                self._store_reader.rows(
                    queries.PRODUCTIVE, jobs=some, since_ms=_before(as_of_ms, queries.USAGE_MS)
                ),
                self._store_reader.rows(
                    queries.SPARKLINES, jobs=some, since_ms=_before(as_of_ms, queries.SPARKLINE_MS)
                ),
            )
            for row in (*totals, *usage, *lines):
                found[row.pop("job_id")].update(row)
        return found

    async def firing(self) -> dict[str, list[Object]]:
        """The firing alerts of each job that has some."""

        async def make() -> dict[str, list[Object]]:
            found: dict[str, list[Object]] = {}
            for row in await self._store_reader.rows(queries.FIRING):
                found.setdefault(row.pop("subject_name"), []).append(row)
            return found

        return await self._cache.get("firing", make)

    # -- the fleet -----------------------------------------------------------------------------------------

    async def burn(self) -> Object:
        """The cost of the whole fleet."""

        async def make() -> Object:
            as_of_ms = await self.as_of_ms()
            since_ms = _before(as_of_ms, queries.LIVE_MS)
            fleet, spent, idle, firing, history = await asyncio.gather(
                self._store_reader.rows(queries.FLEET, since_ms=since_ms),
                self._spent(as_of_ms),
                self._idle(),
                self.alerts_firing(),
                self._history(),
            )
            now = fleet[0]["usd_per_hour_now"] or _NOTHING
            if history and history[-1][0] == as_of_ms - as_of_ms % MINUTE_MS:
                # Without jobs that have ended and whose last row is to come.
                history = [*history[:-1], [history[-1][0], float(now)]]
            return {
                "as_of_ms": as_of_ms,
                "usd_per_hour_now": now,
                **spent,
                "expected_usd_per_hour": fleet[0]["expected_usd_per_hour"] or _NOTHING,
                "idle_gpu_ratio": idle,
                "jobs_live": fleet[0]["jobs_live"],
                "gpus_held": fleet[0]["gpus_held"],
                "alerts_firing": sum(firing.values()),
                "history": history,
            }

        return await self._cache.get("burn", make)

    async def _spent(self, as_of_ms: int) -> Object:
        """What was spent today, and the means over the windows."""
        day_ms = as_of_ms - as_of_ms % DAY_MS
        # From the minute in which the longest window begins, or from midnight on.
        since_ms = min(day_ms, _before(as_of_ms - as_of_ms % MINUTE_MS, queries.LONGEST_MS))
        found = await self._store_reader.rows(
            queries.SPEND, since_ms=since_ms, until_ms=as_of_ms, day_ms=day_ms
        )
        return {name: amount or _NOTHING for name, amount in found[0].items()}

    async def _idle(self) -> float | None:
        async def make() -> float | None:
            since_ms = _before(await self.as_of_ms(), queries.USAGE_MS)
            productive = (await self._store_reader.rows(queries.FLEET_PRODUCTIVE, since_ms=since_ms))[0]
            ratio = productive["productive_ratio"]
            return None if ratio is None else 1 - float(ratio)

        return await self._cache.get("idle", make)

    async def _history(self) -> list[list[float]]:
        async def make() -> list[list[float]]:
            as_of_ms = await self.as_of_ms()
            since_ms = _before(as_of_ms, queries.SPARKLINE_MS + queries.LIVE_MS)
            found = await self._store_reader.rows(
                queries.HISTORY, since_ms=since_ms, last=max(as_of_ms // 60_000, 60)
            )
            return [[row["time_ms"], row["usd"]] for row in found]

        return await self._cache.get("history", make)

    async def alerts_firing(self) -> dict[str, int]:
        """The number of firing alerts by severity."""

        async def make() -> dict[str, int]:
            found = await self._store_reader.rows(queries.ALERTS_FIRING)
            return {row["severity"]: row["alerts"] for row in found}

        return await self._cache.get("alerts_firing", make)

    async def deliveries_made(self) -> dict[str, int]:
        """The number of messages by outcome."""

        async def make() -> dict[str, int]:
            found = await self._store_reader.rows(queries.DELIVERIES_MADE)
            return {row["outcome"]: row["deliveries"] for row in found}

        return await self._cache.get("deliveries_made", make)

    # -- alerts --------------------------------------------------------------------------------------------

    async def alerts(self, status: str = "", limit: int = 100) -> Object:
        """The alerts that changed last, each with its deliveries."""

        async def make() -> Object:
            found = await self._store_reader.rows(queries.ALERTS, status=status, limit=limit)
            return {"alerts": await self.with_deliveries(found)}

        return await self._cache.get(("alerts", status, limit), make)

    async def has_alert(self, alert_id: str) -> bool:
        """Whether the store has an alert of this id.

        Raises:
            ApiError: The store cannot say.
        """
        return await self.alert_group(alert_id) is not None

    async def alert_group(self, alert_id: str) -> Row | None:
        """Owner, team and subject of an alert; None if the store has none of this id.

        Raises:
            ApiError: The store cannot say.
        """
        found = await self._store_reader.rows(queries.KNOWN_ALERT, alert=alert_id)
        return found[0] if found else None

    async def with_deliveries(self, found: Sequence[Row]) -> list[Object]:
        """Rows of alerts as objects."""
        done = await self._acts(found)
        sent: dict[str, list[Object]] = {}
        for some in chunks(row["alert_id"] for row in found):
            for row in await self._store_reader.rows(queries.DELIVERIES, alerts=some):
                sent.setdefault(row.pop("alert_id"), []).append(row)
        said = await self._sentences(found)
        if self._store_reader.teams is not None:
            found = [_for_team(row) for row in found]
        return [
            {**_alert(row, sent.get(row["alert_id"], [])), "summary": said[row["alert_id"]], **acted}
            for row, acted in zip(found, done, strict=True)
        ]

    async def _sentences(self, found: Sequence[Row]) -> dict[str, str]:
        """What each alert says now, by its id."""
        now_ms = await self.now_ms()
        budgets_of = await self._budgets_by_alert(found)
        rates: dict[str, Row] = {}
        for some in chunks(jobs_of(found)):
            since_ms = _before(now_ms, queries.LIVE_MS)
            rows = await self._store_reader.rows(queries.RATES, jobs=some, since_ms=since_ms)
            rates.update((row["job_id"], row) for row in rows)
        later = {
            row["alert_id"]: await self._later_tries(str(row["subject_name"]), row["started_ms"])
            for row in found
            if is_of_run(row)
        }
        return {
            row["alert_id"]: of_now(
                row,
                budgets_of.get(row["alert_id"]),
                rates.get(row["subject_name"]),
                later.get(row["alert_id"]),
                now_ms,
            )
            for row in found
        }

    async def _later_tries(self, job_id: str, opened_ms: int) -> LaterTries | None:
        """What of the run of a job began after an alert about it opened."""

        async def make() -> LaterTries | None:
            found = await self.run_of(job_id)
            return None if found is None else run_jobs.later_tries(found["jobs"], opened_ms)

        return await self._cache.get(("later_tries", job_id, opened_ms), make)

    async def run_of(self, job_id: str) -> dict[str, Any] | None:
        """The run that a job is a part of, with what its jobs cost; None: there is no other job of it.

        Raises:
            ApiError: The store cannot say.
        """
        ask = self._store_reader.rows
        search = run_jobs.search_of(await ask(run.JOB, job=job_id))
        found = (
            None if search is None else run_jobs.found_run(search, await ask(run.JOBS, **run.bound(search)))
        )
        return None if found is None else run.run_detail(found, await ask(run.COSTS, jobs=found.names))

    async def _budgets_by_alert(self, found: Sequence[Row]) -> Mapping[str, Mapping[str, Any]]:
        """What budgets have used by now, by the alerts about them."""

        async def make() -> Mapping[str, Mapping[str, Any]]:
            return budgets_by_alert(await self._store_reader.rows(USED))

        if not any(row["rule"] in BUDGET_NAMES and row["status"] == FIRING for row in found):
            return {}
        return await self._cache.get("budgets_by_alert", make)

    async def _acts(self, found: Sequence[Row]) -> list[Object]:
        """The controls that cover each alert now."""
        at_ms = await self.now_ms()

        async def make() -> acts.ActIndex:
            return acts.ActIndex(await self._store_reader.rows(queries.CONTROLS, at_ms=at_ms), at_ms)

        index = await self._cache.get("controls", make)
        dimensions: dict[str, Row] = {}
        if index.matches_jobs:
            for some in chunks(acts.jobs_of(found)):
                rows = await self._store_reader.rows(queries.DIMENSIONS, jobs=some)
                dimensions.update((row["job_id"], row) for row in rows)
        return [index.of(row, acts.facts_of(row, dimensions)) for row in found]

    async def headroom(self, asked: Mapping[str, str]) -> Object:
        """What the budgets leave that apply to these names; with no budget nothing limits it."""

        async def make() -> list[Row]:
            return list(await self._store_reader.rows(HEADROOM, job=job))

        job = asked.get("job", "")
        rows = await self._cache.get(("headroom", job), make)
        return {**asked, **least(lefts(rows, asked))}

    async def budgets(self) -> Object:
        """Every budget with what is used of it, and what was done because of it."""
        return (await self.judged_budgets())[1]

    async def judged_budgets(self) -> tuple[Sequence[Row], Object]:
        """The rows of the last judged minute, and the budgets that are made of them."""

        async def make() -> tuple[Sequence[Row], Object]:
            at_ms = await self.now_ms()
            used, taken, records = await asyncio.gather(
                self._store_reader.rows(USED),
                self._store_reader.rows(TAKEN),
                self._store_reader.rows(RECORDS, at_ms=at_ms),
            )
            return used, budgets(used, taken, records, at_ms)

        return await self._cache.get("budgets", make)

    async def kept(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Something else, cached like the figures."""
        return await self._cache.get(key, make)


def _before(as_of_ms: int, span_ms: int) -> int:
    return max(as_of_ms - span_ms, 0)


def _job(row: Row, detail: Object, firing: list[Object]) -> Object:
    expected = row["expected_usd_per_hour"]
    points: list[tuple[int, float]] = detail.get("points", [])
    return {
        **row,
        "ratio": float(row["usd_per_hour_now"] / expected) if expected else None,
        "cost_usd": detail.get("cost_usd", _NOTHING),
        "lost_cost_usd": detail.get("lost_cost_usd", _NOTHING),
        "gpu_h": detail.get("gpu_h", 0.0),
        "unpriced_gpu_h": detail.get("unpriced_gpu_h", 0.0),
        "unpriced_compute_h": detail.get("unpriced_compute_h", 0.0),
        "productive_ratio": detail.get("productive_ratio"),
        "sparkline": [list(point) for point in points[-queries.SPARKLINE_POINTS :]],
        "alerts": firing,
    }


def _for_team(row: Row) -> Row:
    """An alert without what may tell of other teams: a statement that somebody wrote, the share of what all jobs cost."""
    if is_by_sql(row["rule"]):
        return {**row, "evidence_sql": ""}
    return {**row, "ratio": None} if row["rule"] == team_burn.RULE.name else row


_UNSHOWN: Final = ("subject_kind", "subject_name", "held_ms", "exhausted_in_s")


def _alert(row: Row, deliveries: list[Object]) -> Object:
    rest = {name: value for name, value in row.items() if name not in _UNSHOWN}
    subject = {"kind": row["subject_kind"], "name": row["subject_name"]}
    # 0 is stored for a rule without a ratio.
    return {**rest, "subject": subject, "ratio": row["ratio"] or None, "deliveries": deliveries}


def chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids in groups that fit one request."""
    some: list[str] = []
    size_bytes = 0
    for each in ids:
        weight_bytes = len(each.encode()) + 8
        if some and size_bytes + weight_bytes > _IDS_BYTES:
            yield some
            some, size_bytes = [], 0
        some.append(each)
        size_bytes += weight_bytes
    if some:
        yield some
