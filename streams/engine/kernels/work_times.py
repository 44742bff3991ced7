"""Until when each GPU worked: kept by slot beside the rings of coverage."""

from __future__ import annotations

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I64
from streams.engine.kernels.coverage import touch_slot
from streams.engine.kernels.store import BEGINNING_S, UNTOUCHED_S, CoverageStore, Samples


@kernel
def note_work_times(
    first: int, stop: int, work_permille: int, store: CoverageStore, samples: Samples, worked_s: I64
) -> None:
    """Raise `worked_s` ([slot] int64) to the ends of the records [first, stop) of work, after they were folded.

    Of a slot without any sample it begins with the first record's begin. Records that were refused, or folded by themselves, have
    a group without slots.
    """
    if samples.util.size == 0:
        return
    any_late = False
    for i in range(first, stop):
        any_late |= samples.late[i] != 0
    for i in range(first, stop):
        begin_s, end_s = samples.begin_s[i], samples.end_s[i]
        if end_s <= begin_s:
            continue
        begin = store.group_ptr[samples.group[i]]
        for k in range(store.group_ptr[samples.group[i] + 1] - begin):
            slot = store.group_slot[begin + k]
            was_s = worked_s[slot]
            now_s = begin_s if was_s == BEGINNING_S else was_s
            if samples.util[samples.value_ptr[i] + k] * 1000 >= work_permille - 0.5:
                now_s = max(now_s, end_s)
            if now_s != was_s:
                worked_s[slot] = now_s
                # Late work touches no second of a ring, and must be exported all the same.
                if any_late and store.slots[slot]["touched_s"] == UNTOUCHED_S:
                    touch_slot(slot, store.slots[slot]["newest_s"], store)
