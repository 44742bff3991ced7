"""One budget for the API: what the list says of it, its levels, what was spent hour by hour, its dearest jobs, every action."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from streams.costs.budget_detail import ACTIONS, DEAREST, LEVELS, SPEND, spend_parameters, step_of
from streams.engine.ledger_rules.budget_now import levels_of
from streams.web.figures import ApiFigures
from streams.web.store_reader import Row, StoreReader

Object = dict[str, Any]


class BudgetDetails:
    """Budgets of the store, each answer cached like the live figures."""

    def __init__(self, store_reader: StoreReader, figures: ApiFigures) -> None:
        self._store_reader = store_reader
        self._figures = figures

    async def one(self, budget: str, kind: str, name: str) -> Object | None:
        """The budget of this name ('': a job's own) about this subject; None: no minute has judged one."""

        async def make() -> Object | None:
            rows, listed = await self._figures.judged_budgets()
            wanted = budget, kind, name
            row = next(
                (
                    each
                    for each in rows
                    if (each["budget"], each["subject_kind"], each["subject_name"]) == wanted
                ),
                None,
            )
            said = next(
                (
                    each
                    for each in listed["budgets"]
                    if each["used"] is not None
                    and (each["budget"], each["subject"]["kind"], each["subject"]["name"]) == wanted
                ),
                None,
            )
            if row is None or said is None:
                return None
            return {"as_of_ms": listed["as_of_ms"], "budget": said, **await self._more(row)}

        return await self._figures.kept(("budget", budget, kind, name), make)

    async def _more(self, row: Row) -> Object:
        ask = self._store_reader.rows
        spent = spend_parameters(row)
        levels = levels_of(row)
        hours, jobs, fired, actions = await asyncio.gather(
            ask(SPEND, **spent),
            ask(DEAREST, **spent),
            ask(LEVELS, alerts=[alert_id for _, alert_id in levels]),
            ask(ACTIONS, budget=row["budget"], from_ms=row["period_start_ms"], jobs=spent["jobs"]),
        )
        step_ms = step_of(hours[0]["at_ms"], int(row["time_ms"])) if hours else step_of(0, 0)
        by_id = {each["alert_id"]: each for each in fired}
        return {
            "levels": [
                {"level": level, "alert_id": alert_id, "alert": by_id.get(alert_id)}
                for level, alert_id in levels
            ],
            "step_ms": step_ms,
            "spend": [[at_ms, usd] for at_ms, usd in _by(hours, step_ms)],
            "jobs": [{name: value for name, value in each.items() if name != "jobs"} for each in jobs],
            "jobs_left_out": jobs[0]["jobs"] - len(jobs) if jobs else 0,
            "actions": [
                {name: value for name, value in each.items() if name != "actions"} for each in actions
            ],
            "actions_left_out": actions[0]["actions"] - len(actions) if actions else 0,
        }


def _by(hours: Sequence[Row], step_ms: int) -> list[tuple[int, Any]]:
    """What was spent in each step; a step without any has no entry."""
    found: dict[int, Any] = {}
    for row in hours:
        at_ms = row["at_ms"] // step_ms * step_ms
        found[at_ms] = found[at_ms] + row["usd"] if at_ms in found else row["usd"]
    return sorted(found.items())
