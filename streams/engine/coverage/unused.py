"""GPUs of jobs that do no work while others of their job do: until when each of them worked last.

Of each GPU the end of the last sample of work is kept beside its ring, as the first one of all is: a maximum, which no batch and
no order of late samples changes. Sums by node, which rows keep, show nothing of one GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.names import Holder, HolderNames
from streams.engine.kernels.store import BEGINNING_S

#: Samples of fewer thousandths are no work.
WORK_PERMILLE: Final = 20
#: A GPU is there as long as its newest sample is no older.
SAMPLED_S: Final = 600


class UnusedGpus(NamedTuple):
    """GPUs of the newest attempt of a job that are sampled and have done nothing since `since_s`."""

    gpus: tuple[tuple[str, str], ...]  # the node and the GPU of each, in order
    since_s: int
    sampled: int  # how many GPUs of the attempt are sampled


def jobs_with_rest(arrays: CoverageArrays, names: HolderNames, until_s: int, wait_s: int) -> list[str]:
    """The jobs of which a GPU that is sampled did nothing for so long before an instant."""
    rests = np.flatnonzero(arrays.worked_s[: arrays.slots] <= until_s - wait_s)
    slots = arrays.store.slots[rests]
    holders = np.unique(slots["holder"][(slots["newest_s"] >= until_s - SAMPLED_S) & (slots["holder"] >= 0)])
    jobs = dict.fromkeys(holder.job_id for holder in names.by_numbers(holders.tolist()))
    return [job_id for job_id in jobs if job_id]


def unused_of(
    arrays: CoverageArrays, holders: Iterable[Holder], until_s: int, wait_s: int
) -> UnusedGpus | None:
    """The GPUs of a job, and not all of them, that did nothing for so long before an instant, and are sampled still.

    Of one on several nodes only those of nodes of which half of the GPUs or more work: else the node is slow as a whole.
    """
    newest_s, worked_s = arrays.store.slots["newest_s"], arrays.worked_s
    sampled = [
        (holder, [(gpu, slot) for gpu, slot in holder.gpus.items() if newest_s[slot] >= until_s - SAMPLED_S])
        for holder in holders
    ]
    last = max((holder.attempt for holder, gpus in sampled if gpus), default=0)
    nodes = [(holder.node, gpus) for holder, gpus in sampled if gpus and holder.attempt == last]
    unused: list[tuple[str, str]] = []
    since_s = BEGINNING_S
    for node, gpus in nodes:
        rest = [(gpu, int(worked_s[slot])) for gpu, slot in gpus if worked_s[slot] <= until_s - wait_s]
        if len(nodes) == 1 or 2 * len(rest) <= len(gpus):
            unused += [(node, gpu) for gpu, _ in rest]
            since_s = max([since_s, *(at_s for _, at_s in rest)])
    total = sum(len(gpus) for _, gpus in nodes)
    return UnusedGpus((*sorted(unused),), since_s, total) if 0 < len(unused) < total else None
