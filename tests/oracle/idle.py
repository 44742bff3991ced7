"""When the GPUs of a job idle, as docs/rules.md has it, minute by minute.

Must import nothing of the project; costs are in the SCALE-ths of `burn`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.intake import Sample
from tests.oracle.model import HOUR_MS, MINUTE_MS
from tests.oracle.rows import largest_by_minute, usage

#: (attempt, node) -> minute -> sampled GPU-ms, productive ones, those of them in which multiprocessors may have worked, and whether these are sampled.
UsedByNode = dict[tuple[int, str], dict[int, tuple[int, int, int, bool]]]
BLOCK = 10


def used_by_node(samples: Iterable[Sample]) -> UsedByNode:
    """GPU-time by attempt, node and minute."""
    of_node: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        of_node[sample.attempt, sample.node].append(sample)
    found: UsedByNode = {}
    for key, mine in of_node.items():
        sm = largest_by_minute((sample, sample.sm) for sample in mine)
        found[key] = {
            minute: (
                1000 * row.sampled_gpu_s,
                row.productive_gpu_ms,
                # "busy time in which they do a tenth of it or less counts as nothing"
                0
                if sm.get(minute, (0, 0))[0] and 10 * sm[minute][1] <= row.productive_gpu_ms
                else row.productive_gpu_ms,
                bool(sm.get(minute, (0, 0))[0]),
            )
            for minute, row in usage(mine).items()
            if row.sampled_gpu_s
        }
    return found


#: (attempt, node, GPU) -> its samples: first and last second, and thousandths of work.
UsedByGpu = Mapping[tuple[int, str, str], Sequence[tuple[int, int, int]]]


def used_by_gpu(samples: Iterable[Sample]) -> UsedByGpu:
    """What each GPU did."""
    found: dict[tuple[int, str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for sample in samples:
        for gpu, permille in sample.permille.items():
            if sample.first_s < sample.end_s:
                found[sample.attempt, sample.node, gpu].append((sample.first_s, sample.end_s, permille))
    return found


class IdleView(NamedTuple):
    """A job up to an instant: its use, since when it is paid, what it had cost by when, and what it held."""

    end_ms: int
    used: UsedByNode
    paid_since_ms: int
    cost_until: Callable[[int], int]
    scale: int
    held: Sequence[tuple[int, int, int]]
    limits: Mapping[str, Fraction]
    interactive: bool
    not_running: Sequence[tuple[int, int]] = ()
    gpus: UsedByGpu = {}  # noqa: RUF012 - nobody changes it

    @property
    def end(self) -> int:
        return self.end_ms // MINUTE_MS

    @property
    def wait(self) -> int:
        """In blocks of ten minutes."""
        return -int(-self.limits["interactive_minutes" if self.interactive else "minutes"] // BLOCK)

    def sums(self, lo: int, hi: int) -> tuple[int, int]:
        """The sampled and productive ms of the minutes [lo, hi)."""
        found = [row for rows in self.used.values() for minute, row in rows.items() if lo <= minute < hi]
        return sum(row[0] for row in found), sum(row[1] for row in found)

    def without_waiting(self) -> IdleView:
        """The same, where busy time in which multiprocessors do nothing is none, unless 90 % of the job is busy."""
        lows = {
            minute
            for minute in {minute for rows in self.used.values() for minute in rows}
            if 10 * self.sums(minute, minute + 1)[1] < 9 * self.sums(minute, minute + 1)[0]
        }
        waits = self.waits()
        used = {
            key: {
                m: (s, 0 if m in waits else at_work if m in lows else p, 0, known)
                for m, (s, p, at_work, known) in rows.items()
            }
            for key, rows in self.used.items()
        }
        return self._replace(used=used)

    def waits(self) -> set[int]:
        """The minutes in which one GPU of all is busy without a break and the others do nothing, where multiprocessors are not sampled."""
        of_minute: dict[int, list[tuple[int, int, int, bool]]] = defaultdict(list)
        for rows in self.used.values():
            for minute, row in rows.items():
                of_minute[minute].append(row)
        found = set()
        for minute, of in of_minute.items():
            sampled, productive = (sum(row[place] for row in of) for place in (0, 1))
            is_one = 59_700 <= productive <= 60_300 and not any(row[3] for row in of)
            if is_one and productive < self.limits["productive_ratio"] * sampled:
                found.add(minute)
        return found

    def cost(self, lo: int) -> int:
        """What accrued from a minute on."""
        return self.cost_until(self.end_ms) - self.cost_until(lo * MINUTE_MS)

    def covered(self, lo: int) -> bool:
        """Whether most of the time held from a minute on is sampled."""
        a_ms = lo * MINUTE_MS
        held = sum(milli * max(0, min(b, self.end_ms) - max(a, a_ms)) for a, b, milli in self.held)
        sampled, _ = self.sums(lo, self.end)
        return sampled > 0 and 2 * 1000 * sampled >= held

    def longest_phase(self, hi: int) -> int:
        """For how many sampled minutes it idled between two of work, in the six hours before the end and before `hi`."""
        longest = run = 0
        has_worked = False
        for minute in range(self.end - 360, hi):
            a, b = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
            sampled, productive = self.sums(minute, minute + 1)
            if not sampled or any(a < end and start < b for start, end in self.not_running):
                continue
            if productive >= self.limits["productive_ratio"] * sampled:
                longest, run, has_worked = max(longest, run), 0, True
            elif has_worked:
                run += 1
        return longest

    def idle_blocks(self) -> int:
        """How many blocks before the end were idle and paid, one after another."""
        for block in range(30):
            hi = self.end - BLOCK * block
            sampled, productive = self.sums(hi - BLOCK, hi)
            if self.paid_since_ms > (hi - BLOCK) * MINUTE_MS:
                return block
            if not sampled or productive >= self.limits["productive_ratio"] * sampled:
                return block
        return 30


def _is_long(view: IdleView) -> bool:
    blocks = view.idle_blocks()
    usual = min(3 * view.longest_phase(view.end - BLOCK * blocks), 2 * 180)
    if blocks >= view.wait and 2 * BLOCK * blocks >= usual and view.covered(view.end - BLOCK * view.wait):
        lo = view.end - BLOCK * blocks
        sampled, productive = view.sums(lo, view.end)
        idle = Fraction(view.cost(lo) * (sampled - productive), sampled)
        return idle >= view.limits["least_usd"] * 10**9 * view.scale
    return False


def idles(view: IdleView) -> bool:
    """Whether the rule holds."""
    blocks = view.idle_blocks()
    if _is_long(view):
        return True
    if blocks > 0 and not view.interactive and _fallen(view):
        return True
    return _is_unused(view)


def _unused(view: IdleView) -> tuple[list[tuple[str, str]], int, int]:
    """ "Single GPUs of it did nothing for 2 h while others worked": which, of how many, and since which second."""
    end_s = view.end * 60
    there = {key: spans for key, spans in view.gpus.items() if max(b for _, b, _ in spans) - 1 >= end_s - 600}
    newest = max((attempt for attempt, _, _ in there), default=0)
    worked = {
        (node, gpu): max([spans[0][0], *(b for _, b, permille in spans if permille >= 20)])
        for (attempt, node, gpu), spans in there.items()
        if attempt == newest
    }
    nodes = {node for node, _ in worked}
    rest = [key for key, at_s in worked.items() if at_s <= end_s - view.limits["gpu_minutes"] * 60]
    for node in nodes if len(nodes) > 1 else ():
        if 2 * sum(key[0] == node for key in rest) > sum(key[0] == node for key in worked):
            rest = [key for key in rest if key[0] != node]
    if not 0 < len(rest) < len(worked):
        return [], len(worked), 0
    return rest, len(worked), max(worked[key] for key in rest)


def _is_unused(view: IdleView) -> bool:
    rest, of, since_s = _unused(view)
    since_ms = max(since_s * 1000, view.paid_since_ms)
    if not rest or (view.end_ms - since_ms) // MINUTE_MS < view.limits["gpu_minutes"]:
        return False
    cost = view.cost_until(view.end_ms) - view.cost_until(max(since_ms, view.end_ms - 300 * MINUTE_MS))
    return Fraction(cost * len(rest), of) >= view.limits["least_usd"] * 10**9 * view.scale


def idle_part(view: IdleView) -> Fraction:
    """The idle part of the GPUs' time in the wait; all of it where they fell to nothing before it was over; the GPUs that are unused."""
    if not _is_long(view) and not (view.idle_blocks() and not view.interactive and _fallen(view)):
        rest, of, _ = _unused(view)
        return Fraction(len(rest), of)
    if view.idle_blocks() < view.wait:
        return Fraction(1)
    sampled, productive = view.sums(view.end - BLOCK * view.wait, view.end)
    return Fraction(sampled - productive, sampled)


