"""A job beside similar ones, at other places of the price list, and its receipt by now: what `trainfare job`, `estimate` and `receipts show` say.

Each answer asks a few short statements, which a process apart would make ten times as long; they have limits, and all of one
answer together a limit of time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final, TypeVar

from streams.errors import TrainfareError
from streams.estimate.alternatives import alternatives
from streams.estimate.asking import Records
from streams.estimate.shown import alternatives_object
from streams.estimate.similar import similar_jobs, similar_object
from streams.explain.receipts import unsent_row
from streams.explain.stored import ExplainedStore
from streams.web.errors import ApiError
from streams.web.store_reader import StoreReader
from streams.worker.receipts.receipt_reader import ReceiptReader

T = TypeVar("T")
#: All statements of one answer.
_WITHIN_S: Final = 30.0
_LIMITS: Final = "SETTINGS max_execution_time = 30, max_memory_usage = 268435456, max_threads = 2"


async def similar(reader: StoreReader, job_id: str) -> dict[str, object] | None:
    """A job beside similar jobs that were completed lately; None: the store does not know it.

    Raises:
        ApiError: A statement failed, or all together took too long.
    """

    def work(records: Records) -> dict[str, object] | None:
        found = similar_jobs(records, job_id)
        return None if found is None else similar_object(found)

    return await worked(reader, work)


async def elsewhere(reader: StoreReader, job_id: str) -> dict[str, object]:
    """What a job of the store would have cost at each place of the price list; `reason`: why that is not known ('').

    Raises:
        ApiError: A statement failed, or all together took too long.
    """

    def work(records: Records) -> dict[str, object]:
        try:
            return {"reason": "", **alternatives_object(alternatives(records, job_id))}
        except TrainfareError as fault:
            return {"reason": str(fault), "job_id": job_id, "places": []}

    return await worked(reader, work)


async def receipt_now(reader: StoreReader, job_id: str) -> dict[str, object] | None:
    """The receipt that nobody was sent, as a row; None: the job has not ended.

    Raises:
        ApiError: A statement failed, or all together took too long.
    """

    def work(records: Records) -> dict[str, object] | None:
        made = ReceiptReader(records).now(job_id)
        if made is None:
            return None
        return unsent_row(records, made.message, made.owner, made.time_ms)

    return await worked(reader, work)


async def worked(reader: StoreReader, work: Callable[[Records], T]) -> T:
    """Run what asks for one thing after the other in a thread of the reader; it asks nothing more once the request is over.

    Raises:
        ApiError: A statement failed, or all together took too long.
    """
    is_over = threading.Event()

    def answered(store: ExplainedStore) -> T:
        def records(sql: str, **parameters: object) -> list[dict[str, object]]:
            if is_over.is_set():
                raise CancelledError
            return store.ask(f"{sql.rstrip()}\n{_LIMITS}", parameters).records()

        return work(records)

    try:
        async with asyncio.timeout(_WITHIN_S):
            return await reader.explained(answered)
    except TimeoutError:
        raise ApiError(
            504, f"the statements of this answer ran longer than {_WITHIN_S:g} s", "query_timed_out"
        ) from None
    finally:
        is_over.set()
