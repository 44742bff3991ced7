"""GET /api/v1/savings: what could be saved, and what jobs on spot have saved, with the evidence."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from streams.calendar import Calendar
from streams.costs.day_parts import MetricRows
from streams.costs.idle_nodes import bounds_of
from streams.costs.parts import HourSpan
from streams.costs.savings import NAMES, SPOT_JOBS, savings, spot_rows
from streams.estimate.asking import Records
from streams.estimate.spot_savings import spot_saved
from streams.web.costs import made
from streams.web.job_estimates import worked
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import span_request
from streams.web.store_reader import StoreReader

_ALL: Final = ("all",)
#: Of one answer: each takes some ms.
_SPOT_JOBS_MAX: Final = 500


async def savings_found(
    request: web.Request, service: QueryService, client: Client, reader: StoreReader, calendar: Calendar
) -> dict[str, Any]:
    """The rows of `trainfare savings`: those of spot apart, for each job of them is priced by itself.

    Raises:
        ApiError: A parameter is wrong, or a query failed.
    """
    asked = span_request(request, _ALL, calendar)
    # Idle nodes are nobody's in particular.
    rows, hours = await made(service, client, savings(asked.span, of_nodes=client.teams is None))
    echo = asked.echo()
    return {
        "from_ms": echo["from_ms"],
        "to_ms": echo["to_ms"],
        "hours": hours,
        "rows": MetricRows(NAMES, rows[: asked.limit]).records(),
        "left_out": max(len(rows) - asked.limit, 0),
        "spot": await _spot(reader, asked.span, hours),
    }


async def _spot(reader: StoreReader, span: HourSpan, hours: int) -> dict[str, Any]:
    """By team what spot saved; `reason`: why that is not known, or why jobs are left out ('')."""

    def work(records: Records) -> dict[str, Any]:
        jobs = records(SPOT_JOBS, **bounds_of(span), most=_SPOT_JOBS_MAX + 1)
        if len(jobs) > _SPOT_JOBS_MAX:
            reason = f"more than {_SPOT_JOBS_MAX} jobs on spot ended in this time: name a shorter one, or ask `trainfare savings`"
            return {"rows": [], "left_out": 0, "reason": reason}
        sums, unknown = spot_saved(records, jobs) if jobs else ({}, [])
        rows = MetricRows(NAMES, spot_rows(sums, hours)).records()
        return {"rows": rows, "left_out": len(unknown), "reason": unknown[0] if unknown else ""}

    return await worked(reader, work)
