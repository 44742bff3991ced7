"""A worker that is slower than it need be, to see that `make bench-check` says so: a sleep or work at each fold.

`make bench-check BENCH_ARGS="--program 'loadtest.slowed sleep 2'"` adds 2 us for each record; `work` instead
of `sleep` keeps a core busy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from loadtest import inside
from streams.engine.batch import LogBatch
from streams.engine.shard.shard import Shard


def _work(for_s: float) -> None:
    until_s = time.thread_time() + for_s
    while time.thread_time() < until_s:
        pass


KINDS: Final[dict[str, Callable[[float], None]]] = {"sleep": time.sleep, "work": _work}


def slow_down(kind: str, us_per_record: float) -> None:
    """Make every fold of this process take so much longer."""
    fold: Callable[..., Any] = Shard.fold
    delay = KINDS[kind]

    @wraps(fold)
    def slow(shard: Shard, batch: LogBatch) -> Any:
        delay(len(batch.records) * us_per_record / 1e6)
        return fold(shard, batch)

    setattr(Shard, "fold", slow)  # noqa: B010 - mypy refuses the plain assignment to a method


def main(argv: Sequence[str] | None = None) -> None:
    """As `loadtest.inside`, after the kind and the microseconds."""
    kind, us_per_record, *others = sys.argv[1:] if argv is None else argv
    slow_down(kind, float(us_per_record))
    inside.main(others)


if __name__ == "__main__":
    main()
