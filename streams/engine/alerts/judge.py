"""Evaluates the alert rules of a shard's jobs over a range of ticks and returns the alerts that changed.

Its memory can be dumped and loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence

import numpy as np

from streams.engine.alerts.alert import Alert, last_ms
from streams.engine.alerts.controls import NO_CONTROLS, Controls
from streams.engine.alerts.episodes import Episodes, Memory, Opening
from streams.engine.alerts.from_episode import EpisodeFigures, Rates, alert_of
from streams.engine.kernels.arrays import I64, Records
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import BURN_RULES, HELD, OPENED, EpisodeArrays, as_arrays
from streams.engine.kernels.judge import find_jobs, judge_jobs
from streams.engine.rules.job_view import JobAt
from streams.engine.rules.profiles import Profile, Profiles
from streams.engine.rules.registry import JOB_RULES, NAMES
from streams.engine.rules.rule import SEVERITIES, severity_of
from streams.engine.rules.shared_cause import of_sweep
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.windows.figures import WindowFigures


def _unknown(_job_id: str, _at_ms: int) -> None:
    return None


class Judge:
    """The alerts of one shard. The same ticks and figures give the same alerts, however they are split into calls.

    The first ticks of successive calls must not go back in time: what has no effect after them is forgotten.
    """

    def __init__(self) -> None:
        self._episodes = Episodes()

    def judge(
        self,
        times_ms: Sequence[int] | I64,
        job_ids: Sequence[str],
        figures: WindowFigures,
        dimensions_of: Callable[[str], AlertDimensions],
        controls: Controls = NO_CONTROLS,
        profiles: Profiles | None = None,
        job_at: Callable[[str, int], JobAt | None] = _unknown,
    ) -> list[Alert]:
        """The rows of the alerts that changed, in order of time.

        One row for each change of status, with the figures of that tick; and for an alert that keeps firing at most one
        more, with the figures of the last tick at which it held (burn rules only). `job_at(job_id, at_ms)` is what the rules
        see of a job whose alert opens: its cause, and what is wasted.

        Raises:
            ValueError: The ticks do not ascend.
        """
        ticks = np.asarray(times_ms, np.int64)
        if len(ticks) == 0 or len(job_ids) == 0:
            return []
        if bool((np.diff(ticks) <= 0).any()):
            raise ValueError("ticks must rise")
        self._episodes.forget_before(int(ticks[0]))
        profiles = profiles or Profiles()
        limits = profiles.limits
        arrays = as_arrays(_arrays(figures), len(ticks), len(job_ids), len(WINDOWS_MS), len(profiles))
        places = self._episodes.places(job_ids)
        found = find_jobs(ticks, limits, arrays, places, self._episodes.lines)
        if len(found) == 0:
            return []
        lines = places[found]
        self._episodes.assign_lines([job_ids[k] for k in found.tolist()], lines)
        changes, shown = judge_jobs(ticks, limits, arrays, found, lines, self._episodes.lines)
        line_of = dict(zip(found.tolist(), lines.tolist(), strict=True))
        dimensions = {job: dimensions_of(job_ids[job]) for job in set(changes["job"].tolist())}
        rows: list[Alert] = []
        for (job, rule, kind, at_ms), episode in zip(changes.tolist(), shown.tolist(), strict=True):
            line = self._episodes.lines[line_of[job], rule]
            then, settings = EpisodeFigures(*episode), profiles[int(arrays.profile[job])]
            asks = kind == OPENED or (kind == HELD and rule < BURN_RULES)
            at = job_at(job_ids[job], at_ms) if asks else None
            rates = _rates(arrays, int(np.searchsorted(ticks, at_ms)), job) if asks else Rates()
            if kind == OPENED and then.firings == 1:
                self._episodes.begin(job_ids[job], rule, _opening(settings, rule, at, rates, dimensions[job]))
            opening = self._episodes.opening(job_ids[job], rule)
            severity = _severity(settings, rule, opening.severity)
            if kind != HELD:
                line["silenced"] = controls.silenced(dimensions[job], NAMES[rule], severity, at_ms)
            silenced = bool(line["silenced"])
            cause = "" if at is None else JOB_RULES[rule].cause(at)
            rows.append(
                alert_of(rule, kind, at_ms, then, silenced, severity, dimensions[job], cause, rates, opening)
            )
        return sorted(rows, key=_order)

    @property
    def is_all_quiet(self) -> bool:
        """Whether no alert fires, and none was resolved recently enough to matter."""
        return not len(self._episodes)

    @property
    def any_fires(self) -> bool:
        """Whether any alert fires."""
        return self._episodes.any_open

    def is_quiet(self, job_id: str) -> bool:
        """Whether no alert of the job fires, so that it may be left out of later ticks."""
        return not self._episodes.is_open(job_id)

    def firing_jobs(self, rules: Collection[int] = range(len(NAMES))) -> list[str]:
        """The jobs with a firing alert of these rules, whether or not they have a curve."""
        return self._episodes.open_jobs(sorted(rules))

    def firing_outside(self, inside: Container[str]) -> list[str]:
        """The jobs with a firing alert but these."""
        return self._episodes.open_outside(inside)

    def episodes_of(self, job_id: str) -> Records:
        """The episodes of a job ([rule]); empty ones if it has none."""
        return self._episodes.of(job_id)

    def dump(self) -> Memory:
        """The memory."""
        return self._episodes.dump()

    @classmethod
    def load(cls, memory: Memory) -> Judge:
        """Build a judge from a dumped memory."""
        judge = cls()
        judge._episodes = Episodes.load(memory)
        return judge


def _opening(settings: Profile, rule: int, at: JobAt | None, rates: Rates, job: AlertDimensions) -> Opening:
    """What an episode that opens keeps; `at`: None where nothing is known of the job."""
    if at is None:
        return Opening(opened_nano_per_hour=rates.now_nano)
    shared = JOB_RULES[rule].shares(at, job) or of_sweep(NAMES[rule], job)
    return Opening(_as_opened(settings, rule, at, rates.now_nano), shared, rates.now_nano)


def _arrays(figures: WindowFigures) -> EpisodeArrays:
    return EpisodeArrays(*(getattr(figures, name) for name in EpisodeArrays._fields))


def _rates(figures: EpisodeArrays, tick: int, job: int) -> Rates:
    """What a job pays at a tick."""
    now, expected = float(figures.now_rate[tick, job]), float(figures.expected_rate[tick, job])
    return Rates(round(now), round(now - expected))


def _as_opened(settings: Profile, rule: int, at: JobAt, paid_nano_per_hour: int) -> int:
    """The severity of an episode that opens, as an episode keeps it."""
    waste = JOB_RULES[rule].waste
    if waste is None:
        return 0
    severity = severity_of(settings.severity(rule), waste(at, paid_nano_per_hour), settings.thresholds(rule))
    return 1 + SEVERITIES.index(severity)


def _severity(settings: Profile, rule: int, as_opened: int) -> str:
    """The severity of an episode: of rules that know what is wasted, that of its opening."""
    if JOB_RULES[rule].waste is None or not as_opened:
        return settings.severity(rule)
    return SEVERITIES[as_opened - 1]


def _order(row: Alert) -> tuple[int, str, int]:
    return last_ms(row), row.subject_name, NAMES.index(row.rule)
