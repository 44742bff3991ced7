"""Finds what prices and controls that become known change for the jobs of a shard; it changes nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streams.engine.alerts.controls import Controls
from streams.engine.burn.job_curve import JobCurve
from streams.engine.coverage.coverage import Coverage
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.repricing.price_index import PriceIndex
from streams.engine.state.job import JobBook
from streams.engine.state.job_facts import payer_of


class TrackedJobs(NamedTuple):
    """What the tracker reads of the shard."""

    jobs: JobBook
    coverage: Coverage
    price_index: PriceIndex


class ReferenceNews(NamedTuple):
    """What prices and controls that became known change here."""

    left: list[str]  # jobs outside all windows with a firing alert, which a price may resolve
    repriced: dict[str, list[int]]  # by job, the attempts of other prices
    controls: Controls | None  # None: there are no others

    @property
    def matters(self) -> bool:
        """Whether the ticks before must be judged first."""
        return bool(self.left or self.repriced) or self.controls is not None


def repriced_jobs(
    tracked: TrackedJobs, changes: PriceChanges, curve_of: Callable[[str], JobCurve | None]
) -> dict[str, list[int]]:
    """Return the jobs of which any usage has another price, with the attempts of which billed time has one.

    Those without a curve, too: time or traffic that has no price now opens `unpriced`, however old it is.
    """
    found: dict[str, list[int]] = {}
    for job_id in changes.asking(tracked.price_index):
        job, curve = tracked.jobs[job_id], curve_of(job_id)
        touched = changes.touched(job, payer_of(job, changes.old) if curve is None else curve.payer)
        if touched is not None:
            found[job_id] = touched
    return found
