"""What a backfill does to the latencies of a live meter on the same server: `python -m loadtest.backfill_beside FILE --rate N`.

The live load is that of loadtest.latency; the backfill begins when its latencies are measured. Without FILE
nothing is backfilled, for comparison. Totals that are wrong, of the load or of the backfill, are a failure.
The server is `tests.store_front`: chDB in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from loadtest.latency import Live, arguments, report
from loadtest.latency_load import NAMES
from loadtest.latency_world import WorldError, broker, end_in_order, settings_for
from loadtest.measure import Api, Arrivals, Send, Spread
from loadtest.soak_world import ROOT, Member
from loadtest.verdict import WrongTotalsError
from sinks.clickhouse import ClickHouseStore
from streams.config.settings import ClickHouseSettings
from tests.store_process import StoreProcess

_BACKFILL_S: Final = 1_800


class ServerSql(Api):
    """SQL of the server itself: a worker on a server answers none without a user for it."""

    def __init__(self, store: ClickHouseStore) -> None:
        super().__init__("http://127.0.0.1:9", None)
        self._store = store

    def names(self, sql: str, **parameters: object) -> list[str]:
        """The first column of an answer."""
        return [str(each) for each in self._store.query(sql, parameters).column(0).to_pylist()]


@dataclass
class Beside(Live):
    """A live load on a server, with a backfill beside it while latencies are measured."""

    # The server answers with all of its threads, at no lower priority than it inserts: more queries would delay inserts.
    poll_interval_s: ClassVar[float] = 0.2

    server: StoreProcess | None = None
    summary: dict[str, Any] = field(default_factory=dict)  # what the backfill printed

    @property
    def _where(self) -> dict[str, str]:
        assert self.server is not None
        return {"TRAINFARE_CLICKHOUSE_URL": self.server.url}

    @property
    def _options_of_store(self) -> tuple[str, ...]:
        return ()

    def _api(self, worker: Member) -> Api:
        return ServerSql(self._store())

    def _store(self) -> ClickHouseStore:
        assert self.server is not None
        return ClickHouseStore(self.server.target())

    async def _latencies(
        self, worker: Member, send: Send, arrivals: Arrivals
    ) -> tuple[Spread, Spread, dict[str, float], dict[str, float]]:
        backfill = None if self.options.file is None else asyncio.create_task(self._backfill())
        found = await super()._latencies(worker, send, arrivals)
        self.summary["outlasted_latencies"] = backfill is not None and not backfill.done()
        if backfill is not None:
            self.summary |= await backfill
        return found

    async def _backfill(self) -> dict[str, Any]:
        began_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "streams.cli.main",
                "backfill",
                str(self.options.file),
                "--format",
                "json",
            ),
            cwd=ROOT,
            env={**os.environ, **self._where, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), _BACKFILL_S)
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise WorldError(f"the backfill ended with {process.returncode}")
        found: dict[str, Any] = json.loads(out)
        return {**found, "wall_clock_s": round(time.monotonic() - began_s, 1)}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured and right, 1 it could not be, or the totals are wrong."""
    parser = arguments("backfill_beside", __doc__)
    parser.add_argument("file", type=Path, nargs="?", help="what to backfill; default: nothing")
    parser.add_argument("--usd", help="what the jobs of the file cost, by another reckoning")
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-beside-")))
        try:
            kafka = stack.enter_context(broker(directory / "kafka"))
            server = stack.enter_context(StoreProcess(directory / "store"))
            settings = settings_for(kafka.bootstrap_servers, directory / "none")
            settings = settings.model_copy(update={"clickhouse": ClickHouseSettings(url=server.url)})
            live = Beside(options, settings, directory, (*NAMES, "helios-"), server)
            figures = asyncio.run(live.go())
            if options.usd not in (None, live.summary.get("usd")):
                raise WrongTotalsError(f"the backfill costs {live.summary.get('usd')}, not {options.usd}")
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"backfill_beside: {fault}\n")
            return 1
    sys.stdout.write(report(figures))
    sys.stdout.write(json.dumps(live.summary, indent=2) + "\n")
    if options.out is not None:
        options.out.write_text(
            json.dumps({**figures, "backfill": live.summary}, indent=2) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