def _fallen(view: IdleView) -> bool:
    rate = Fraction(view.cost(view.end - BLOCK) * HOUR_MS, BLOCK * MINUTE_MS)
    if rate < view.limits["page_usd_per_hour"] * 10**9 * view.scale:
        return False
    waits, view = view.waits(), view.without_waiting()
    minutes = {m: view.sums(m, m + 1) for m in range(view.end - 360, view.end)}
    sampled = [m for m, (s, _) in minutes.items() if s]
    works = [m for m in sampled if minutes[m][1] >= Fraction(2, 100) * minutes[m][0]]
    # "30 min after its first sample if they did not work yet": of this run of the job
    ran = max(-(-view.paid_since_ms // MINUTE_MS), view.end - 360)
    quiet = [m for m in sampled if m >= ran and (not works or m > works[-1])]
    if not quiet:
        return False
    begin = quiet[0]
    before = view.sums(max(begin - 10, ran), begin)
    is_start = not any(ran <= m < begin for m in sampled)
    nodes = [
        [row for minute, row in rows.items() if begin <= minute < view.end] for rows in view.used.values()
    ]
    return (
        view.end - begin >= view.limits["start_minutes" if is_start else "fallen_minutes"]
        and 2 * (view.end - begin) >= 3 * view.longest_phase(begin)
        and (is_start or (before[0] > 0 and 2 * before[1] >= before[0]))
        and (is_start or 100 * before[1] <= 98 * before[0] or all(minute < begin for minute in waits))
        and all(50 * sum(row[1] for row in rows) <= sum(row[0] for row in rows) for rows in nodes)
        and view.covered(begin)
    )
