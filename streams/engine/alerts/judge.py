"""Evaluates the alert rules of a shard's jobs over a range of ticks and returns the alerts that changed.

Its memory can be dumped and loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from schemas.durations import BEGINNING_MS, DAY_MS
from streams.engine.alerts.alert import Alert, HeldRow, alert_id, last_ms
from streams.engine.alerts.controls import NO_CONTROLS, Controls
from streams.engine.alerts.episodes import AS_OPENED, Episodes, Memory, Opening
from streams.engine.alerts.from_episode import EpisodeFigures, Rates, alert_of
from streams.engine.alerts.why_over import over_as_declared
from streams.engine.kernels.arrays import I64, Records
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import (
    BURN_RULES,
    BY_JOB,
    ENDED,
    HELD,
    OPENED,
    RAISED,
    RECOVERED,
    EpisodeArrays,
    as_arrays,
)
from streams.engine.kernels.judge import find_jobs, judge_jobs
from streams.engine.kernels.precedence import DEARER_RATIO
from streams.engine.rules.job_view import JobAt
from streams.engine.rules.profiles import Profile, Profiles
from streams.engine.rules.registry import JOB_RULES, NAMES
from streams.engine.rules.rule import DIGEST, JOB, TICKET, URGENCY, severity_of
from streams.engine.rules.shared_cause import of_sweep
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.windows.figures import WindowFigures

#: So long after an alert ended what it names is known if it has gone on since: longer than a burn, of which nobody can tell that.
_KNOWN_MS: Final = 7 * DAY_MS


def _unknown(_job_id: str, _at_ms: int) -> None:
    return None


class _KnownTicks(NamedTuple):
    """What is known at successive ticks."""

    ticks: I64
    figures: EpisodeArrays
    job_ids: Sequence[str]
    dimensions_of: Callable[[str], AlertDimensions]
    controls: Controls
    profiles: Profiles
    job_at: Callable[[str, int], JobAt | None]
    defer: Callable[[HeldRow], None] | None


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
        defer: Callable[[HeldRow], None] | None = None,
    ) -> list[Alert]:
        """The rows of the alerts that changed, in order of time.

        One row for each change of status, for a burn that becomes more urgent, and for the end of the silence of an alert that fires, with the figures of that
        tick; and for an alert that keeps firing at most one more, with the figures of the last tick at which it held (burn rules only). `job_at(job_id, at_ms)` is what the rules
        see of a job whose alert opens: its cause, and what is wasted. `defer` gets what could be a row of an alert that merely
        keeps firing, which is not among the rows then.

        Raises:
            ValueError: The ticks do not ascend.
        """
        ticks = np.asarray(times_ms, np.int64)
        if len(ticks) == 0 or len(job_ids) == 0:
            return []
        if len(ticks) > 1 and bool((ticks[1:] <= ticks[:-1]).any()):
            raise ValueError("ticks must rise")
        self._episodes.forget_before(int(ticks[0]))
        profiles = profiles or Profiles()
        arrays = as_arrays(_arrays(figures), len(ticks), len(job_ids), len(WINDOWS_MS), len(profiles))
        rows: list[Alert] = []
        first = 0
        for last in self._looks(ticks, controls):
            part = slice(first, last + 1)
            known = _KnownTicks(
                ticks[part],
                arrays if len(ticks[part]) == len(ticks) else _between(arrays, part),
                job_ids,
                dimensions_of,
                controls,
                profiles,
                job_at,
                defer,
            )
            rows += self._judge(known)
            first = last + 1
        return sorted(rows, key=_order)

    def _looks(self, ticks: I64, controls: Controls) -> list[int]:
        """After which ticks (positions) to look whether a silence of what fires is over; the last one is among them."""
        looks = {len(ticks) - 1}
        if controls.silences:
            ends_ms = controls.silence_ends(int(ticks[0]), int(ticks[-1]))
            looks.update(np.searchsorted(ticks, ends_ms).tolist())
        if self._episodes.any_silenced:
            looks.add(0)
        return sorted(looks)

    def _judge(self, known: _KnownTicks) -> list[Alert]:
        """Judge ticks between which no silence ends, and then say what is silenced no more."""
        arrays, limits = known.figures, known.profiles.limits
        places = self._episodes.places(known.job_ids)
        found = find_jobs(known.ticks, limits, arrays, places, self._episodes.lines)
        if len(found) == 0:
            return []
        lines = places[found]
        self._episodes.assign_lines([known.job_ids[k] for k in found.tolist()], lines)
        changes, shown = judge_jobs(known.ticks, limits, arrays, found, lines, self._episodes.lines)
        line_of = dict(zip(found.tolist(), lines.tolist(), strict=True))
        dimensions = {job: known.dimensions_of(known.job_ids[job]) for job in set(changes["job"].tolist())}
        rows: list[Alert] = []
        for (job, rule, kind, at_ms), episode in zip(changes.tolist(), shown.tolist(), strict=True):
            line, then = self._episodes.lines[line_of[job], rule], EpisodeFigures(*episode)
            if kind == HELD and known.defer is not None:
                known.defer(self._held(known, job, rule, at_ms, then, dimensions[job], line))
            else:
                rows.append(self._row(known, job, rule, kind, at_ms, then, dimensions[job], line))
        return rows + self._heard_again(known, line_of)

    def _row(
        self,
        known: _KnownTicks,
        job: int,
        rule: int,
        kind: int,
        at_ms: int,
        then: EpisodeFigures,
        dimensions: AlertDimensions,
        line: Records,
    ) -> Alert:
        """The row of a change; `line`: the episode as it is now, which keeps whether it is silenced."""
        job_id, settings = known.job_ids[job], known.profiles[int(known.figures.profile[job])]
        same_since = JOB_RULES[rule].same_since
        is_over = kind in (RECOVERED, ENDED)
        asks = kind in (OPENED, RAISED) or (kind == HELD and (rule < BURN_RULES or at_ms == then.fired_ms))
        at = known.job_at(job_id, at_ms) if asks or (is_over and same_since is not None) else None
        rates = _rates(known.figures, int(np.searchsorted(known.ticks, at_ms)), job) if asks else Rates()
        if kind == OPENED and then.firings == 1:
            begun = _opening(settings, rule, at, rates, dimensions)
            if same_since is not None and at is not None:
                before, wasted_nano = self._episodes.opening(job_id, rule), _wasted(rule, at, rates.now_nano)
                begun = _as_known(begun, before, wasted_nano, at_ms, same=same_since(at, then.cleared_ms))
            self._episodes.begin(job_id, rule, begun)
        opening = self._episodes.opening(job_id, rule)
        if same_since is not None and kind > RAISED:
            goes_on = is_over and at is not None and same_since(at, then.started_ms)
            opening = opening._replace(known_until_ms=at_ms + _KNOWN_MS if goes_on else BEGINNING_MS)
            self._episodes.begin(job_id, rule, opening)
            line["again_ms"] = opening.known_until_ms  # so long it is remembered
        severity = _severity(settings, rule, opening.severity, then.level)
        if kind != HELD:
            line["silenced"] = known.controls.silenced(dimensions, NAMES[rule], severity, at_ms)
        cause = "" if at is None or is_over else JOB_RULES[rule].cause(at)
        if kind == RECOVERED and rule >= BURN_RULES and _has_ended(known, job, at_ms):
            kind = ENDED
        row = alert_of(
            rule, kind, at_ms, then, bool(line["silenced"]), severity, dimensions, cause, rates, opening
        )
        return over_as_declared(row, known.controls, dimensions)

    def _held(
        self,
        known: _KnownTicks,
        job: int,
        rule: int,
        at_ms: int,
        then: EpisodeFigures,
        dimensions: AlertDimensions,
        line: Records,
    ) -> HeldRow:
        """The row of an alert that keeps firing; its cause is looked for when the row is made."""
        job_id, settings = known.job_ids[job], known.profiles[int(known.figures.profile[job])]
        opening = self._episodes.opening(job_id, rule)
        about = bool(line["silenced"]), _severity(settings, rule, opening.severity, then.level), dimensions
        rates, job_at = _rates(known.figures, int(np.searchsorted(known.ticks, at_ms)), job), known.job_at

        def row() -> Alert:
            at = job_at(job_id, at_ms)
            cause = "" if at is None else JOB_RULES[rule].cause(at)
            return alert_of(rule, HELD, at_ms, then, *about, cause, rates, opening)

        return HeldRow(job_id, alert_id(NAMES[rule], JOB, job_id, then.started_ms), at_ms, row)

    def _heard_again(self, known: _KnownTicks, line_of: Mapping[int, int]) -> list[Alert]:
        """The rows of alerts that fire after the last of these ticks, and that no silence covers any more."""
        if not self._episodes.any_silenced:
            return []
        at_ms, rows = int(known.ticks[-1]), list[Alert]()
        for job, place in line_of.items():
            lines = self._episodes.lines[place]
            for rule in np.flatnonzero((lines["open"] != 0) & (lines["silenced"] != 0)).tolist():
                job_id = known.job_ids[job]
                dimensions = known.dimensions_of(job_id)
                opened = self._episodes.opening(job_id, rule).severity
                level = int(lines[rule]["level"])
                severity = _severity(known.profiles[int(known.figures.profile[job])], rule, opened, level)
                if known.controls.silenced(dimensions, NAMES[rule], severity, at_ms):
                    continue
                lines[rule]["silenced"], lines[rule]["fired_ms"] = 0, at_ms
                then = EpisodeFigures(*lines[rule].item())
                rows.append(self._row(known, job, rule, HELD, at_ms, then, dimensions, lines[rule]))
        return rows

    @property
    def is_all_quiet(self) -> bool:
        """Whether no alert fires, and none was resolved recently enough to matter."""
        return not len(self._episodes)

    @property
    def any_fires(self) -> bool:
        """Whether any alert fires."""
        return self._episodes.any_open

    def notified_until_ms(self, job_ids: Sequence[str], at_ms: int) -> I64:
        """Until when runaway length tells no more of each of these jobs ([job] int64), as of a tick."""
        return self._episodes.notified_until_ms(job_ids, at_ms)

    def is_quiet(self, job_id: str) -> bool:
        """Whether no alert of the job fires, so that it may be left out of later ticks."""
        return not self._episodes.is_open(job_id)

    def fires(self, rule: int) -> bool:
        """Whether any alert of a rule fires."""
        return self._episodes.fires(rule)

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
    stood_ms = JOB_RULES[rule].stood(at)
    as_opened = _as_opened(settings, rule, at, rates.now_nano)
    return Opening(as_opened, shared, rates.now_nano, BEGINNING_MS if stood_ms is None else stood_ms)


def _as_known(opening: Opening, before: Opening, wasted_nano: int, at_ms: int, *, same: bool) -> Opening:
    """The opening of a fact that an alert of another attempt may have named: no second ticket, unless it is so much dearer.

    `same`: it has gone on since the one before ended.
    """
    ticket, digest = (1 + AS_OPENED.index(each) for each in (TICKET, DIGEST))
    is_known = same and at_ms < before.known_until_ms and wasted_nano < DEARER_RATIO * before.said_nano
    severity = digest if is_known and opening.severity == ticket else opening.severity
    said_nano = before.said_nano if severity == digest else wasted_nano
    return opening._replace(severity=severity, said_nano=said_nano)


def _between(figures: EpisodeArrays, ticks: slice) -> EpisodeArrays:
    """The figures of some of the ticks."""
    return figures._replace(
        **{name: array[ticks] for name, array in figures._asdict().items() if name not in BY_JOB}
    )


def _arrays(figures: WindowFigures) -> EpisodeArrays:
    return EpisodeArrays(*(getattr(figures, name) for name in EpisodeArrays._fields))


def _has_ended(known: _KnownTicks, job: int, at_ms: int) -> bool:
    """Whether the job had ended for good at a tick."""
    tick, figures = int(np.searchsorted(known.ticks, at_ms)), known.figures
    return bool(figures.ended[tick, job] and not figures.undecided[tick, job])


def _rates(figures: EpisodeArrays, tick: int, job: int) -> Rates:
    """What a job pays at a tick."""
    now, expected = float(figures.now_rate[tick, job]), float(figures.expected_rate[tick, job])
    return Rates(round(now), round(now - expected))


def _as_opened(settings: Profile, rule: int, at: JobAt, paid_nano_per_hour: int) -> int:
    """The severity of an episode that opens, as an episode keeps it."""
    waste, page_usd, of = JOB_RULES[rule].waste, JOB_RULES[rule].page_usd, settings.thresholds(rule)
    if waste is None:
        return 0
    page_from = None if page_usd is None else page_usd(at, of)
    severity = severity_of(settings.severity(rule), waste(at, paid_nano_per_hour), of, page_from)
    return 1 + AS_OPENED.index(severity)


def _wasted(rule: int, at: JobAt, paid_nano_per_hour: int) -> int:
    """What is wasted per hour at a tick; all that the job pays where the rule does not know it."""
    waste = JOB_RULES[rule].waste
    found = None if waste is None else waste(at, paid_nano_per_hour)
    return paid_nano_per_hour if found is None else found


def _severity(settings: Profile, rule: int, as_opened: int, level: int) -> str:
    """The severity of an episode: of rules that know what is wasted, that of its opening; of burn rules the kernel's."""
    if rule < BURN_RULES:
        return URGENCY[level]
    if JOB_RULES[rule].waste is None or not as_opened:
        return settings.severity(rule)
    return AS_OPENED[as_opened - 1]


def _order(row: Alert) -> tuple[int, str, int]:
    return last_ms(row), row.subject_name, NAMES.index(row.rule)
