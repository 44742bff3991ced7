"""The share of a replay's CPU time that hours take: `python -m loadtest.hours_share LOG.jsonl.gz --data DIR`.

Stopwatches of the thread's CPU time stand around all that marks, sums and stores hours, so that other
processes on the machine do not decide the figure.
"""

from __future__ import annotations

import atexit
import resource
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from schemas.tables import JOB_HOURS
from sinks.clickhouse import ClickHouseStore
from streams.cli.main import main
from streams.engine.ledger import derive
from streams.engine.ledger.hour_rows import HourRows

#: What the engine does for hours.
PARTS: Final = ("mark_lines", "mark_time", "put_off_hours", "write_hours")
_USED_S: dict[str, float] = {}


def _timed(owner: Any, name: str, is_of_hours: Callable[..., bool] = lambda *_: True) -> None:
    """Time a function of an object, for calls that are of hours."""
    original = getattr(owner, name)

    @wraps(original)
    def timed(*given: Any, **named: Any) -> Any:
        if not is_of_hours(*given):
            return original(*given, **named)
        began_s = time.thread_time()
        try:
            return original(*given, **named)
        finally:
            _USED_S[name] = _USED_S.get(name, 0.0) + time.thread_time() - began_s

    setattr(owner, name, timed)


def _report() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    whole_s, hours_s = used.ru_utime + used.ru_stime, sum(_USED_S.values())
    parts = ", ".join(f"{name} {used_s:.3f}" for name, used_s in _USED_S.items())
    sys.stderr.write(f"hours: {hours_s:.2f} of {whole_s:.2f} CPU s = {hours_s / whole_s:.1%} ({parts})\n")


if __name__ == "__main__":
    for part in PARTS:
        _timed(derive, part)
    _timed(HourRows, "table")
    _timed(ClickHouseStore, "insert", lambda _store, table, *_: table == JOB_HOURS)
    atexit.register(_report)
    main(["replay", *sys.argv[1:]])
