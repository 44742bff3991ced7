"""What blocks has threads of its own kind: names that nobody resolves, and questions that hang, hold up nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.resolver import ReceiverResolver
from streams.notify.webhooks.sender import Sender
from streams.threads import Threads
from tests.worker.lab import until
from tests.worker.test_shard_manager import Bench

ROOT = Path(__file__).parents[2]
#: As many as the loop's own threads can ever be.
MANY = min(32, (os.cpu_count() or 1) + 4)
#: Calls of these are of the start, the stop or the command line, where nothing else is to be held up, or take no time.
SHARED = {
    "streams/worker/health/probe.py",  # its own pool's shutdown
    "streams/worker/reference/reference_reader.py",  # the end of its thread
    "streams/worker/startup.py",
    "streams/app.py",
    "streams/cli/demo_screens.py",
    "streams/demo/log.py",
    "streams/demo/run.py",
    "streams/read_only.py",  # nobody meters there
    "streams/replay/replay.py",
    "streams/web/store_reader.py",  # its own pool's shutdown
    "streams/web/query_service.py",  # the same
}


class Tarpit:
    """A name server that answers for names under `tarpit.example` only once it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: Any, *arguments: Any, **named: Any) -> Any:
        if not str(host).endswith("tarpit.example"):
            return self._real(host, *arguments, **named)
        self.asked.append(str(host))
        assert self.answers.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def tarpit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tarpit]:
    tarpit = Tarpit()
    monkeypatch.setattr(socket, "getaddrinfo", tarpit.getaddrinfo)
    yield tarpit
    tarpit.answers.set()


def test_names_that_nobody_resolves_hold_up_no_checkpoint(tarpit: Tarpit) -> None:
    async def go() -> None:
        sender = Sender(ReceiverGuard(), timeout_ms=60_000)
        urls = [f"https://n{number}.tarpit.example/x" for number in range(MANY)]
        sending = [asyncio.create_task(sender.post(url, b"{}", {})) for url in urls]
        await until(lambda: len(tarpit.asked) == MANY)
        bench = Bench()
        await asyncio.wait_for(bench.own({0}, 1), 20)
        await bench.feed(0, 0, 5)
        assert await asyncio.wait_for(bench.shard_manager.checkpoint(open_attempts=False), 20)
        assert bench.store.snapshots.load(0).blobs
        assert not any(task.done() for task in sending)
        tarpit.answers.set()
        answers = await asyncio.gather(*sending)
        assert {answer.verdict for answer in answers} == {"retry"}

    asyncio.run(go())


def test_of_one_name_one_look_up_waits_at_a_time(tarpit: Tarpit) -> None:
    async def go() -> None:
        names = ReceiverResolver()
        waiting = [asyncio.create_task(names.resolve("a.tarpit.example", 443)) for _ in range(200)]
        other = asyncio.create_task(names.resolve("localhost", 443))
        assert {found["host"] for found in await asyncio.wait_for(other, 20)} == {"127.0.0.1"}
        waiting[0].cancel()
        tarpit.answers.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert tarpit.asked == ["a.tarpit.example"]
        assert isinstance(answers[0], asyncio.CancelledError)
        assert all(isinstance(answer, socket.gaierror) for answer in answers[1:])

    asyncio.run(go())


def test_questions_that_hang_hold_up_their_own_kind_alone() -> None:
    async def go() -> None:
        released = threading.Event()
        audits, checkpoints = Threads("audits"), Threads("checkpoints")
        hung = [asyncio.create_task(audits.run(released.wait, 60)) for _ in range(MANY + 1)]
        assert await asyncio.wait_for(checkpoints.run(lambda: "stored"), 20) == "stored"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "the loop's own"), 20) == "the loop's own"
        assert not any(task.done() for task in hung)
        released.set()
        assert all(await asyncio.gather(*hung))

    asyncio.run(go())


def test_nothing_that_runs_beside_the_meter_shares_the_loops_threads() -> None:
    shares = {
        str(path.relative_to(ROOT))
        for package in ("streams", "sinks")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"to_thread\(|run_in_executor\(None", path.read_text())
    }
    assert shares == SHARED
