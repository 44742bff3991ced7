"""What was seen during a soak, and what it comes to: slopes of memory, audits, canaries, one line at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.soak_world import Look

#: An audit that is not in order counts against the meter only if this few records were behind.
CAUGHT_UP = 20_000
_CANARY_COUNTS = ("runs", "wrong", "late")
_VERDICT_S = 40.0  # a verdict may be so old when it is shown


class Point(NamedTuple):
    """One measurement."""

    at_s: float
    value: float


def slope_percent(points: Sequence[Point]) -> float | None:
    """By how much the straight line through the points rises from first to last, in % of its start; None: too few."""
    if len(points) < 3:
        return None
    mean_s = sum(each.at_s for each in points) / len(points)
    mean = sum(each.value for each in points) / len(points)
    spread = sum((each.at_s - mean_s) ** 2 for each in points)
    if spread == 0:
        return None
    per_s = sum((each.at_s - mean_s) * (each.value - mean) for each in points) / spread
    begin = mean + per_s * (points[0].at_s - mean_s)
    end = mean + per_s * (points[-1].at_s - mean_s)
    return 100 * (end - begin) / begin if begin > 0 else None


@dataclass
class Watch:
    """Everything seen so far."""

    memory: dict[tuple[str, int], list[Point]] = field(default_factory=dict)  # by worker and life
    audits_ok: int = 0
    audits_wrong_behind: int = 0
    audits_wrong: list[str] = field(default_factory=list)  # once caught up
    audits_none: int = 0
    ready: int = 0
    not_ready: int = 0
    lag_max: int = 0
    backlog_max_mib: float = 0.0
    behind_s: float = -1e9  # when it was last seen behind
    canary: Counter[str] = field(default_factory=Counter)  # what its counters rose by, of all workers
    _canary_last: dict[tuple[str, int], Mapping[str, float]] = field(default_factory=dict)

    def seen(self, at_s: float, name: str, life: int, look: Look, lag: int | None) -> None:
        """One worker, looked at."""
        if look.rss_mib is not None:
            self.memory.setdefault((name, life), []).append(Point(at_s, look.rss_mib))
        if look.canary:
            self._count(look.canary, self._canary_last.get((name, life), {}))
            self._canary_last[name, life] = look.canary
        self.backlog_max_mib = max(self.backlog_max_mib, look.backlog_mib or 0.0)
        self.lag_max = max(self.lag_max, lag or 0)
        if lag is None or lag > CAUGHT_UP:
            self.behind_s = at_s
        if look.ready:
            self.ready += 1
        else:
            self.not_ready += 1
        if look.audit_ok is None:
            self.audits_none += 1
        elif look.audit_ok:
            self.audits_ok += 1
        elif at_s - self.behind_s < _VERDICT_S:
            self.audits_wrong_behind += 1
        else:
            self.audits_wrong.append(f"{at_s:.0f} s {name}: {'; '.join(look.findings[:3])}")

    def _count(self, now: Mapping[str, float], before: Mapping[str, float]) -> None:
        """A counter that fell began anew: the canary left this worker and came back."""
        for word in _CANARY_COUNTS:
            name = f"trainfare_canary_{word}_total"
            value, last = now.get(name, 0.0), before.get(name, 0.0)
            self.canary[word] += int(value - last if value >= last else value)

    def slopes(self, warm_up_s: float) -> dict[str, float]:
        """Rise of memory after the warm-up in %, of each life that was looked at for a while."""
        found: dict[str, float] = {}
        for (name, life), points in self.memory.items():
            warm = [each for each in points if each.at_s >= warm_up_s]
            slope = slope_percent(warm)
            if slope is not None:
                found[f"{name}.{life}"] = round(slope, 2)
        return found


def line(at_s: float, sent: int, lag: int | None, looks: Mapping[str, Look], fault: str) -> str:
    """What a person watches."""
    rss = " ".join(
        f"{name} {'-' if look.rss_mib is None else format(look.rss_mib, '.0f')}"
        for name, look in looks.items()
    )
    ready = sum(look.ready is True for look in looks.values())
    audits = [look.audit_ok for look in looks.values()]
    audit = f"{sum(each is True for each in audits)} ok {sum(each is False for each in audits)} not"
    canary = {
        word: int(sum(look.canary.get(f"trainfare_canary_{word}_total", 0) for look in looks.values()))
        for word in _CANARY_COUNTS
    }
    told = "/".join(str(count) for count in canary.values())
    behind = "?" if lag is None else f"{lag:,}"
    return (
        f"{at_s:6.0f} s  sent {sent:,}  lag {behind}  MiB {rss}  ready {ready}/{len(looks)}  audit {audit}  "
        f"canary {told}" + (f"  | {fault}" if fault else "")
    )
