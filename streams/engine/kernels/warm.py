"""Compiles every kernel before the worker joins the consumer group: compilation holds the GIL for seconds.

A test compares what is compiled here with the calls of the suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from streams.engine.kernels._jit import mark_compiled
from streams.engine.kernels.bill import bill_rows, cost_nano, cost_of
from streams.engine.kernels.burn import CURVE, FACT, LUMP, STEP, WINDOWS_MS, fill_figures, find_facts
from streams.engine.kernels.coverage import fold_samples
from streams.engine.kernels.curve_extension import TAIL, write_tails
from streams.engine.kernels.due import LAST_ROW, choose_rows, write_rows
from streams.engine.kernels.episode import BURN_RULES, EpisodeArrays, RuleLimits, as_arrays, no_episodes
from streams.engine.kernels.framing import BATCH, count_batches, frame_records, read_batches
from streams.engine.kernels.gpu_json import Batch, GpuColumns, drop_refused, parse_gpu
from streams.engine.kernels.gpu_keys import PLANES
from streams.engine.kernels.hour_sums import sum_hours
from streams.engine.kernels.idset import add_ids, insert_ids
from streams.engine.kernels.judge import find_jobs, holding, judge_jobs, notified_until_ms
from streams.engine.kernels.minutes import diff_minutes
from streams.engine.kernels.murmur import murmur2
from streams.engine.kernels.overlaps import overlaps
from streams.engine.kernels.packed_rows import pack_rows, unpack_rows
from streams.engine.kernels.rings import (
    chain_rows,
    drop_rows,
    ensure_rows,
    fill_cells,
    find_reaching,
    free_rows,
    read_cells,
    rows_at,
    rows_between,
    rows_of_pairs,
    seal_cells,
    set_newest,
    write_cells,
)
from streams.engine.kernels.sampled_minutes import minute_pieces
from streams.engine.kernels.skeletons import MOST_SPANS, Table, fill_skeletons
from streams.engine.kernels.skeletons import USED_SIZE as USED
from streams.engine.kernels.spans import ABSENT, SPAN, sum_up
from streams.engine.kernels.spread import spread
from streams.engine.kernels.steady import is_steady
from streams.engine.kernels.store import (
    BEGINNING_S,
    HOLDER,
    PLANE,
    ROW,
    SLOT,
    USED_SIZE,
    CoverageStore,
    Samples,
)
from streams.engine.kernels.usage_sums import COLUMNS, sum_blocks, sum_recent, sum_usage
from streams.engine.kernels.work_times import note_work_times


def compile_all() -> None:
    """Call each kernel once, on next to nothing."""
    for warm in GROUPS:
        warm()
    mark_compiled()


def _warm_money() -> None:
    one, line, flag = np.ones(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    pointers, cut = np.array([0, 1]), np.full(1, -(2**63))
    cost_of(1, 1, 1)
    cost_nano(one, one, one)
    bill_rows(line, one, one, one, one)
    lists = pointers, one, one * 2, one, flag
    diff_minutes(*lists, *lists)
    spread(flag, one, one, one, pointers, cut, line, 0, 1, one, one * 2)
    minute_pieces(np.ones((1, 60), np.uint16), pointers, line)


def _warm_hours() -> None:
    """One curve of one owner with one piece."""
    zero, one, line = np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.int32)
    pointers, lost = np.array([0, 1]), np.zeros(1, np.uint8)
    columns, sums = np.full((1, 6), -1, np.int32), np.zeros((1, 6), np.int64)
    sum_hours(pointers, zero, one, one, lost, line, one, one, columns, pointers, zero, one, zero, sums)
    overlaps(pointers, zero, one, zero, line, pointers, zero, one)


def _warm_spans() -> None:
    one, line, flag = np.ones(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    spans = np.full(1, ABSENT, SPAN)
    data = flag.copy()
    data.flags.writeable = False
    out = [one.copy() for _ in range(3)]
    sum_up(flag, line, line, one, one, one * 0, line.copy(), data, spans, line.copy(), *out)


def _warm_ids() -> None:
    lo, hi = np.zeros((2, 4), np.uint64)
    key, state = np.ones(1, np.uint64), np.zeros(2, np.int64)
    insert_ids(key, key, lo, hi, state)
    add_ids(key, key, lo, hi, state, lo, hi, state, np.empty(1, np.bool_))


def _warm_ticks() -> None:
    """Windows and rows of one job at one tick."""
    tick = np.zeros(1, np.int64)
    flat, deep = np.zeros((1, 1)), np.ones((1, 1, len(WINDOWS_MS)))
    no, longs = flat > 0, deep.astype(np.int64)
    curve = np.zeros(1, CURVE)
    curve["steps"] = 1
    steps, lumps, facts = np.zeros(1, STEP), np.zeros(1, LUMP), np.zeros(1, FACT)
    whole = flat.astype(np.int64)
    flags = deep > 0, no, no.copy(), no.copy(), whole, deep.copy(), deep.copy(), whole.copy()
    of_traffic = flat.copy(), flat.copy(), flat.copy()
    fill_figures(
        tick, curve, steps, lumps, facts, flat, flat.copy(), deep, deep.copy(), longs, *flags, *of_traffic
    )
    find_facts(curve, facts, 0, 0, 0, 0, tick.copy(), tick.copy())
    choose_rows(tick, flat, flat, no, deep, longs, tick, tick, np.zeros(1, LAST_ROW), no.copy())
    wide = deep[0].copy()
    one = flat[0].copy()
    taken = tick.copy(), tick.copy(), one, one, wide, wide.astype(np.int64), one
    write_rows(tick, no, flat, flat, deep, longs, deep, 0, 0, *taken)
    is_steady(tick.copy(), curve, steps, facts, tick, tick, one, 0, 0)
    tails = np.zeros(1, TAIL)
    lists = tick, tick, np.zeros((1, 60)), tick
    write_tails(tails, *lists, empty_store(), curve, steps, np.zeros(60, np.int64), np.zeros(2, STEP))


def _warm_rules() -> None:
    """Alerts of one job at one tick."""
    tick, job = np.zeros(1, np.int64), np.zeros(1, np.int32)
    flat, deep = np.zeros((1, 1)), np.ones((1, 1, len(WINDOWS_MS)))
    no, whole, longs = flat > 0, flat.astype(np.int64), deep.astype(np.int64)
    given = EpisodeArrays(
        flat, flat, deep, deep, deep, deep, longs, deep > 0, no, no, no, whole, whole, flat, flat, flat, flat[0], tick, tick
    )  # fmt: skip
    arrays = as_arrays(given, 1, 1, len(WINDOWS_MS))
    ratios, ones = np.ones((6, 1, BURN_RULES)), np.ones((7, 1))
    windows = np.array([1, 2, 3]), np.array([0, 1, 2])
    limits = RuleLimits._make((*windows, *ratios, ones[0], tick, tick, tick, tick, *ones[1:], tick))
    find_jobs(tick, limits, arrays, job, no_episodes(1))
    judge_jobs(tick, limits, arrays, job, job, no_episodes(1))
    holding(0, 0, tick, limits, arrays, no_episodes(1)[0])
    notified_until_ms(0, tick, limits, arrays, no_episodes(1)[0])


def _warm_framing() -> None:
    """A fetch of no batch, and a key."""
    murmur2(np.frombuffer(b"key", np.uint8))
    data, batches, places = np.zeros(1, np.uint8), np.zeros(0, BATCH), np.zeros(0, np.int64)
    data.flags.writeable = False
    count_batches(data)
    read_batches(data, batches)
    frame_records(data, batches, 0, places, places, places, np.zeros(0, np.int32), places)


def empty_store() -> CoverageStore:
    """One slot of one holder, room for one row, planes in use."""
    ring = np.zeros((1, 2), np.uint16)
    store = CoverageStore(
        slots=np.zeros(1, SLOT),
        ring=ring,
        sm_ring=ring.copy(),
        tensor_ring=ring.copy(),
        holders=np.zeros(1, HOLDER),
        rows=np.zeros(1, ROW),
        sm_rows=np.zeros(1, PLANE),
        tensor_rows=np.zeros(1, PLANE),
        counts=np.zeros((1, 60), np.uint16),
        cells=np.zeros(2, np.int32),
        group_ptr=np.array([0, 1]),
        group_slot=np.zeros(1, np.int32),
        dirty=np.zeros(1, np.int32),
        unexported=np.zeros(1, np.int32),
        unexported_slots=np.zeros(1, np.int32),
        used=np.zeros(USED_SIZE, np.int64),
    )
    store.slots["newest_s"] = store.slots["touched_s"] = BEGINNING_S
    store.holders["newest_row"] = -1
    return store


def _warm_gpu_json() -> None:
    line, flag = np.zeros(1, np.int32), np.zeros(1, np.uint8)
    wide = np.zeros(1, np.int64)
    data = flag.copy()
    data.flags.writeable = False
    spans, used = np.zeros(MOST_SPANS, np.int32), np.zeros(USED, np.int64)
    table = Table(
        np.zeros(2, np.int32), wide, wide, line, flag, line, line, line, line, spans, flag, used
    )  # fmt: skip
    out = GpuColumns(line, wide, wide, wide, line, np.zeros(2, np.int64), flag, np.zeros(PLANES), wide)
    parse_gpu(0, Batch(data, wide, line, wide), out, table)
    drop_refused(out, table)
    fill_skeletons(table)


def _warm_coverage() -> None:
    store = empty_store()
    slot, minute = np.zeros(1, np.int32), np.zeros(1, np.int32)
    second, row = np.zeros(1, np.int64), np.zeros(1, np.int64)
    values = np.ones(1, np.float64)
    samples = Samples(
        group=np.zeros(1, np.int32),
        begin_s=second,
        end_s=second + 1,
        value_ptr=np.array([0, 1]),
        util=values,
        sm=values,
        tensor=values,
        memory=values,
        power=values,
        late=np.zeros(1, np.int32),
        covers=np.zeros(1, np.uint8),
    )
    fold_samples(0, 1, 1, store, samples)
    note_work_times(0, 1, 1, store, samples, np.zeros(1, np.int64))
    cells = np.zeros(1, np.uint16)
    read_cells(slot, second, second, store.ring, cells)
    write_cells(slot, second, second, cells, store.slots, store.ring)
    set_newest(slot, second, second, False, store)
    ensure_rows(slot, minute, False, store, row)
    seal_cells(slot, second, 1, store.ring, 0)
    store.cells[:] = 0
    fill_cells(store)
    store.holders["newest_row"] = -1
    chain_rows(store)
    rows_between(second, 0, 1, store, row)
    rows_at(second, 0, 1, store, row)
    rows_of_pairs(second, second, store, row)
    free_rows(0, True, store)
    pointers, data = np.array([0, 1]), np.zeros(64, np.uint8)
    pack_rows(row * 0, pointers, store, data, pointers.copy())
    unpack_rows(data, pointers, second, store, row)
    sums = np.zeros((1, COLUMNS), np.int64)
    sum_usage(second, second, second + 1, second, 0, store, sums)
    sum_recent(second, second, 0, 1, values, store, sums, second)
    sum_blocks(second, second, 1, 1, store, np.zeros((1, 1, 2), np.int64))
    find_reaching(0, 1, 1, store, samples, second.copy(), second.copy(), second.copy())
    drop_rows(second, store)


GROUPS: Final[tuple[Callable[[], None], ...]] = (
    _warm_money, _warm_hours, _warm_ids, _warm_gpu_json, _warm_coverage, _warm_spans, _warm_ticks, _warm_rules, _warm_framing,
)  # fmt: skip
#: Those that take half of the time, which another process may compile meanwhile.
OTHER_HALF: Final = (_warm_coverage, _warm_gpu_json)
