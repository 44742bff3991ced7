"""What a fleet's messages must come to: per job and window, per job as the whole engine stores it.

Integers only, by whole arrays; a test holds it against the tests' oracle on a small fleet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.durations import MINUTE_S

I64 = NDArray[np.int64]

WINDOW_S: Final = 10
#: Of a price per GPU-hour and a quantity in thousandths of a GPU x ms.
_DIVISOR: Final = 3_600_000 * 1000


@dataclass
class Known:
    """Totals of the messages sent so far; windows are by `time_ms`, the first begins at `begin_s`."""

    begin_s: int
    jobs: list[str]
    #: [jobs, windows]: the sum of util_ratio in thousandths, and how many ratios.
    permille: I64
    samples: I64
    messages: int = 0
    #: [jobs]: what the engine must have stored.
    sampled_gpu_s: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    productive_gpu_ms: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    ledger_rows: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    quantity: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    cost_nano: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def none_yet(cls, begin_s: int, jobs: list[str], seconds: int) -> Known:
        """Nothing is sent."""
        windows = -(-seconds // WINDOW_S)
        shape = (len(jobs), windows)
        return cls(begin_s, jobs, np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def sent(self, second: int, permille: I64, messages: int, samples_per_job: int) -> None:
        """Add one second; `permille`: [jobs], the sum over the job's ratios."""
        window = second // WINDOW_S
        self.permille[:, window] += permille
        self.samples[:, window] += samples_per_job
        self.messages += messages

    @property
    def gpu_samples(self) -> int:
        """All ratios sent."""
        return int(self.samples.sum())

    def save(self, path: Path) -> None:
        """Write it as .npz: begin_s, jobs, permille, samples and the totals of the engine."""
        np.savez(
            path,
            begin_s=self.begin_s,
            jobs=np.array(self.jobs),
            permille=self.permille,
            samples=self.samples,
            messages=self.messages,
            sampled_gpu_s=self.sampled_gpu_s,
            productive_gpu_ms=self.productive_gpu_ms,
            ledger_rows=self.ledger_rows,
            quantity=self.quantity,
            cost_nano=self.cost_nano,
        )

    @classmethod
    def load(cls, path: Path) -> Known:
        """Read what `save` wrote."""
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        begin_s, jobs, messages = (arrays.pop(name) for name in ("begin_s", "jobs", "messages"))
        return cls(begin_s=int(begin_s), jobs=jobs.tolist(), messages=int(messages), **arrays)


def minutes_of(first_s: int, end_s: int) -> I64:
    """How many seconds of [first_s, end_s) fall into each minute that it touches."""
    edges = np.arange(first_s // MINUTE_S, -(-end_s // MINUTE_S) + 1) * MINUTE_S
    return np.diff(np.clip(edges, first_s, end_s)).astype(np.int64)


def cost_nano(quantity: I64, price_nano: I64) -> I64:
    """Half to even of quantity x price / divisor, where the product fits into 63 bits; else OverflowError."""
    if quantity.size and int(quantity.max()) * int(price_nano.max()) >= 2**63:
        raise OverflowError("a row's quantity times its price does not fit into 63 bits")
    whole, rest = np.divmod(quantity * price_nano, _DIVISOR)
    up = (2 * rest > _DIVISOR) | ((2 * rest == _DIVISOR) & (whole % 2 == 1))
    found: I64 = whole + up
    return found
