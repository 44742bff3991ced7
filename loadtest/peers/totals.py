"""Whether a peer's windows are what was sent: every group, counts equal, sums equal to the thousandth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loadtest.known import WINDOW_S, Known
from loadtest.peers.task import Total, Window

_THOUSANDTHS = 1000
_FAR = 1e-3  # of a thousandth: what doubles lose on the way is a millionth of this


def wrong(windows: Mapping[Window, Total], known: Known) -> str | None:
    """Say what does not agree, or None."""
    jobs = {job: number for number, job in enumerate(known.jobs)}
    found = np.zeros(known.samples.shape, np.int64)
    sums = np.zeros(known.samples.shape)
    for (job, start_ms), (total, count) in windows.items():
        window, rest_ms = divmod(start_ms - known.begin_s * 1000, WINDOW_S * 1000)
        if job not in jobs or rest_ms or window < 0:
            return f"no such window was sent: {job} at {start_ms} ms"
        if window < known.samples.shape[1]:
            found[jobs[job], window] += count
            sums[jobs[job], window] += total
    if not np.array_equal(found, known.samples):
        off = int((found != known.samples).sum())
        return f"{off:,} groups have another count; {int(found.sum()):,} samples of {known.gpu_samples:,}"
    off = int((np.abs(sums * _THOUSANDTHS - known.permille) > _FAR).sum())
    return f"{off:,} groups have another sum" if off else None
