"""What is answered about one job: its details, intervals, rules, comparisons and receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from aiohttp import web

from streams.explain import wire
from streams.web.detail import Details
from streams.web.encode import json_answer
from streams.web.figures import ApiFigures
from streams.web.job_estimates import elsewhere, receipt_now, similar
from streams.web.job_list import one_of
from streams.web.parameters import instant, known, named_job
from streams.web.receipts import receipt_answer
from streams.web.store_reader import StoreReader


class JobParts(Protocol):
    """What the answers are made from."""

    @property
    def figures(self) -> ApiFigures:
        """Live figures."""
        ...

    @property
    def details(self) -> Details:
        """Details of one job."""
        ...

    @property
    def estimates(self) -> StoreReader:
        """What reads for comparisons and receipts."""
        ...


class JobEndpoint:
    """The handlers of the paths below one job."""

    def __init__(self, parts: JobParts) -> None:
        self._parts = parts

    async def job(self, request: web.Request) -> web.Response:
        """Everything about the job."""
        job_id, _ = named_job(request, set())
        return json_answer(known(job_id, await self._parts.details.job(job_id)))

    async def explain(self, request: web.Request) -> web.Response:
        """Every interval of its cost."""
        job_id, asked = named_job(request, {"by"})
        by = one_of("by", asked.get("by", "interval"), ("interval", "minute"))
        found = await self._parts.details.explanation(job_id, by_minute=by == "minute")
        return web.Response(body=wire.encode(known(job_id, found)), content_type="application/json")

    async def rules(self, request: web.Request) -> web.Response:
        """How far each rule is from firing."""
        job_id, asked = named_job(request, {"at_ms"})
        at_ms = instant("at_ms", asked.get("at_ms"))
        found = known(job_id, await self._parts.details.rules(job_id, at_ms))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def similar(self, request: web.Request) -> web.Response:
        """The job beside similar jobs."""
        job_id, _ = named_job(request, set())
        found = await similar(self._parts.estimates, job_id)
        return json_answer(known(job_id, found))

    async def elsewhere(self, request: web.Request) -> web.Response:
        """What it would have cost elsewhere."""
        job_id, _ = named_job(request, set())
        parts = self._parts
        known(job_id, await parts.figures.one(job_id))
        return json_answer(await elsewhere(parts.estimates, job_id))

    async def receipt(self, request: web.Request) -> web.Response:
        """Its last receipt; of an ended job to which none was sent what it would say now."""
        job_id, asked = named_job(request, {"format"})
        form = one_of("format", asked.get("format", "json"), ("json", "text"))
        parts = self._parts
        known(job_id, await parts.figures.one(job_id))
        found: Mapping[str, object] | None = await parts.details.receipt(job_id)
        if found is None:
            found = await receipt_now(parts.estimates, job_id)
        return receipt_answer(job_id, found, form)
