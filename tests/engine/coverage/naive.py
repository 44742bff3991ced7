"""Coverage by a dict of seconds that never forgets: the slow, obvious twin."""

from __future__ import annotations

from collections import defaultdict

from schemas.events import GpuEvent

Slot = tuple[str, int, str, str]
RowKey = tuple[str, int, str, int]


class NaiveCoverage:
    """job_id, attempt, node, GPU -> second -> greatest permille, by plane."""

    def __init__(self, late_horizon_s: int) -> None:
        self.horizon_s = late_horizon_s
        self.newest_s: dict[Slot, int] = {}
        self.util: dict[Slot, dict[int, int]] = defaultdict(dict)
        self.sm: dict[Slot, dict[int, int]] = defaultdict(dict)
        self.tensor: dict[Slot, dict[int, int]] = defaultdict(dict)
        self.memory: dict[RowKey, int] = defaultdict(int)
        self.power: dict[RowKey, int] = defaultdict(int)
        self.late = 0

    def fold(self, event: GpuEvent) -> tuple[bool, bool]:
        """Whether all GPUs of the record were late, and whether it covers a second."""
        begin, end = (event.time_ms - event.interval_ms) // 1000, event.time_ms // 1000
        late = {
            gpu
            for gpu in event.gpus
            if begin < self.newest_s.get(self.slot(event, gpu), begin) - self.horizon_s
        }
        self.late += len(late)
        for place, gpu in enumerate(event.gpus):
            if gpu in late or end <= begin:
                continue
            slot = self.slot(event, gpu)
            for second in range(begin, end):
                raise_to(self.util[slot], second, event.util_ratio[place])
                if event.sm_ratio is not None:
                    raise_to(self.sm[slot], second, event.sm_ratio[place])
                if event.tensor_ratio is not None:
                    raise_to(self.tensor[slot], second, event.tensor_ratio[place])
                row = (*slot[:3], second // 60)
                if event.memory_used_mib is not None:
                    self.memory[row] = max(self.memory[row], round(event.memory_used_mib[place]))
                if event.power_w is not None:
                    self.power[row] = max(self.power[row], round(event.power_w[place]))
            self.newest_s[slot] = max(self.newest_s.get(slot, end - 1), end - 1)
        return bool(event.gpus) and late == set(event.gpus), end > begin and bool(set(event.gpus) - late)

    @staticmethod
    def slot(event: GpuEvent, gpu: str) -> Slot:
        """Whose GPU it is; without a job each GPU of a node has rows of its own."""
        if not event.job_id:
            return "", 0, f"{len(event.node)}:{event.node}{gpu}", gpu
        return event.job_id, event.attempt, event.node, gpu

    def rows(self) -> dict[RowKey, tuple[int, ...]]:
        """The eight figures of each row."""
        keys = {(*slot[:3], second // 60) for slot, seconds in self.util.items() for second in seconds}
        planes = [self.sums(plane) for plane in (self.util, self.sm, self.tensor)]
        return {
            key: (*planes[0][key], *planes[1][key], *planes[2][key], self.memory[key], self.power[key])
            for key in keys
        }

    def counts(self) -> dict[RowKey, list[int]]:
        """GPUs of jobs covering each second of the minute."""
        found: dict[RowKey, list[int]] = defaultdict(lambda: [0] * 60)
        for slot, seconds in self.util.items():
            for second in seconds if slot[0] else ():
                found[(*slot[:3], second // 60)][second % 60] += 1
        return dict(found)

    @staticmethod
    def sums(plane: dict[Slot, dict[int, int]]) -> dict[RowKey, tuple[int, int]]:
        """Covered seconds and the sum of their permille by row."""
        found: dict[RowKey, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for slot, seconds in plane.items():
            for second, permille in seconds.items():
                key = (*slot[:3], second // 60)
                found[key] = found[key][0] + 1, found[key][1] + permille
        return found


def raise_to(seconds: dict[int, int], second: int, ratio: float) -> None:
    """Max-merge."""
    seconds[second] = max(seconds.get(second, 0), round(ratio * 1000.0))
