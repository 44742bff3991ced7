"""Publishes events over HTTP, to `POST /api/v1/events` of a worker: for machines that do not reach Kafka.

It returns when Kafka has the events, as the worker answers then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec
import orjson
import urllib3

from schemas.escaping import visible
from sinks.bounded_http import BoundedPool
from streams.collect.collector import CollectedEvent
from streams.errors import TrainfareError, WrongUseError, why_no_answer
from streams.topics import Topic

T = TypeVar("T")
logger = logging.getLogger(__name__)

_EVENTS: Final = 1_000
_BYTES: Final = 2**20
_TIMEOUT_S: Final = 30.0
_ANSWER_BYTES: Final = 4 * 2**20
#: Answers that stay the same: the address or the token is wrong.
_WRONG_USE: Final = frozenset((400, 401, 403, 404, 405))
#: Of a control the worker sets them.
_OF_THE_WORKER: Final = frozenset({"source", "id", "time_ms"})


class _Refused(msgspec.Struct):
    reason: str
    detail: str = ""


class _Answer(msgspec.Struct):
    accepted: int
    refused: list[_Refused] = []


class IngestPublisher:
    """Publishes to one worker."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/") + "/api/v1/events"
        self._sources_url = url.rstrip("/") + "/api/v1/sources"
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self._pool = BoundedPool(_TIMEOUT_S, timeout=_TIMEOUT_S, retries=False, maxsize=1)

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        """Publish events; return when Kafka has them. What the worker refuses is logged: it would be again.

        Raises:
            TrainfareError: The worker does not answer, or Kafka is unreachable; publishing all of them again is harmless.
            WrongUseError: The address or the token is wrong.
        """
        for event in events:
            if event.topic == Topic.CONTROLS:
                said = {name: each for name, each in event.value.items() if name not in _OF_THE_WORKER}
                self._post(self._sources_url, orjson.dumps(said), dict)
        for body, count in _bodies([event for event in events if event.topic != Topic.CONTROLS]):
            answer = self._post(self._url, body, _Answer)
            if answer.refused:
                first = answer.refused[0]
                logger.warning(
                    "the worker refused events",
                    extra={
                        "refused": len(answer.refused),
                        "of": count,
                        "reason": visible(first.reason),
                        "detail": visible(first.detail[:500]),
                        "runbook": "docs/trouble.md#nothing-collected",
                    },
                )

    def _post(self, url: str, body: bytes, form: type[T]) -> T:
        try:
            with self._pool.request(
                "POST",
                url,
                body=body,
                headers=self._headers,
                redirect=False,
                preload_content=False,
            ) as response:
                status, text = response.status, response.read(_ANSWER_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as fault:
            raise TrainfareError(f"{url}: no answer ({why_no_answer(fault)})") from None
        if status in _WRONG_USE:
            raise WrongUseError(
                f"{url} answered {status}; check --to, and the token (TRAINFARE_WEB_WRITE_TOKEN: one with the scope ingest)"
            )
        try:
            if status != 202:
                raise ValueError(f"answered {status}")
            return msgspec.json.decode(text, type=form)
        except (msgspec.MsgspecError, ValueError) as fault:
            raise TrainfareError(f"{url}: {visible(str(fault))}") from None


def _bodies(events: Sequence[CollectedEvent]) -> Iterator[tuple[bytes, int]]:
    """Yield bodies of whole events, within the worker's limits, and how many events each has."""
    part: list[bytes] = []
    size = 0
    for topic, value in events:
        text = orjson.dumps({"topic": topic, "value": value})
        if part and (len(part) >= _EVENTS or size + len(text) > _BYTES):
            yield b"[" + b",".join(part) + b"]", len(part)
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield b"[" + b",".join(part) + b"]", len(part)
