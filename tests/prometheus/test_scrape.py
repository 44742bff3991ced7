"""Debian's Prometheus scrapes a worker's /metrics, and our rules fire and clear by what it reads there."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from streams.worker.health.worker_status import Check, WorkerStatus
from tests.prometheus.test_rules import FOLDER, RULES
from tests.web.serving import TOKEN, Client, run, serving

PATIENCE_S = 40.0
WELL = WorkerStatus(checks=(Check("group", True, "a member"),), books_balanced={"records": True})
ILL = WorkerStatus(
    checks=(
        Check("group", True, "a member"),
        Check("progress", False, "shard 3 has folded nothing for 61 s"),
    ),
    no_progress_ms=61_000,
    books_balanced={"records": False},
    dead_letters={"future": 2},
)


def config(tmp_path: Path, target: str) -> Path:
    """Ours, with one target, the same way to show a token, and times of a test: nothing waits."""
    (tmp_path / "token").write_text(TOKEN)
    text = (
        (FOLDER / "prometheus.yml")
        .read_text()
        .replace("/run/secrets/web_metrics_token", str(tmp_path / "token"))
    )
    ours = yaml.safe_load(text)
    ours["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "250ms"}
    (job,) = ours["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [target]}]
    (tmp_path / RULES.name).write_text(re.sub(r"for: \w+", "for: 0s", RULES.read_text()))
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(ours))
    return tmp_path / "prometheus.yml"


class Prometheus:
    """Answers what it holds."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def firing(self) -> dict[str, dict[str, Any]]:
        """Alerts by their names."""
        try:
            async with self._session.get(f"{self._url}/api/v1/alerts") as answer:
                alerts = (await answer.json())["data"]["alerts"]
        except aiohttp.ClientError:
            return {}
        return {each["labels"]["alertname"]: each for each in alerts if each["state"] == "firing"}

    async def until(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """Wait until exactly these fire, but not for ever."""
        for _ in range(int(PATIENCE_S / 0.1)):
            found = await self.firing()
            if set(found) == names:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"expected {names}, found {set(found)}")

    async def health(self) -> str:
        """Of the one target; '' before it is known."""
        try:
            async with self._session.get(f"{self._url}/api/v1/targets") as answer:
                (target,) = (await answer.json())["data"]["activeTargets"]
        except (aiohttp.ClientError, ValueError):
            return ""
        return f"{target['health']} {target['lastError']}".strip()

    async def until_healthy(self, health: str) -> None:
        for _ in range(int(PATIENCE_S / 0.1)):
            found = await self.health()
            if found == health:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"expected {health}, found {found}")


@asynccontextmanager
async def prometheus(program: str, file: Path, session: aiohttp.ClientSession) -> AsyncIterator[Prometheus]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [program, f"--config.file={file}", f"--storage.tsdb.path={file.parent / 'data'}"]
    with (file.parent / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, f"--web.listen-address={address}", stdout=log, stderr=log
        )
    try:
        yield Prometheus(f"http://{address}", session)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)


def test_prometheus_reads_a_worker_and_our_rules_fire_and_clear(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    path = program("prometheus")
    told = WELL

    async def go() -> None:
        async with aiohttp.ClientSession() as session, serving(None, lambda: told, token=TOKEN) as client:
            file = config(tmp_path, client.server.url.removeprefix("http://"))
            async with prometheus(path, file, session) as server:
                await look(server, client)

    async def look(server: Prometheus, client: Client) -> None:
        nonlocal told
        await server.until_healthy("up")
        await server.until({"TrainfareStoreDown"})  # there is none in this test
        told = ILL
        seen = {
            "TrainfareNotReady",
            "TrainfareNoProgress",
            "TrainfareBooksUnbalanced",
            "TrainfareDeadLetters",
        }
        found = await server.until({"TrainfareStoreDown", *seen})
        assert "has metered nothing for 1m 1s" in found["TrainfareNoProgress"]["annotations"]["summary"]
        assert found["TrainfareBooksUnbalanced"]["labels"]["check"] == "records"
        assert found["TrainfareBooksUnbalanced"]["labels"]["severity"] == "page"
        assert "no value" not in str(found)
        told = WELL
        await server.until({"TrainfareStoreDown", "TrainfareDeadLetters"})
        await client.server.stop()
        await server.until({"TrainfareWorkerDown", "TrainfareNoWorkers", "TrainfareDeadLetters"})

    run(go())
