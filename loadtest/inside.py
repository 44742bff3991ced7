"""A worker with stopwatches in it: `python -m loadtest.inside OUT.jsonl worker --data DIR` is `trainfare worker`.

Each stored flight of checkpoints is a line: how far the log is stored, when, and what the process had used.
The last line is what its parts took: from SIGUSR1 to SIGUSR2 where these come, else all the time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

from loadtest.stopwatch import Stopwatch, run_delay_s
from sinks.clickhouse import ClickHouseStore
from sinks.snapshots import Snapshots
from streams.engine.batch import LogBatch
from streams.engine.shard.shard import Shard
from streams.worker.shards.owned_shard import InFlightCheckpoint
from streams.worker.storing.checkpointer import Checkpointer

#: What is timed: its name in the results, and where it is.
TIMED: Final[tuple[tuple[str, type, str], ...]] = (
    ("fold", Shard, "fold"),
    ("tick", Shard, "judge"),
    ("checkpoint", Shard, "checkpoint"),
    ("insert", ClickHouseStore, "insert"),
    ("snapshot", Snapshots, "save_all"),
)

#: Signals between which parts are timed: a load that begins or ends at once is no steady one.
BEGIN: Final = signal.SIGUSR1
END: Final = signal.SIGUSR2


class Inside:
    """The stopwatches of one process, and the file they report to."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._watches = {name: Stopwatch() for name, _, _ in TIMED}
        self._next: dict[tuple[int, str], int] = {}
        self._rows: Counter[str] = Counter()
        self._folded: dict[str, float] | None = None

    def fit(self) -> None:
        """Put them in; once in a process."""
        for name, owner, method in TIMED:
            _replace(owner, method, partial(self._timed, name))
        _replace(Shard, "fold", self._seen)
        _replace(Checkpointer, "_count", self._stored)
        for number in (BEGIN, END):
            signal.signal(number, self._signalled)

    def report(self) -> None:
        """The last line."""
        parts = {name: watch.figures() for name, watch in self._watches.items()}
        rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._write({"parts": parts, "rss_peak_mib": rss_mib, "rows": dict(self._rows)})

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        for watch in self._watches.values():
            if number == BEGIN:
                watch.restart()
            else:
                watch.stop()

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        watch = self._watches[name]

        @wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            with watch.running():
                return call(*arguments, **named)

        return timed

    def _seen(self, fold: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fold)
        def folded(shard: Shard, batch: LogBatch) -> Any:
            counts = batch.topic == "gpu" and len(batch.records) > 0
            if counts and self._folded is None:
                self._write({"first": _now()})
            answer = fold(shard, batch)
            if counts:
                self._folded = _now()
            return answer

        return folded

    def _stored(self, count: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(count)
        def counted(checkpointer: Checkpointer, flight: Sequence[InFlightCheckpoint]) -> Any:
            for taken in flight:
                self._next |= {(taken.owned.number, topic): offset for topic, offset in taken.next.items()}
                for table, rows in taken.checkpoint.tables.items():
                    self._rows[table] += rows.num_rows
            records: Counter[str] = Counter()
            for (_, topic), offset in self._next.items():
                records[topic] += offset
            places = {f"{topic}/{number}": offset for (number, topic), offset in self._next.items()}
            stored = {"records": dict(records), "next": places, "folded": self._folded}
            self._write({"stored": {**_now(), **stored}})
            return count(checkpointer, flight)

        return counted

    def _write(self, body: dict[str, Any]) -> None:
        self._out.write(json.dumps(body) + "\n")
        self._out.flush()


def parts_of(out: Path) -> dict[str, Any]:
    """What a worker that has ended reported of its parts; it is the last line."""
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])["parts"]
    return found


def _now() -> dict[str, float]:
    return {
        "at_s": time.time(),
        "cpu_s": time.process_time(),
        "delay_s": run_delay_s(),
        "minor_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt,
        "load": os.getloadavg()[0],
    }


def _replace(owner: type, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    setattr(owner, method, around(getattr(owner, method)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that follows the file's name."""
    out, *command = sys.argv[1:] if argv is None else argv
    from streams.cli.main import main as trainfare

    with Path(out).open("a", encoding="utf-8") as file:
        inside = Inside(file)
        inside.fit()
        sys.argv = ["trainfare", *command]
        try:
            trainfare()
        finally:
            inside.report()


if __name__ == "__main__":
    main()
