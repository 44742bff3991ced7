"""Debian's Alertmanager takes our alerts, groups and silences them by their labels, and hears that they resolved."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from streams.clock import SystemClock
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import SHARD, an_alert
from tests.notify.test_http import outcomes
from tests.notify.webhooks.server import serving
from tests.prometheus.conftest import REQUIRE_PROMETHEUS, program_or_skip

PATIENCE_S = 40.0


class Manager:
    """A running Alertmanager, and what it told its own receiver."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.told: list[dict[str, Any]] = []
        self._session = session

    async def alerts(self) -> list[dict[str, Any]]:
        async with self._session.get(f"{self.url}/api/v2/alerts") as answer:
            found: list[dict[str, Any]] = await answer.json()
            return found

    async def silence(self, **labels: str) -> None:
        matchers = [
            {"name": name, "value": value, "isRegex": False, "isEqual": True}
            for name, value in labels.items()
        ]
        silence = {
            "matchers": matchers, "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2100-01-01T00:00:00Z",
            "createdBy": "test", "comment": "test",
        }  # fmt: skip
        async with self._session.post(f"{self.url}/api/v2/silences", json=silence) as answer:
            assert answer.status == 200, await answer.text()

    def names(self, status: str) -> list[list[str]]:
        """Of each notification the jobs of that status."""
        return [
            sorted(each["labels"]["job"] for each in message["alerts"] if each["status"] == status)
            for message in self.told
            if any(each["status"] == status for each in message["alerts"])
        ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await what():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Manager]:
    program = program_or_skip("prometheus-alertmanager", required=REQUIRE_PROMETHEUS)
    async with aiohttp.ClientSession() as session:
        manager = Manager(f"http://127.0.0.1:{free_port()}", session)

        async def take(request: web.Request) -> web.Response:
            manager.told.append(json.loads(await request.read()))
            return web.Response()

        async with serving(take) as host_port:
            route = {
                "receiver": "us", "group_by": ["owner", "project"],
                "group_wait": "500ms", "group_interval": "1s", "repeat_interval": "1h",
            }  # fmt: skip
            receivers = [
                {"name": "us", "webhook_configs": [{"url": f"http://{host_port}/", "send_resolved": True}]}
            ]
            (tmp_path / "am.yml").write_text(yaml.safe_dump({"route": route, "receivers": receivers}))
            process = await asyncio.create_subprocess_exec(
                program, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am",
                f"--web.listen-address={manager.url.removeprefix('http://')}", "--cluster.listen-address=",
                stderr=(tmp_path / "am.log").open("wb"),
            )  # fmt: skip

            async def ready() -> bool:
                assert process.returncode is None, (tmp_path / "am.log").read_text()
                try:
                    async with session.get(f"{manager.url}/-/ready") as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            try:
                await until(ready)
                yield manager
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


@asynccontextmanager
async def notifying(*urls: str, store: MemoryStore | None = None) -> AsyncIterator[Notifier]:
    options = NotifierOptions(alertmanager_urls=urls, alertmanager_resend_ms=1_000, timeout_ms=2_000)
    notifier = Notifier(
        store or MemoryStore(), lambda _: [], options, SystemClock(), jitter_ratio=lambda: 0.001
    )
    task = asyncio.create_task(notifier.run())
    yield notifier
    await notifier.stop()
    await task


def fires(name: str, **other: Any) -> Any:
    now_ms = SystemClock().now_ms()
    return an_alert(name, changed_ms=now_ms, started_ms=now_ms, **other)


def resolves(alert: Any) -> Any:
    now_ms = SystemClock().now_ms()
    return an_alert(
        alert.subject_name, "resolved", now_ms, alert_id=alert.alert_id, started_ms=alert.started_ms
    )


def test_alerts_arrive_are_grouped_and_resolve(tmp_path: Path) -> None:
    async def go() -> None:
        store = MemoryStore()
        async with running(tmp_path) as manager, notifying(manager.url, store=store) as notifier:
            first, second = fires("job-1"), fires("job-2")
            other = fires("job-3", owner="bob", severity="ticket", rule="burn_drift")
            notifier.offer([first, second, other], SHARD)

            async def grouped() -> bool:
                # Of each group what it was told last: on a busy machine alerts of one may come apart.
                last = {each["groupLabels"]["owner"]: each["alerts"] for each in manager.told}
                jobs = {owner: sorted(a["labels"]["job"] for a in alerts) for owner, alerts in last.items()}
                return jobs == {"ada": ["job-1", "job-2"], "bob": ["job-3"]}

            await until(grouped)
            labels = {"alertname": "burn_drift", "severity": "ticket", "owner": "bob", "team": "vision"}
            bobs = next(each for each in manager.told if each["groupLabels"]["owner"] == "bob")
            assert labels.items() <= bobs["alerts"][0]["labels"].items()
            assert bobs["alerts"][0]["annotations"]["summary"] == "job-3 burns $786.56/h"

            notifier.offer([resolves(first)], SHARD)

            async def resolved() -> bool:
                return manager.names("resolved")[-1:] == [["job-1"]]

            await until(resolved)
            assert len(await manager.alerts()) == 2
        assert {outcome for _, _, outcome, _ in outcomes(store)} == {"delivered"}

    asyncio.run(go())


def test_a_silence_of_its_own_holds_by_our_labels(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as manager, notifying(manager.url) as notifier:
            await manager.silence(owner="ada", alertname="burn_fast")
            notifier.offer([fires("job-1"), fires("job-2", owner="bob")], SHARD)

            async def told() -> bool:
                return manager.names("firing") == [["job-2"]]

            await until(told)
            states = {each["labels"]["job"]: each["status"]["state"] for each in await manager.alerts()}
            assert states == {"job-1": "suppressed", "job-2": "active"}

    asyncio.run(go())


def test_what_fires_lasts_while_we_live_and_ends_by_itself_after(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as manager:
            async with notifying(manager.url) as notifier:
                notifier.offer([fires("job-1")], SHARD)
                ends: list[str] = []

                async def later() -> bool:
                    ends.extend(each["endsAt"] for each in await manager.alerts())
                    return len(set(ends)) >= 3

                await until(later)
                assert manager.names("resolved") == []

            async def ended() -> bool:
                return manager.names("resolved") == [["job-1"]]

            await until(ended)

    asyncio.run(go())


def test_all_peers_are_told_and_one_that_is_away_delays_none(tmp_path: Path) -> None:
    async def go() -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        away = f"http://127.0.0.1:{free_port()}"
        async with (
            running(tmp_path / "one") as one,
            running(tmp_path / "two") as two,
            notifying(away, one.url, two.url) as notifier,
        ):
            notifier.offer([fires("job-1")], SHARD)

            async def told() -> bool:
                return all([len(await each.alerts()) == 1 for each in (one, two)])

            await until(told)
            assert notifier.outcomes["delivered"] == 2

    asyncio.run(go())
