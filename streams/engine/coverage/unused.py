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
from streams.engine.kernels.store import BEGINNING_S, UNEXPORTED_SLOTS, UNTOUCHED_S, Samples

#: Samples of fewer thousandths are no work.
WORK_PERMILLE: Final = 20
#: A GPU is there as long as its newest sample is no older.
SAMPLED_S: Final = 600


class UnusedGpus(NamedTuple):
    """GPUs of the newest attempt of a job that are sampled and have done nothing since `since_s`."""

    gpus: tuple[tuple[str, str], ...]  # the node and the GPU of each, in order
    since_s: int
    sampled: int  # how many GPUs of the attempt are sampled


def note_work(samples: Samples, first: int, stop: int, arrays: CoverageArrays) -> None:
    """Note the work that the records [first, stop) of a batch say, after they were folded."""
    store, worked = arrays.store, arrays.worked_s
    rows = np.flatnonzero(samples.end_s[first:stop] > samples.begin_s[first:stop]) + first
    begins = store.group_ptr[samples.group[rows]]
    sizes = store.group_ptr[samples.group[rows] + 1] - begins  # 0 of what is refused, or folded by itself
    if not len(samples.util) or not sizes.any():
        return
    place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    slot = store.group_slot[np.repeat(begins, sizes) + place]
    works = samples.util[np.repeat(samples.value_ptr[rows], sizes) + place] * 1000 >= WORK_PERMILLE - 0.5
    before = worked[slot]
    if (before == BEGINNING_S).any():  # of several records the first one counts: assigned last
        fresh = np.flatnonzero(before == BEGINNING_S)[::-1]
        worked[slot[fresh]] = np.repeat(samples.begin_s[rows], sizes)[fresh]
    np.maximum.at(worked, slot[works], np.repeat(samples.end_s[rows], sizes)[works])
    if not samples.late[first:stop].any():
        return
    # Late work touches no second of a ring, and must be exported all the same.
    missing = np.unique(slot[(worked[slot] != before) & (store.slots["touched_s"][slot] == UNTOUCHED_S)])
    count = int(store.used[UNEXPORTED_SLOTS])
    store.unexported_slots[count : count + len(missing)] = missing
    store.used[UNEXPORTED_SLOTS] = count + len(missing)
    store.slots["touched_s"][missing] = store.slots["newest_s"][missing]


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
