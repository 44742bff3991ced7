"""A job beside similar ones, and at other places of the price list: what `trainfare job` and `trainfare estimate` say.

Their statements have the limits of those of costs, and all of one answer together a limit of time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from sinks.answer import QueryResult
from streams.errors import TrainfareError
from streams.estimate.alternatives import alternatives
from streams.estimate.asking import Records
from streams.estimate.shown import alternatives_object
from streams.estimate.similar import similar_jobs, similar_object
from streams.threads import Threads
from streams.web.costs import rows_asked
from streams.web.errors import ApiError
from streams.web.places import Client
from streams.web.query_service import QueryService

T = TypeVar("T")
#: All statements of one answer.
_WITHIN_S: Final = 30.0
_THREADS: Final = Threads("estimates", 2)


async def similar(service: QueryService, client: Client, job_id: str) -> dict[str, object] | None:
    """A job beside similar jobs that were completed lately; None: the store does not know it.

    Raises:
        ApiError: A query failed, or all together took too long.
    """

    def work(records: Records) -> dict[str, object] | None:
        found = similar_jobs(records, job_id)
        return None if found is None else similar_object(found)

    return await _worked(service, client, work)


async def elsewhere(service: QueryService, client: Client, job_id: str) -> dict[str, object]:
    """What a job of the store would have cost at each place of the price list; `reason`: why that is not known ('').

    Raises:
        ApiError: A query failed, or all together took too long.
    """

    def work(records: Records) -> dict[str, object]:
        try:
            return {"reason": "", **alternatives_object(alternatives(records, job_id))}
        except TrainfareError as fault:
            return {"reason": str(fault), "job_id": job_id, "places": []}

    return await _worked(service, client, work)


async def _worked(service: QueryService, client: Client, work: Callable[[Records], T]) -> T:
    """Run what asks for one thing after the other in a thread; whatever it still asks ends with the request."""
    loop = asyncio.get_running_loop()
    is_over = threading.Event()
    running: list[Future[list[dict[str, object]]]] = []

    async def answer(sql: str, parameters: dict[str, Any]) -> list[dict[str, object]]:
        if is_over.is_set():
            raise CancelledError
        return await rows_asked(service, client, (sql, parameters), _objects)

    def records(sql: str, **parameters: object) -> list[dict[str, object]]:
        if is_over.is_set():
            raise CancelledError
        running[:] = [asyncio.run_coroutine_threadsafe(answer(sql, parameters), loop)]
        return running[0].result()

    try:
        async with asyncio.timeout(_WITHIN_S):
            return await _THREADS.run(work, records)
    except TimeoutError:
        raise ApiError(
            504, f"the statements of this answer ran longer than {_WITHIN_S:g} s", "query_timed_out"
        ) from None
    finally:
        is_over.set()
        for each in running:
            each.cancel()


def _objects(answer: QueryResult) -> list[dict[str, object]]:
    return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]
