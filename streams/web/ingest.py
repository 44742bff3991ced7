"""POST /api/v1/events: takes events and answers once Kafka has them, with a reason for each that it refuses.

Workers read the records from the log, as those of any other producer.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from schemas.escaping import visible
from schemas.validate_tokens import TokenBounds
from sinks.errors import LogFull, SinkBusy
from streams.engine.settings import FUTURE_MS
from streams.keys import OutgoingRecord
from streams.memory_budget import MemoryBudget
from streams.threads import Threads
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.ingest_body import (
    FORMS,
    AcceptedEvent,
    BodyError,
    RefusedEvent,
    events_of,
    records_of,
)
from streams.web.packed_body import is_packed, unpacked_body
from streams.web.received_body import ReceivedBody, received_body
from streams.web.record_log import RecordLog
from streams.web.request_rate import RequestRate
from streams.web.scopes import UNBOUND, Caller
from streams.web.token_bounds import JobGroup, JobGroups, judge_bounds

BODY_MAX_BYTES: Final = 4 * 2**20
#: For work on whole bodies, beside the loop, which others wait for. Threads of its own: those of the loop are few.
BODY_THREADS: Final = Threads("bodies")
#: Requests of one token and address: so many at once, and so many a second after that.
BURST: Final = 400
PER_S: Final = 200
#: Bytes of all requests of one sender that are being read, judged or written.
IN_FLIGHT_MAX_BYTES: Final = 16 * 2**20
#: Of all issued tokens together; one has at most as much as a token of the settings.
ISSUED_IN_FLIGHT_MAX_BYTES: Final = 4 * IN_FLIGHT_MAX_BYTES
_RETRY_AFTER_S: Final = 1
_CLIENTS_MAX: Final = 1_024
#: Events that are judged before the loop has its turn.
_AT_ONCE: Final = 250


class JudgedEvents(NamedTuple):
    """The records of one request, and the events that have none."""

    records: list[OutgoingRecord]
    refused: list[RefusedEvent]


class SenderLimits:
    """Whose requests share memory and turns, so that they hold up no other sender's: those of one token, or all webhooks.

    Args:
        share_bytes: Of the memory, for one address.
        budget: Memory that several senders share; None: it is the sender's alone.
    """

    def __init__(self, share_bytes: int | None = None, budget: MemoryBudget | None = None) -> None:
        self.budget = MemoryBudget(IN_FLIGHT_MAX_BYTES, share_bytes) if budget is None else budget
        #: One request at a time is unpacked and judged; senders take turns in the event loop.
        self.turn = asyncio.Lock()


class IngestEndpoint:
    """The endpoint of one server.

    Args:
        log: Where records go; None: this process takes no events.
        wall_ms: Log time, ms since 1970.
        now_ms: A monotonic clock.
        jobs: Whose jobs are, by which events of tokens of a team are judged.
    """

    def __init__(
        self,
        log: RecordLog | None,
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
        jobs: JobGroups | None = None,
    ) -> None:
        self._log = log
        self._jobs = jobs
        self._wall_ms = wall_ms
        self._now_ms = now_ms
        self._rate = RequestRate(BURST, PER_S)
        self._of_token: defaultdict[str, SenderLimits] = defaultdict(
            SenderLimits
        )  # few: a token that is unknown gets no further
        issued = MemoryBudget(ISSUED_IN_FLIGHT_MAX_BYTES, IN_FLIGHT_MAX_BYTES)
        self._of_issued: defaultdict[str, SenderLimits] = defaultdict(lambda: SenderLimits(budget=issued))
        self._others: list[SenderLimits] = []
        #: events by `accepted` or the reason of their refusal
        self.outcomes: Counter[str] = Counter()
        #: what was said of the newest refused event, by reason
        self.examples: dict[str, str] = {}

    def sender(self, share_bytes: int) -> SenderLimits:
        """A sender apart from those of tokens."""
        self._others.append(SenderLimits(share_bytes))
        return self._others[-1]

    @property
    def bodies_evicted(self) -> int:
        """How many bodies made room for others."""
        senders = (*self._of_token.values(), *self._of_issued.values(), *self._others)
        return sum(each.evicted for each in {id(sender.budget): sender.budget for sender in senders}.values())

    def refused(self) -> list[dict[str, Any]]:
        """How many events were refused since the start, by reason, with what was said of the newest."""
        return [
            {"reason": reason, "events": self.outcomes[reason], "example": self.examples[reason]}
            for reason in sorted(self.examples, key=lambda each: (-self.outcomes[each], each))
        ]

    async def answer(self, request: web.Request, caller: Caller, topic: str) -> web.Response:
        """Write the events of one request.

        Raises:
            ApiError: None of them was written, or Kafka may lack some.
        """
        if request.content_type not in FORMS:
            # A page of another site could send the other types without a preflight request.
            raise ApiError(415, f"send {', '.join(FORMS)}")

        async def judge(body: bytes) -> JudgedEvents:
            try:
                events = events_of(body, request.content_type, topic, request.headers)
            except BodyError as fault:
                raise ApiError(400, visible(str(fault))) from None
            return await self.judged(events, topic, request.content_type, request.headers, caller.bounds)

        return await self.take_of(request, caller, judge)

    async def take_of(
        self, request: web.Request, caller: Caller, judge: Callable[[bytes], Awaitable[JudgedEvents]]
    ) -> web.Response:
        """Write the records that are made of a body, within the limits of its caller, who has shown a token.

        Raises:
            ApiError: None of them was written, or Kafka may lack some.
        """
        self.check_rate(f"{caller.token} {caller.address}")
        if caller.is_issued:
            # There may be hundreds of them: together they hold so much, each its share.
            sender = self._of_issued[caller.token]
            return await self.take(request, sender, caller.token, judge)
        return await self.take(request, self._of_token[caller.token], caller.address, judge)

    async def take(
        self,
        request: web.Request,
        sender: SenderLimits,
        address: str,
        judge: Callable[[bytes], Awaitable[JudgedEvents]],
        check: Callable[[bytes], None] = lambda _: None,
    ) -> web.Response:
        """Write the records that are made of a body, within the memory of its sender.

        `check` raises for a body that nobody vouches for, before it waits for anything.

        Raises:
            ApiError: None of them was written, or Kafka may lack some.
        """
        if self._log is None:
            raise ApiError(
                403,
                "a demo and a store served with --read-only take no events; `trainfare serve --data DIR` and `trainfare worker` do",
                "ingest_off",
            )
        async with received_body(request, BODY_MAX_BYTES, sender.budget, address, self._now_ms) as body:
            check(body.data)
            async with sender.turn:
                if is_packed(request.headers):
                    await _unpack(body)
                judged = await judge(body.data)
            return await self._write(self._log, judged)

    async def judged(
        self,
        events: list[msgspec.Raw],
        topic: str,
        content_type: str,
        headers: Mapping[str, str],
        bounds: TokenBounds = UNBOUND,
    ) -> JudgedEvents:
        """Return the records of events, and why others have none.

        Raises:
            ApiError: The store cannot say whose jobs are, which the bounds need.
        """
        taken: list[AcceptedEvent] = []
        refused: list[RefusedEvent] = []
        newest_ms = self._wall_ms() + FUTURE_MS
        for first in range(0, len(events), _AT_ONCE):
            part = events[first : first + _AT_ONCE]
            for each in records_of(part, first, topic, content_type, headers, newest_ms):
                if isinstance(each, AcceptedEvent):
                    taken.append(each)
                else:
                    refused.append(each)
            await asyncio.sleep(0)
        if bounds == UNBOUND:
            return JudgedEvents([each.record for each in taken], refused)
        beyond, claims = await judge_bounds(taken, bounds, self._groups_of)
        if self._jobs is not None:
            self._jobs.claim(claims)
        indexes = {each.index for each in beyond}
        refused = sorted([*refused, *beyond], key=lambda each: each.index)
        return JudgedEvents([each.record for each in taken if each.index not in indexes], refused)

    async def _groups_of(self, job_ids: Sequence[str]) -> Mapping[str, JobGroup]:
        return {} if self._jobs is None else await self._jobs.of(job_ids)

    async def _write(self, log: RecordLog, judged: JudgedEvents) -> web.Response:
        records, refused = judged
        if records:
            try:
                await log.append(records)
            except SinkBusy as fault:
                raise ApiError(
                    503,
                    f"send the same again, equal events count once: {fault}",
                    "log_full" if isinstance(fault, LogFull) else "kafka_unavailable",
                    retry_after_s=_RETRY_AFTER_S,
                ) from fault
        self.outcomes["accepted"] += len(records)
        self.outcomes.update(each.reason for each in refused)
        self.examples |= {each.reason: each.detail for each in refused}
        return web.Response(body=_answer(len(records), refused), status=202, content_type="application/json")

    def check_rate(self, client: str) -> None:
        """Count a request of a client.

        Raises:
            ApiError: It sends too many.
        """
        now_ms = self._now_ms()
        if len(self._rate) > _CLIENTS_MAX:
            self._rate.forget(now_ms)
        if not self._rate.allow(client, now_ms):
            raise ApiError(
                429,
                f"more than {PER_S} requests a second; send more events in each",
                retry_after_s=_RETRY_AFTER_S,
            )


def _answer(accepted: int, refused: Sequence[RefusedEvent]) -> bytes:
    shown: list[dict[str, Any]] = [
        {
            "index": each.index,
            "reason": each.reason,
            "field": visible(each.field) or None,
            "detail": visible(each.detail),
        }
        for each in refused
    ]
    return to_json({"accepted": accepted, "refused": shown})


async def _unpack(body: ReceivedBody) -> None:
    body.reserve(BODY_MAX_BYTES)
    body.replace(await BODY_THREADS.run(unpacked_body, body.data, BODY_MAX_BYTES))
