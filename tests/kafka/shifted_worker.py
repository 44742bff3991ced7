"""`trainfare worker` on a machine whose wall clock is wrong by as many ms as a file says at the moment."""

from __future__ import annotations

import sys
from pathlib import Path

from streams.app import run_worker
from streams.cli.options import settings_for
from streams.clock import SystemClock
from streams.log import configure_logging


class ShiftedClock(SystemClock):
    def __init__(self, file: Path) -> None:
        self._file = file

    def now_ms(self) -> int:
        return super().now_ms() + int(self._file.read_text() or "0")


if __name__ == "__main__":
    settings = settings_for(Path(sys.argv[1]))
    configure_logging(settings.log)
    run_worker(settings, ShiftedClock(Path(sys.argv[2])))
