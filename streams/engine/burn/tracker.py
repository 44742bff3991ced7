"""Tracks the burn rates of a shard's live jobs: at each tick the window sums, burn rate rows and alerts.

Ticks and the prices and controls known at them are handed in; nothing is stored, sent or timed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from schemas.durations import MINUTE_MS, NEVER_MS
from schemas.tables import ALERTS, BURN_RATES
from streams.engine.alerts.alert import HeldRow
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.episodes import Memory
from streams.engine.alerts.judge import Judge
from streams.engine.alerts.unstored import UnstoredAlerts
from streams.engine.burn.curve_extension import DETAIL_MS, CurveExtension
from streams.engine.burn.expiry_queue import ExpiryQueue
from streams.engine.burn.job_at import job_at
from streams.engine.burn.job_curve import JobCurve
from streams.engine.burn.liveness import Liveness
from streams.engine.burn.margins import RuleMargins, job_margins
from streams.engine.burn.reference_news import ReferenceNews, TrackedJobs, repriced_jobs
from streams.engine.kernels.arrays import F64, I64
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import IDLE_GPUS, TICK_MS, UNPRICED
from streams.engine.ledger.gpu_rates import GpuRates
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import KnownReference, ReferenceView, Standing
from streams.engine.repricing.price_changes import PriceChanges, index_job
from streams.engine.rules.facts import facts_of, heard_rows
from streams.engine.rules.idle_check import IdleGpus, mark_idle
from streams.engine.rules.job_view import JobAt
from streams.engine.rules.profiles import Profiles
from streams.engine.rules.registry import JOB_RULES, NAMES
from streams.engine.rules.turns import turn_of
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import dimensions_of, is_fresh
from streams.engine.windows.burn_rows import BurnRows, RowPolicy, ticks_with_rows
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.figures import WindowFigures


class BurnTrackerBlob(msgspec.Struct):
    """What a restore cannot derive from the jobs themselves."""

    judge: Memory
    stored_ms: dict[str, int]  # ticks of stored alerts that are ahead of the snapshot


_BY_PROGRESS: Final = (NAMES.index("stalled"), NAMES.index("slow_progress"))
#: Ticks x jobs of one kernel call: enough to make it worthwhile, few enough for heartbeats in between.
_CELLS_PER_CALL: Final = 200_000
_ROWS_AT_MOST: Final = 200_000
#: An expired job may stay for this long: past ticks are judged in as few calls as possible.
_LINGER_MS: Final = 60 * MINUTE_MS
#: So long before a tick it is prepared: a checkpoint or two.
_BEFORE_TICK_MS: Final = 1_500
#: After this time no window contains anything of a job.
_DRAINED_MS: Final = WINDOWS_MS[-1] + 20 * MINUTE_MS  # including the row of zeros after it


class BurnTracker:
    """The live jobs of a shard."""

    def __init__(self) -> None:
        self._curves = CurveBook()
        self._policy = RowPolicy()
        self._liveness = Liveness(self._curves)
        self._profiles = Profiles()
        self._idle = IdleGpus()
        self._judge = Judge()
        self._jobs: dict[str, JobCurve] = {}
        # Of jobs that left all windows after several attempts: kept for the next one.
        self._dormant: dict[str, JobCurve] = {}
        self._lacking: set[str] = set()  # jobs that left all windows with usage that has no price
        self._changed: set[str] = set()
        # Those of them with a lifecycle event, and those with new amounts.
        self._lifecycle: set[str] = set()
        self._amounts: set[str] = set()
        self._rare_amounts: set[str] = set()  # of which no more are expected before the next tick
        self._built: set[str] = set()  # jobs whose curves were built since the last tick
        self._prepared_ms = 0  # the tick that was last prepared
        # The last instant whose rows are chosen, while the curves are still those of then; NEVER_MS: there is none.
        self._chosen_ms = NEVER_MS
        self._expiry_queue = ExpiryQueue()
        self._book: PriceBook | None = None
        self._rates: GpuRates | None = None  # of that book
        self._standing: Standing | None = None
        self._controls = Controls.from_events(())
        self._curve_controls = self._controls  # the first ones with these planned rates and rules
        self._dimensions: dict[str, AlertDimensions] = {}
        self._rows = BurnRows()
        self.alerts = UnstoredAlerts()

    @property
    def jobs_live(self) -> int:
        """Return how many jobs have anything in a window."""
        return len(self._curves)

    @property
    def rows_waiting(self) -> int:
        """Return how many burn rates wait for the next checkpoint."""
        return self._rows.count

    @property
    def is_due(self) -> bool:
        """Return whether anything waits for the next checkpoint."""
        return bool(self._rows.count or self.alerts)

    @property
    def is_storing_urgent(self) -> bool:
        """Return whether more rows wait than memory should hold."""
        return self.rows_waiting > _ROWS_AT_MOST

    @property
    def job_ids(self) -> tuple[str, ...]:
        """Return the jobs with anything in a window; the same object until a job is added or removed."""
        return self._curves.job_ids

    def minutes(self, job_id: str, first: int, count: int, book: PriceBook) -> F64 | None:
        """Return the cost of the job in each of `count` minutes from `first` on ([count] float64, nano-dollars).

        None while the windows lag behind the ledger: the job or the prices changed since its curve was built.
        """
        if job_id in self._changed or book is not self._book or job_id not in self._curves:
            return None
        return self._curves.minutes(job_id, first, count)

    def touch(self, job_id: str, *, lifecycle: bool = False, amounts_ms: int | None = None) -> None:
        """Record a change of the job.

        `lifecycle`: by a lifecycle event, which is shown before the next tick. `amounts_ms`: by amounts of such an interval;
        as short ones may come each second, the curve is built for them shortly before the tick, for long ones at once: all
        together would be late.
        """
        self._changed.add(job_id)
        if lifecycle:
            self._lifecycle.add(job_id)
        elif amounts_ms is not None:
            self._amounts.add(job_id)
            if amounts_ms >= TICK_MS:
                self._rare_amounts.add(job_id)

    def mark_alive(self, job_ids: Collection[str]) -> None:
        """Record samples of these jobs that change no cost."""
        self._changed.update(self._liveness.changed_by_samples(job_ids))

    def restored(self, job_id: str) -> None:
        """Record that the job was restored: which of its rows were written is unknown."""
        self._changed.add(job_id)
        self._policy.forget_row(job_id)

    def awaits(self, job_id: str, book: PriceBook) -> bool:
        """Return whether ticks must still judge the job.

        It changed since the last tick; or it has a firing alert, judged by what its windows still contain, which a new
        owner would not have of an archived job; or a price changed, which may open or resolve an alert.
        """
        if job_id in self._changed or job_id in self._built:
            return True
        in_windows, fires = job_id in self._jobs, not self._judge.is_quiet(job_id)
        return (in_windows and fires) or (book is not self._book and (in_windows or fires))

    def switched_off(self, until_ms: int, view: ReferenceView) -> list[str]:
        """Return the jobs with a firing alert of a rule that is switched off, for some jobs, by a control new at this tick."""
        standing = view.controls_at(until_ms)
        if standing is self._standing or self._judge.is_all_quiet:
            return []
        rules = Controls.from_events(each for each in standing.values() if each.kind == "rule").rules
        off = {each.rule for each in rules if each.enabled is False}
        # An alert of a rule that is off by default may fire since before an upgrade, or since it was switched on.
        on = {each.rule for each in rules if each.enabled and not each.match}
        off |= {number for number, rule in enumerate(JOB_RULES) if not rule.enabled} - on
        return self._judge.firing_jobs(off) if off else []

    def judge(self, tracked: TrackedJobs, first_ms: int, last_ms: int, view: ReferenceView) -> None:
        """Judge the ticks first_ms ... last_ms, between which the shard folded nothing.

        What becomes known between them without an effect on these jobs, such as prices of other zones, does not cut the
        ticks that are judged at once, and is read with what comes after it.
        """
        tick_ms = begin_ms = first_ms  # the ticks before `begin_ms` are judged
        while tick_ms <= last_ms:
            known = view.at(tick_ms)
            news = self._news(tracked, known)
            if tick_ms == first_ms or news.matters:
                self._judge_stretch(tracked, begin_ms, tick_ms - TICK_MS)
                self._adopt(known, news)
                self._refresh(tracked, tick_ms, self._changed)
                self._changed, self._lifecycle, self._amounts = set(), set(), set()
                self._rare_amounts, self._built = set(), set()
                begin_ms = tick_ms
            else:
                self._adopt(known, news)
            change_ms = known.until_ms  # any price may resolve the alert of a job that has no curve
            if not self._judge.firing_outside(self._jobs):
                change_ms = view.next_change_ms(last_ms, tracked.price_index.asking)
            tick_ms = -(-change_ms // TICK_MS) * TICK_MS
        known = view.at(last_ms)
        self._adopt(known, self._news(tracked, known))
        self._judge_stretch(tracked, begin_ms, last_ms)

    def _judge_stretch(self, tracked: TrackedJobs, first_ms: int, last_ms: int) -> None:
        """Judge ticks at which nothing becomes known that matters here."""
        tick_ms = first_ms
        while tick_ms <= last_ms:
            until_ms = last_ms
            if self._curves:
                leaving_ms = self._expiry_queue.next_ms + _LINGER_MS
                until_ms = min(until_ms, max(tick_ms, leaving_ms // TICK_MS * TICK_MS))
                most = max(_CELLS_PER_CALL // len(self._curves), 1)
                until_ms = min(until_ms, tick_ms + (most - 1) * TICK_MS)
                self._move_silences(tracked, tick_ms, until_ms)
                self._judge_ticks(tracked, np.arange(tick_ms, until_ms + 1, TICK_MS, dtype=np.int64))
            self._retire(until_ms)
            self.alerts.judged(until_ms)
            tick_ms = until_ms + TICK_MS

    def write_interim_rates(self, tracked: TrackedJobs, now_ms: int, known: KnownReference) -> None:
        """Write burn rates of jobs that changed since the last tick, as of an instant between two ticks.

        Before a tick it is prepared, since all its work at once would delay its alerts: the curves of jobs with new amounts
        are built, and, shortly before it, the jobs whose turn it will be are checked.
        """
        next_ms = (now_ms // TICK_MS + 1) * TICK_MS
        is_before_tick = next_ms - now_ms <= _BEFORE_TICK_MS
        if is_before_tick and next_ms != self._prepared_ms:
            self._prepared_ms = next_ms
            self._move_silences(tracked, next_ms, next_ms)
            IdleGpus.note_productive(self._curves, tracked.coverage, next_ms, self._profiles)
        amounts = self._amounts if is_before_tick else self._rare_amounts
        if not self._lifecycle and not amounts:
            return
        self._adopt(known, self._news(tracked, known))
        moved = self._refresh(tracked, now_ms, self._lifecycle)
        self._refresh(tracked, now_ms, amounts - self._lifecycle)
        built = self._lifecycle | amounts
        self._built |= built
        self._changed -= built
        self._lifecycle = set()
        self._amounts -= built
        self._rare_amounts = set()
        if moved:  # else only heartbeats were heard
            self._write(np.array([now_ms], np.int64))
            self._chosen_ms = NEVER_MS

    def _move_silences(self, tracked: TrackedJobs, first_ms: int, last_ms: int) -> None:
        """Move the silences that seem to hold at these ticks, or begin before the next turn of their jobs."""
        for job in self._liveness.postpone(tracked.jobs, self._profiles, first_ms, last_ms):
            self._set_facts(job)

    def _judge_ticks(self, tracked: TrackedJobs, times_ms: I64) -> None:
        idle = self._idle.find(self._curves, tracked.jobs, tracked.coverage, times_ms, self._profiles)
        if not idle and self._goes_on(times_ms):
            return
        if len(times_ms) > 2 and not self._judge.any_fires and not idle:
            # What begins or ends at the first tick has a row there and at the next one.
            for first in range(2):
                if self._is_steady(int(times_ms[first]), int(times_ms[-1])):
                    self._write(times_ms[ticks_with_rows(times_ms, first)])
                    self._chosen_ms = int(times_ms[-1])
                    return  # no alert is open, and none can open
        figures = self._write(times_ms)
        if idle or self._judge.fires(IDLE_GPUS):
            mark_idle(figures.facts, times_ms, self._curves.turns, idle)
        views, held = partial(self._job_at, tracked), list[HeldRow]()
        known = self._dimensions.__getitem__, self._controls, self._profiles, views, held.append
        self.alerts.add_all(self._judge.judge(times_ms, self._curves.job_ids, figures, *known), held)

    def _goes_on(self, times_ms: I64) -> bool:
        """Write the rows of these ticks if nothing changed since the tick before, or changes at any; return whether that is so.

        Rows are due at whole minutes only, no alert can open, and none fires that could clear.
        """
        before_ms, last_ms = int(times_ms[0]) - TICK_MS, int(times_ms[-1])
        if self._chosen_ms != before_ms or self._judge.any_fires:
            return False
        if not self._is_steady(before_ms, last_ms):
            return False
        if len(whole := times_ms[times_ms % MINUTE_MS == 0]):
            self._write(whole)
        self._chosen_ms = last_ms
        return True

    def _is_steady(self, first_ms: int, last_ms: int) -> bool:
        notified_ms, limits = self._judge.notified_until_ms, self._profiles.limits
        return self._curves.is_steady(first_ms, last_ms, notified_ms, limits.longest_ms, limits.least_ratio)

    def _job_at(self, tracked: TrackedJobs, job_id: str, at_ms: int) -> JobAt | None:
        """What the rules see of a job; None: it has left the windows."""
        curve, job = self._jobs.get(job_id), tracked.jobs.get(job_id)
        if curve is None:
            return None
        settings, first_paid_ms = self._profiles[curve.profile].by_name(), self._curves.first_paid_ms(job_id)
        idle = self._idle.use(job_id, at_ms)
        return job_at(at_ms, job, curve, settings, self._book, first_paid_ms, idle, tracked.coverage)

    def margins(self, tracked: TrackedJobs, job_id: str, at_ms: int) -> list[RuleMargins]:
        """Return how far each rule about a job is from firing at a tick that was judged last; nothing if it has no curve."""
        at, episodes = self._job_at(tracked, job_id, at_ms), self._judge.episodes_of(job_id)
        if at is None or at.job is None:
            return []
        number = self._jobs[job_id].profile
        return job_margins(self._curves, tracked.coverage, self._profiles, number, episodes, at)

    def margins_as_of(
        self, tracked: TrackedJobs, job_id: str, at_ms: int, known: KnownReference
    ) -> list[RuleMargins]:
        """Judge nothing, but tell the same of a restored job, with these prices and controls."""
        self._adopt(known, self._news(tracked, known))
        self._refresh(tracked, at_ms, [job_id])
        self._move_silences(tracked, at_ms, at_ms)
        return self.margins(tracked, job_id, at_ms)

    def _write(self, times_ms: I64) -> WindowFigures:
        """Return the figures at these instants; queue the rows for the next checkpoint."""
        job_ids = self._curves.job_ids
        figures = self._curves.figures(times_ms)
        self._rows.add(times_ms, job_ids, figures, self._policy.choose(times_ms, job_ids, figures))
        self._chosen_ms = int(times_ms[-1])
        return figures

    def _news(self, tracked: TrackedJobs, known: KnownReference) -> ReferenceNews:
        """Return what these prices and controls change; nothing is changed yet.

        All jobs with a curve after a change of planned rates or rules: silences and addresses are read when an alert
        changes. The affected ones after a change of prices.
        """
        left: list[str] = []
        repriced: dict[str, list[int]] = {}
        if known.book is not self._book:
            left = self._judge.firing_outside(self._jobs)
            changes = PriceChanges.between(known.book if self._book is None else self._book, known.book)
            repriced = repriced_jobs(tracked, changes, self._known_curve)
        controls = None
        if known.controls is not self._standing:
            # Invalid controls are reported where owners' addresses are read.
            controls = Controls.from_events(known.controls.values())
        return ReferenceNews(left, repriced, controls)

    def _known_curve(self, job_id: str) -> JobCurve | None:
        """What is cached of a job, also of one that left all windows."""
        return self._jobs.get(job_id) or self._dormant.get(job_id)

    def _adopt(self, known: KnownReference, news: ReferenceNews) -> None:
        """Go on with these prices and controls, and mark the jobs to update."""
        if known.book is not self._book:
            self._adopt_book(known.book)
        for job_id, touched in news.repriced.items():
            curve = self._known_curve(job_id)
            if curve is not None:
                curve.reprice(touched)
        self._changed.update(news.left, news.repriced)
        if news.controls is not None:
            is_first, self._standing = self._standing is None, known.controls
            self._controls = news.controls
            if not is_first and self._controls.is_alike_for_curves(self._curve_controls):
                return
            self._curve_controls = self._controls
            self._changed.update(self._jobs)
            self._changed.update(self._judge.firing_jobs())
            if any(each.rule == UNPRICED and each.enabled for each in self._controls.rules):
                self._changed.update(self._lacking)

    def _adopt_book(self, book: PriceBook) -> None:
        previous, self._book = self._book, book
        if previous is None or self._rates is None or self._rates.is_full:
            self._rates = GpuRates(book)
            for curve in self._jobs.values():
                curve.forget_rate()
        self._rates.book = book

    def _refresh(self, tracked: TrackedJobs, now_ms: int, job_ids: Iterable[str]) -> bool:
        """Build the curves of changed jobs; return whether there were any."""
        assert self._rates is not None  # a tick always comes with prices
        tails = CurveExtension(self._rates, tracked.coverage, now_ms)
        moved = False
        for job_id in sorted(job_ids):
            job = tracked.jobs.get(job_id)
            if job is not None and self._set_curve(job, tracked, tails):
                moved = True
                self._chosen_ms = NEVER_MS
        tails.store(self._curves)
        return moved

    def _set_curve(self, job: JobState, tracked: TrackedJobs, tails: CurveExtension) -> bool:
        controls = self._curve_controls
        index_job(tracked.price_index, job)
        curve = self._jobs.get(job.id)
        if curve is None:
            kept = self._dormant.pop(job.id, None)
            self._lacking.discard(job.id)
            curve = self._jobs[job.id] = JobCurve(turn=turn_of(job.id)) if kept is None else kept
        elif (
            self._liveness.is_heard_first(job)
            or self._liveness.is_silent_sooner(job, self._profiles[curve.profile])
            or curve.may_stand_otherwise(job)
        ):
            self._set_facts(job)
        if curve.is_read(job, controls):
            if curve.tail is not None and tails.prolong(job, curve.tail, self._curves):
                curve.behind = True
                return True
            if not is_fresh(job):
                return False
            self.alerts.settle(job.id)
            if curve.add_amounts(job, self._curves, tails.rates.book, tails.now_ms):
                self._expiry_queue.schedule(job.id, max(self._drained_ms(job.id), tails.now_ms))
                return True
        curve.mark_read(job, controls)
        dimensions = self._dimensions[job.id] = dimensions_of(job)
        planned = controls.planned_for(dimensions)
        differs, whole = curve.may_differ(job, planned), False
        if differs:
            self.alerts.settle(job.id)
            whole = curve.update(job, tracked.coverage, tails, self._curves, planned)
            self._liveness.track(job)
        profile = controls.profile_for(dimensions, job.dimensions().labels)
        curve.profile = self._profiles.number(profile)
        since_ms, unpriced = tails.now_ms - DETAIL_MS, curve.unpriced_ms
        curve.facts = facts_of(job, curve.lines, profile, unpriced, planned, curve.breaks, since_ms)
        self._set_facts(job)
        drained_ms = curve.newest_ms() + _DRAINED_MS if whole else self._drained_ms(job.id)
        self._expiry_queue.schedule(job.id, max(drained_ms, tails.now_ms))
        return differs

    def _set_facts(self, job: JobState) -> None:
        """Set when the conditions of the job's rules hold, as far as is known."""
        curve = self._jobs[job.id]
        heard = heard_rows(job, job.timelines(), curve.lines, self._profiles[curve.profile])
        facts = curve.facts
        self._liveness.store_wait(job, self._profiles[curve.profile])
        curve.mark_paced(job, stands=any(each.rule in _BY_PROGRESS for each in heard))
        self._curves.set_facts(job.id, (*facts.rows, *heard), facts.deadline_ms, curve.profile, curve.turn)

    def _drained_ms(self, job_id: str) -> int:
        """Return when no window contains anything of the job and its row of zeros is written; NEVER_MS: it is open."""
        # Amounts that cost nothing are not in the curve: a later price may make them dear.
        amounts_ms = self._jobs[job_id].amounts.until_ms
        last_ms = max(
            self._curves.last_ms(job_id) + _DRAINED_MS,
            self._curves.facts_until_ms(job_id) + TICK_MS,
            amounts_ms + _DRAINED_MS,
        )
        return min(last_ms, NEVER_MS)

    def _retire(self, judged_ms: int) -> None:
        """Drop the curves of expired jobs."""
        for job_id in self._expiry_queue.pop_due(judged_ms, self._drained_ms):
            self.alerts.settle(job_id)
            self._curves.drop(job_id)
            self._policy.drop(job_id)
            self._liveness.drop(job_id)
            curve = self._jobs.pop(job_id)
            if min(curve.unpriced_ms) < NEVER_MS:
                self._lacking.add(job_id)
            if len(curve.lines) > 1:
                curve.rest()
                self._dormant[job_id] = curve
            del self._dimensions[job_id]

    def leave(self, job_id: str) -> None:
        """The job is about to leave memory: keep its curve until it expires, drop what it was built from (events, prices)."""
        self.alerts.settle(job_id)
        self._dormant.pop(job_id, None)
        self._lacking.discard(job_id)
        if job_id in self._jobs:
            self._jobs[job_id] = JobCurve(turn=turn_of(job_id))

    def tables(self, shard: int, version: int) -> dict[str, pa.Table]:
        """Return the waiting rows under this version, and forget them."""
        tables: dict[str, pa.Table] = {}
        if (rows := self._rows.drain(shard, version)) is not None:
            tables[BURN_RATES] = rows
        if self.alerts:
            tables[ALERTS] = self.alerts.drain_rows(shard, version)
        return tables

    def dump(self) -> BurnTrackerBlob:
        """Return what a restore needs beside the jobs."""
        return BurnTrackerBlob(self._judge.dump(), self.alerts.dump())

    def load(self, blob: BurnTrackerBlob) -> None:
        """Set the state from a snapshot; the jobs must be touched separately.

        The snapshot does not record which burn rates are written, so a row or two of each job is written again.
        """
        self._judge = Judge.load(blob.judge)
        self._chosen_ms = NEVER_MS
        self._policy = RowPolicy()
        self.alerts = UnstoredAlerts()
        self.alerts.mark_stored(blob.stored_ms)
