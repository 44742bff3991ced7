"""Latencies and shares of a worker under load: event to readable row, tick to received webhook, CPU."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import orjson
import urllib3

from loadtest.latency_load import CROSSING_MS, Probes
from loadtest.latency_world import WorldError
from loadtest.soak_load import Event
from loadtest.stopwatch import percentile
from streams.notify.webhooks.receiver import Received

TICK_MS: Final = 10_000
_PATIENCE_S: Final = 30.0
_READABLE: Final = """
SELECT job_id FROM jobs WHERE job_id IN {jobs:Array(String)}
AND job_id IN (SELECT job_id FROM job_usage_minutes WHERE job_id IN {jobs:Array(String)})
"""

Send = Callable[[Iterable[Event]], None]


class Spread(NamedTuple):
    """Latencies in ms; None where nothing arrived."""

    expected: int
    arrived: int
    median_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None


def spread(expected: int, found_ms: Sequence[float]) -> Spread:
    """The middle and the end of a distribution; a p99 is one that was measured, none between two."""
    ordered = sorted(found_ms)
    if not ordered:
        return Spread(expected, 0, None, None, None, None)
    median_ms, p99_ms, p999_ms = (percentile(ordered, percent) for percent in (50, 99, 99.9))
    return Spread(expected, len(ordered), median_ms, p99_ms, p999_ms, ordered[-1])


def now_ms() -> float:
    """The wall clock, which all processes of this machine share."""
    return time.time_ns() / 1e6


class Arrivals:
    """How long after its tick the message of each runaway came; `all` is set with the last of them."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.found_ms: dict[str, float] = {}
        self.all = asyncio.Event()

    def received(self, message: Received) -> None:
        """Take one verified message."""
        at_ms = now_ms()
        subject = str(message.data["subject"]["name"])
        if message.type == "alert.firing" and message.data["rule"] == "burn_fast":
            self.found_ms.setdefault(subject, at_ms - int(message.data["started_ms"]))
        if len(self.found_ms) == self.expected:
            self.all.set()


async def cpu_percent(used_s: Callable[[], float], for_s: float) -> float:
    """The share of one core that a process uses for a while; `used_s`: what it has used so far."""
    began_s, before_s = time.monotonic(), used_s()
    await asyncio.sleep(for_s)
    return 100 * (used_s() - before_s) / (time.monotonic() - began_s)


async def readable(
    api: Api, send: Send, probes: Probes, for_s: float, per_s: float, every_s: float
) -> Spread:
    """Send probes; return how long each took from before it was sent until SQL, asked each `every_s`, found both of its rows."""
    sent_ms: dict[str, float] = {}
    found_ms: dict[str, float] = {}
    began_s = time.monotonic()
    while True:
        passed_s = time.monotonic() - began_s
        while passed_s < for_s and len(sent_ms) < passed_s * per_s:
            name = f"probe-{len(sent_ms)}"
            sent_ms[name] = now_ms()
            send(probes.probe(name, int(sent_ms[name])))
        waiting = [name for name in sent_ms if name not in found_ms]
        if waiting:
            with suppress(urllib3.exceptions.HTTPError):  # a worker too busy to answer: not readable yet
                for name in await asyncio.to_thread(api.names, _READABLE, jobs=waiting):
                    found_ms[name] = now_ms() - sent_ms[name]
        if passed_s > for_s and (len(found_ms) == len(sent_ms) or passed_s > for_s + _PATIENCE_S):
            return spread(len(sent_ms), list(found_ms.values()))
        await asyncio.sleep(every_s)


async def alerted(send: Send, probes: Probes, arrivals: Arrivals, per_tick: int) -> Spread:
    """Let jobs burn too much before each of some ticks; return how long after its tick each message came."""
    for tick in range(arrivals.expected // per_tick):
        await asyncio.sleep((TICK_MS - now_ms() % TICK_MS) / 1000 + 3)  # well before the next one
        for number in range(per_tick):
            send(probes.runaway(runaway_name(tick, number), int(now_ms())))
    return await arrived(arrivals, _PATIENCE_S)


async def crossing(send: Send, probes: Probes, jobs: int, ahead_ms: int) -> int:
    """Start jobs that all burn too much at one tick; wait until just before it, and return it."""
    at_ms = int(now_ms()) + ahead_ms
    tick_ms = -(-at_ms // TICK_MS) * TICK_MS
    scaled_ms = tick_ms - CROSSING_MS
    for number in range(jobs):
        sent_ms = int(now_ms())
        send(probes.runaway(runaway_name(number), sent_ms, scaled_before_ms=sent_ms - scaled_ms))
    await asyncio.sleep((tick_ms - now_ms()) / 1000 - 1)
    return tick_ms


def runaway_name(*numbers: int) -> str:
    """A name without a number: jobs that differ by their number alone are a sweep, whose alerts are one message."""
    parts = ("".join(chr(ord("a") + int(digit)) for digit in str(number)) for number in numbers)
    return "-".join(("runaway", *parts))


async def arrived(arrivals: Arrivals, patience_s: float) -> Spread:
    """Wait for all messages; return how long after its tick each came."""
    with suppress(TimeoutError):
        await asyncio.wait_for(arrivals.all.wait(), patience_s)
    return spread(arrivals.expected, list(arrivals.found_ms.values()))


async def lagging(
    behind: Callable[[], float],
    for_s: float,
    every_s: float = 1.0,
    now_s: Callable[[], float] = time.monotonic,
) -> dict[str, float]:
    """Look now and then how far a worker is behind; returns median and most."""
    found = []
    until_s = now_s() + for_s
    while now_s() < until_s:
        found.append(await asyncio.to_thread(behind))
        await asyncio.sleep(every_s)
    return {"median": statistics.median(found), "max": max(found)}


class Api:
    """The worker's SQL, over HTTP, with the token of its data directory."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = f"{url}/api/v1/query"
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(timeout=30.0, retries=False, maxsize=1)

    def names(self, sql: str, **parameters: object) -> list[str]:
        """The first column of an answer."""
        body = orjson.dumps({"sql": sql, "parameters": parameters})
        answer = self._pool.request("POST", self._url, body=body, headers=self._headers)
        if answer.status != 200:
            raise WorldError(f"the worker answers {answer.status}: {answer.data[:500]!r}")
        return [str(row[0]) for row in orjson.loads(answer.data)["rows"]]
