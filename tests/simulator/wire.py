"""The way from a worker to the store: requests take time, fail, are stored in part, or arrive long after."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.tables import SNAPSHOTS
from sinks.archive import Archive
from sinks.conform import conform
from sinks.errors import SinkBusy
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Condition
from sinks.snapshots import Snapshots
from tests.simulator.ledger_sql import answer
from tests.simulator.process import Killed, Process
from tests.simulator.store import Shelf

#: A server closes a connection on which nothing comes for so long, in the middle of a request too.
_CLOSED_AFTER_US = 10_000_000


@dataclass
class Odds:
    """In what share of requests each thing happens; all 0: a store that works."""

    busy: float = 0.0  # refused before anything is stored
    lost: float = 0.0  # stored, and the acknowledgement lost
    part: float = 0.0  # stored in part, and refused
    late: float = 0.0  # given up by the client, and stored long after
    stale: float = 0.0  # of reads of snapshots: the newest ones do not show
    latest_ms: int = 60_000  # the longest that anything is on its way

    def calm(self) -> None:
        """From now on nothing fails."""
        self.busy = self.lost = self.part = self.late = self.stale = 0.0


#: Called at each point a worker may die or freeze at: (what is done, before or after).
Point = Callable[[str, str], None]


class Wire:
    """One worker's connection; as a store it is what the shard manager is given."""

    def __init__(self, shelf: Shelf, process: Process, odds: Odds, point: Point, chunk_bytes: int) -> None:
        self._shelf = shelf
        self._process = process
        self._world = process.world
        self._odds = odds
        self._point = point
        self.snapshots = Snapshots(self, chunk_bytes)
        self.archive = Archive(self)
        self.readback = Readback(self)
        self.meta = Meta(self, "the simulated store")

    @property
    def _rng(self) -> random.Random:
        """Of the call that is running."""
        call = self._process.call
        return self._world.rng if call is None else call.rng

    def _pause(self, low_ms: float, high_ms: float) -> float:
        return low_ms + (high_ms - low_ms) * self._rng.random() ** 3

    def _chance(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    # -- writing -------------------------------------------------------------------------------------------

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store the rows; what goes wrong is drawn."""
        rows = conform(table, rows)
        world, odds, rng = self._world, self._odds, self._rng
        try:
            self._at_point(table, "before")
        except Killed:
            if self._process.sends_last:
                world.after(self._pause(10, odds.latest_ms), self._arrive, table, rows, token)
            raise
        fate = rng.random()
        if fate < odds.busy:
            world.fault(self._process.name, "refused", table)
            raise SinkBusy("the store is busy", int(self._pause(10, 3000)))
        fate -= odds.busy
        if fate < odds.part and rows.num_rows > 1:
            count = rng.randrange(1, rows.num_rows)
            world.fault(self._process.name, "stored in part:", table, count, "of", rows.num_rows)
            places = sorted(rng.sample(range(rows.num_rows), count))
            self._shelf.put(table, rows.take(places))
            raise SinkBusy("the store took a part", int(self._pause(10, 3000)))
        fate -= odds.part
        if fate < odds.late:
            delay_ms = self._pause(100, odds.latest_ms)
            world.fault(self._process.name, "gives up, arrives", int(delay_ms), "ms later:", table)
            world.after(delay_ms, self._arrive, table, rows, token)
            raise SinkBusy("the store did not answer in time", int(self._pause(10, 3000)))
        fate -= odds.late
        self._send(lambda: self._arrive(table, rows, token))
        self._at_point(table, "after")
        if fate < odds.lost:
            world.fault(self._process.name, "acknowledgement lost:", table)
            raise SinkBusy("the connection was reset", int(self._pause(10, 3000)))

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Forget rows, at once."""
        self._send(lambda: self._shelf.delete(table, where))

    def _arrive(self, table: str, rows: pa.Table, token: str) -> None:
        self._world.note(self._process.name, "insert", table, rows.num_rows, token)
        self._shelf.insert(table, rows, token)

    def _send(self, request: Callable[[], None]) -> None:
        """Do it now; or, in a slow call, after some time, whatever becomes of us meanwhile."""
        call = self._process.call
        assert call is not None, "the store is asked by threads only"
        if not call.slow:
            request()
            return
        sent: list[bool] = []

        def arrive() -> None:
            request()
            sent.append(True)

        world = self._world
        delay_ms = self._pause(0, 2500)
        lost = self._odds.latest_ms > 0 and self._chance(0.3)
        world.after(delay_ms, lambda: None if lost and self._process.dead else arrive())
        call.wait(delay_ms + self._pause(1, 300))
        if not sent:
            raise SinkBusy("no answer")

    def _at_point(self, what: str, when: str) -> None:
        self._point(what, when)
        if self._process.dead:
            raise Killed
        if not self._process.runs and self._process.call is not None:
            since_us = self._world.now_us
            self._process.call.wait_frozen()
            if when == "before" and self._world.now_us - since_us > _CLOSED_AFTER_US:
                raise SinkBusy("the connection was closed meanwhile", 10)

    # -- reading -------------------------------------------------------------------------------------------

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Current rows."""
        self._read_fault(table)
        if table == SNAPSHOTS and columns is not None and "checksum" in columns:
            where = [*where, *self._unseen(where)]
        return self._shelf.select(table, where, columns, limit=limit)

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of the rows."""
        self._read_fault(table)
        return self._shelf.newest_version(table, where)

    def _read_fault(self, table: str) -> None:
        call = self._process.call
        if call is not None and call.slow:
            call.wait(self._pause(0, 1500))
        if self._chance(self._odds.busy):
            self._world.fault(self._process.name, "not answered:", table)
            raise SinkBusy("the store is busy", int(self._pause(10, 3000)))

    def _unseen(self, where: Sequence[Condition]) -> list[Condition]:
        """Of a store whose copies lag: the newest snapshots of the shard do not show."""
        if not self._chance(self._odds.stale):
            return []
        versions = sorted(set(self._shelf.select(SNAPSHOTS, where, ("version",))["version"].to_pylist()))
        if not versions:
            return []
        kept = versions[: -self._rng.randrange(1, 4)]
        self._world.fault(
            self._process.name, "does not see the newest", len(versions) - len(kept), "snapshots"
        )
        return [Condition("version", "<=", kept[-1] if kept else 0)]

    # -- the rest of the port ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Any:
        """The answer to a statement of the rules across jobs."""
        self._read_fault("the ledger")
        return answer(self._shelf, sql, parameters)

    def close(self) -> None:
        """Nothing is open."""
