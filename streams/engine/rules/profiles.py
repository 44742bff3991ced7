"""The settings of all rules for one job, and the arrays of them that the kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.arrays import F64
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.conditions import CLEARS_BELOW
from streams.engine.kernels.episode import IDLE_GPUS, RUNAWAY, SILENT, TRAFFIC, RuleLimits
from streams.engine.rules.burn_rule import RATIO_DIGITS
from streams.engine.rules.registry import BURN_RULES, JOB_RULES, NAMES
from streams.engine.rules.rule import PAGE, PAGE_FROM, TICKET_FROM

_NO_RATIO: Final = 1e6


class RuleSettings(NamedTuple):
    """One rule as it applies to a job; thresholds in the order of the rule's definition."""

    enabled: bool
    severity: str
    thresholds: tuple[float, ...]


class Profile(NamedTuple):
    """The settings of all rules, by the kernel's number of the rule."""

    rules: tuple[RuleSettings, ...]

    def threshold(self, rule: int, name: str) -> float:
        """Return a threshold of a rule.

        Raises:
            ValueError: The rule has no such threshold.
        """
        return self.rules[rule].thresholds[list(JOB_RULES[rule].thresholds).index(name)]

    def thresholds(self, rule: int) -> Mapping[str, float]:
        """Return all thresholds of a rule by name."""
        return _by_name(rule, self.rules[rule].thresholds)

    def by_name(self) -> dict[str, Mapping[str, float]]:
        """Return the thresholds of every rule by its name."""
        return {rule.name: self.thresholds(number) for number, rule in enumerate(JOB_RULES)}

    def severity(self, rule: int) -> str:
        """Return the severity of a rule."""
        return self.rules[rule].severity


@lru_cache(maxsize=4096)
def _by_name(rule: int, thresholds: tuple[float, ...]) -> Mapping[str, float]:
    return MappingProxyType(dict(zip(JOB_RULES[rule].thresholds, thresholds, strict=True)))


DEFAULT: Final = Profile(
    tuple(
        RuleSettings(rule.enabled, rule.severity, tuple(each.default for each in rule.thresholds.values()))
        for rule in JOB_RULES
    )
)


class Profiles:
    """Profiles by number; the first is the default."""

    __slots__ = ("_number", "_profiles", "limits")

    def __init__(self) -> None:
        self._profiles: list[Profile] = [DEFAULT]
        self._number: dict[Profile, int] = {DEFAULT: 0}
        self.limits = limits_of(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def __getitem__(self, number: int) -> Profile:
        return self._profiles[number]

    def number(self, profile: Profile) -> int:
        """Return the number of a profile; a new one is added."""
        known = self._number.get(profile)
        if known is None:
            known = self._number[profile] = len(self._profiles)
            self._profiles.append(profile)
            self.limits = limits_of(self._profiles)
        return known


def limits_of(profiles: Sequence[Profile]) -> RuleLimits:
    """Return the thresholds of all profiles for the kernels."""

    def burn(name: str) -> F64:
        return np.array(
            [[each.threshold(rule, name) for rule in range(len(BURN_RULES))] for each in profiles],
            np.float64,
        )

    def whole(rule: int, name: str, unit: int) -> list[int]:
        return [round(each.threshold(rule, name) * unit) for each in profiles]

    # Of whole numbers NumPy would make integers, for which the kernels are not compiled.
    return RuleLimits(
        long_window=np.array([WINDOWS_MS.index(rule.long_ms) for rule in BURN_RULES], np.int64),
        short_window=np.array([WINDOWS_MS.index(rule.short_ms) for rule in BURN_RULES], np.int64),
        long_ratio=burn("long_ratio"),
        short_ratio=burn("short_ratio"),
        clear_ratio=np.round(burn("short_ratio") * CLEARS_BELOW, RATIO_DIGITS),
        extra_nano=burn("extra_usd") * NANO_PER_USD,
        ticket_nano=burn(TICKET_FROM) * NANO_PER_USD,
        page_nano=burn(PAGE_FROM) * NANO_PER_USD,
        least_ratio=np.array([_least_ratio(each) for each in profiles], np.float64),
        enabled=np.array(
            [sum(1 << rule for rule in range(len(NAMES)) if each.rules[rule].enabled) for each in profiles],
            np.int64,
        ),
        pages=np.array(
            [
                sum(1 << rule for rule in range(len(NAMES)) if each.severity(rule) == PAGE)
                for each in profiles
            ],
            np.int64,
        ),
        longest_ms=np.array(whole(RUNAWAY, "hours", HOUR_MS), np.int64),
        grace_ms=np.array(whole(RUNAWAY, "grace_minutes", MINUTE_MS), np.int64),
        traffic_nano=np.array(
            [each.threshold(TRAFFIC, "usd_per_hour") * NANO_PER_USD for each in profiles], np.float64
        ),
        traffic_ratio=np.array([each.threshold(TRAFFIC, "ratio") for each in profiles], np.float64),
        traffic_start_times=np.array(
            [each.threshold(TRAFFIC, "start_times") for each in profiles], np.float64
        ),
        traffic_repeated_ratio=np.array(
            [each.threshold(TRAFFIC, "repeated_ratio") for each in profiles], np.float64
        ),
        traffic_dear_nano=np.array(
            [each.threshold(TRAFFIC, PAGE_FROM) * NANO_PER_USD for each in profiles], np.float64
        ),
        idle_ratio=np.array([each.threshold(IDLE_GPUS, "productive_ratio") for each in profiles], np.float64),
        silent_ms=np.array(whole(SILENT, "minutes", MINUTE_MS), np.int64),
    )


def _least_ratio(profile: Profile) -> float:
    """Return the least ratio of cost to expected cost at which a burn rule can open: it must reach both of its ratios."""
    ratios = [
        max(profile.threshold(rule, "long_ratio"), profile.threshold(rule, "short_ratio"))
        for rule in range(len(BURN_RULES))
        if profile.rules[rule].enabled
    ]
    return min(ratios, default=_NO_RATIO)
