"""Judges the rules of a shard's jobs over ticks, and says which alerts changed.

It must not know where figures come from or what becomes of an alert; what it remembers can be dumped and loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streams.alerts.controls import NO_CONTROLS, Controls
from streams.alerts.dimensions import Dimensions
from streams.alerts.episodes import Episodes, Memory
from streams.alerts.evidence import burn_evidence, unpriced_evidence
from streams.alerts.notice import FIRING, RESOLVED, Alert, alert_id
from streams.alerts.rules import NAMES, SEVERITIES, SUBJECT_KIND, WINDOW_MS, limits
from streams.alerts.summary import Told, summary
from streams.kernels.arrays import I64, Records
from streams.kernels.bill import MAX_COST_NANO
from streams.kernels.burn import HOUR_MS, WINDOWS_MS
from streams.kernels.episode import HELD, OPENED, UNPRICED, Arrays, as_arrays
from streams.kernels.judge import find_jobs, judge_jobs
from streams.windows.figures import Figures


class Judge:
    """The alerts of one shard. The same ticks and figures give the same alerts, however they are cut into calls.

    The first ticks of calls must not go back in time: what has no effect after them is forgotten.
    """

    def __init__(self) -> None:
        self._limits = limits()
        self._episodes = Episodes()

    def judge(
        self,
        times_ms: Sequence[int] | I64,
        job_ids: Sequence[str],
        figures: Figures,
        dimensions_of: Callable[[str], Dimensions],
        controls: Controls = NO_CONTROLS,
    ) -> list[Alert]:
        """The rows of the alerts that changed, in order of time.

        One for each change of status, with what was so at that tick; and for an alert that goes on firing at most
        one more, with the figures of the last tick at which it held (of a burn rule; `unpriced` has none).
        """
        ticks = np.asarray(times_ms, np.int64)
        if len(ticks) == 0 or len(job_ids) == 0:
            return []
        if bool((np.diff(ticks) <= 0).any()):
            raise ValueError("ticks must rise")
        self._episodes.sweep(int(ticks[0]))
        arrays = as_arrays(_arrays(figures), len(ticks), len(job_ids), len(WINDOWS_MS))
        places = self._episodes.places(job_ids)
        found = find_jobs(self._limits, arrays, places, self._episodes.lines)
        if len(found) == 0:
            return []
        lines = places[found]
        self._episodes.make_places([job_ids[k] for k in found.tolist()], lines)
        changes, shown = judge_jobs(ticks, self._limits, arrays, found, lines, self._episodes.lines)
        line_of = dict(zip(found.tolist(), lines.tolist(), strict=True))
        dimensions = {job: dimensions_of(job_ids[job]) for job in set(changes["job"].tolist())}
        rows: list[Alert] = []
        for (job, rule, kind, at_ms), episode in zip(changes.tolist(), shown.tolist(), strict=True):
            line = self._episodes.lines[line_of[job], rule]
            if kind != HELD:
                line["silenced"] = controls.silenced(dimensions[job], NAMES[rule], SEVERITIES[rule], at_ms)
            then = Remembered(NAMES[rule], *episode)._replace(...)
            rows.append(_alert(rule, kind, at_ms, episode, bool(line["silenced"]), dimensions[job]))
        return sorted(rows, key=_order)

    def is_quiet(self, job_id: str) -> bool:
        """Whether no alert of the job fires, so that it may be left out of the ticks to come."""
        return not self._episodes.is_open(job_id)

    def firing_jobs(self) -> list[str]:
        """The jobs that any alert fires for, seen lately or not."""
        return self._episodes.open_jobs()

    def dump(self) -> Memory:
        """All that is remembered."""
        return self._episodes.dump()

    @classmethod
    def load(cls, memory: Memory) -> Judge:
        """A judge that goes on where another was dumped."""
        judge = cls()
        judge._episodes = Episodes.load(memory)
        return judge


def _arrays(figures: Figures) -> Arrays:
    return Arrays(
        figures.cost_nano,
        figures.expected_nano,
        figures.elapsed_ms,
        figures.paid_whole,
        figures.ended,
        figures.unpriced,
    )


def _alerts(
    changes: Records,
    shown: Records,
    found: Sequence[int],
    ids: Sequence[str],
    lines: Records,
    dimensions_of: Callable[[str], Dimensions],
    controls: Controls,
) -> list[Alert]:
    """Rows in order of time; `lines` learn which alerts are silenced."""
    line_of = {job: line for line, job in enumerate(found)}
    dimensions = {job: dimensions_of(ids[line_of[job]]) for job in set(changes["job"].tolist())}
    rows: list[Alert] = []
    for change, episode in zip(changes, shown, strict=True):
        job, rule, kind, at_ms = change.item()
        line = lines[line_of[job], rule]
        if kind != HELD:
            line["silenced"] = controls.silenced(dimensions[job], NAMES[rule], SEVERITIES[rule], at_ms)
        rows.append(_alert(rule, kind, at_ms, episode, bool(line["silenced"]), dimensions[job]))
    order = {name: place for place, name in enumerate(NAMES)}
    return sorted(rows, key=lambda row: (last_ms(row), row.subject_name, order[row.rule]))


def last_ms(row: Alert) -> int:
    """The tick of the row."""
    return max(row.held_ms, row.changed_ms)


def _alert(
    rule: int, kind: int, at_ms: int, episode: np.void, silenced: bool, dimensions: Dimensions
) -> Alert:
    name, job_id = NAMES[rule], dimensions.job_id
    started_ms, held_ms = int(episode["started_ms"]), int(episode["held_ms"])
    cost_nano, expected_nano = _nano(episode["cost_nano"]), _nano(episode["expected_nano"])
    elapsed_ms = int(episode["elapsed_ms"])
    told = Told(
        rule=name,
        kind=kind,
        started_ms=started_ms,
        at_ms=at_ms,
        firings=int(episode["firings"]),
        usd_nano_per_hour=_per_hour(episode["cost_nano"], elapsed_ms),
        expected_nano_per_hour=_per_hour(episode["expected_nano"], elapsed_ms),
        cost_nano=cost_nano,
        expected_nano=expected_nano,
        elapsed_ms=elapsed_ms,
        # Without the last bits, which say in which pieces the costs were added up.
        ratio=0.0 if rule == UNPRICED else round(float(episode["cost_nano"] / episode["expected_nano"]), 9),
        short_ratio=float(episode["short_ratio"]),
    )
    fires = kind in (OPENED, HELD)
    return Alert(
        alert_id=alert_id(name, SUBJECT_KIND, job_id, started_ms),
        rule=name,
        severity=SEVERITIES[rule],
        status=FIRING if fires else RESOLVED,
        subject_kind=SUBJECT_KIND,
        subject_name=job_id,
        owner=dimensions.owner,
        team=dimensions.team,
        project=dimensions.project,
        started_ms=started_ms,
        resolved_ms=None if fires else at_ms,
        ratio=told.ratio,
        usd_nano_per_hour=told.usd_nano_per_hour,
        expected_nano_per_hour=told.expected_nano_per_hour,
        cost_nano=cost_nano,
        window_ms=WINDOW_MS[rule],
        summary=summary(told, dimensions),
        evidence_sql=unpriced_evidence(job_id)
        if rule == UNPRICED
        else burn_evidence(job_id, held_ms, WINDOW_MS[rule], told.expected_nano_per_hour),
        held_ms=held_ms,
        changed_ms=int(episode["fired_ms"]) if fires else at_ms,
        firings=told.firings,
        silenced=silenced,
    )


def _nano(value: float) -> int:
    """Whole nano-dollars, capped to what the tables hold."""
    return min(round(float(value)), MAX_COST_NANO)


def _per_hour(cost_nano: float, elapsed_ms: int) -> int:
    return _nano(cost_nano * HOUR_MS / elapsed_ms) if elapsed_ms > 0 else 0
