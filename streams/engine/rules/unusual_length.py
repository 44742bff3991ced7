"""`unusual_length`: a job has run for far longer than the p99 of similar completed jobs. Times are ms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS, NEVER_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, span
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.similar_jobs import OWN_JOBS, TEAM, Similarity, jobs_of, similarities_of

NAME: Final = "unusual_length"
#: Similar jobs that count: the last ones that were completed so recently.
HISTORY_JOBS: Final = 1_000
HISTORY_MS: Final = 30 * 24 * HOUR_MS
#: A job is compared with its team only if it holds no more than so many times the GPUs of the team's median job, nor less.
ALIKE: Final = 4


class RunTime(NamedTuple):
    """How long a job has run; `ended_ms` is 0 unless it is completed."""

    job_id: str
    team: str
    experiment: str
    wall_ms: int
    ended_ms: int
    gpu_milli: int = 0


class UsualLength(NamedTuple):
    """The p99 of similar jobs: 99 % of the last ones ran for so long at most; of fewer than 100 it is the longest."""

    similarity: Similarity
    p99_ms: int


class Lengths:
    """Completed jobs by similarity, in the order in which they ended."""

    def __init__(self, completed: Iterable[RunTime], hours: Sequence[int], jobs_least: int) -> None:
        """Take what was completed; `hours` are the instants that will be asked for, ascending."""
        self._hours = hours
        self._jobs_least = jobs_least
        self._of: dict[Similarity, list[tuple[int, str, int, int]]] = {}
        self._known: dict[tuple[Similarity, int, int], _CountedLengths] = {}
        self._least: dict[Similarity, int] = {}
        for job in completed:
            for similarity in similarities_of(job.job_id, job.team, job.experiment):
                self._of.setdefault(similarity, []).append(
                    (job.ended_ms, job.job_id, job.wall_ms, job.gpu_milli)
                )
        for similar in self._of.values():
            similar.sort()

    def usual(self, job: RunTime, at_ms: int) -> UsualLength | None:
        """Return what is usual for the narrowest similarity with enough jobs that were completed before.

        None: of none, or only of a team whose jobs are of other kinds: the job's own has a history, or most are far larger
        or smaller.
        """
        has_kind = False
        for similarity in similarities_of(job.job_id, job.team, job.experiment):
            known = self._p99(similarity, at_ms)
            if similarity.by == TEAM and (has_kind or not _alike(job.gpu_milli, known.gpu_milli)):
                return None
            if known.jobs >= self._jobs_least:
                return UsualLength(similarity, known.p99_ms)
            has_kind |= known.jobs >= OWN_JOBS
        return None

    def may_exceed(self, job: RunTime, factor: float) -> bool:
        """Return False if the job has not run for longer than was usual at any of the instants, for any of its similarities."""
        similarities = similarities_of(job.job_id, job.team, job.experiment)
        return any(
            job.wall_ms > factor * self._least_p99(similarity)
            for similarity in similarities
            if similarity in self._of
        )

    def _least_p99(self, similarity: Similarity) -> int:
        if similarity not in self._least:
            found = [self._p99(similarity, at_ms) for at_ms in self._hours]
            enough = [known.p99_ms for known in found if known.jobs >= self._jobs_least]
            self._least[similarity] = min(enough, default=NEVER_MS)
        return self._least[similarity]

    def _p99(self, similarity: Similarity, at_ms: int) -> _CountedLengths:
        similar = self._of.get(similarity, [])
        end = bisect_left(similar, (at_ms, "", 0, 0))
        begin = max(bisect_left(similar, (at_ms - HISTORY_MS, "", 0, 0)), end - HISTORY_JOBS)
        # Not by the instant: the same jobs count for many hours.
        known = self._known.get((similarity, begin, end))
        if known is None:
            lengths = sorted(wall_ms for _, _, wall_ms, _ in similar[begin:end])
            gpus = sorted(gpu_milli for *_, gpu_milli in similar[begin:end])
            known = _CountedLengths(0, 0, 0)
            if lengths:
                known = _CountedLengths(
                    len(lengths), lengths[-(-99 * len(lengths) // 100) - 1], gpus[len(gpus) // 2]
                )
            self._known[similarity, begin, end] = known
        return known


class _CountedLengths(NamedTuple):
    """How many jobs count, the p99 of their run times, and the median of their GPUs."""

    jobs: int
    p99_ms: int
    gpu_milli: int


def _alike(gpu_milli: int, of_team_milli: int) -> bool:
    """Whether a job is about as large as half of its team's."""
    least, most = sorted((gpu_milli, of_team_milli))
    return most <= ALIKE * least


def finding(
    of: LedgerSettings, job: RunTime, usual: UsualLength, row: Mapping[str, Any], owner: str, project: str
) -> LedgerFinding:
    """Return the sentence and the evidence of an hour in which a job had run for so long."""
    cost_nano, ratio = int(row["usd"].scaleb(9)), row["wall_ms"] / usual.p99_ms
    return LedgerFinding(
        NAME, of.severity, "job", job.job_id, row["at_ms"],
        sentence(lambda at_most: f"{short(job.job_id, at_most)} has run for {span(row['wall_ms'])} and {rounded_usd(cost_nano)},"
            f" 99 % of {jobs_of(usual.similarity, at_most)} took {span(usual.p99_ms)} at most; stop it if it no longer makes progress"),
        f"SELECT * FROM cost_hours WHERE job_id = {quoted(job.job_id)} ORDER BY hour",
        ratio, 0, cost_nano, owner, job.team, project, margins=(*margins(of.thresholds, usual, row),),
    )  # fmt: skip


def margins(of: Mapping[str, float], usual: UsualLength, row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a job's run time and cost are beyond the thresholds."""
    return [
        from_threshold_on(
            "run time / p99 of similar jobs (above)", row["wall_ms"] / usual.p99_ms, of["factor"]
        ),
        from_threshold_on("dollars that it has cost", float(row["usd"]), of["least_usd"]),
    ]


RULE: Final = LedgerRule(
    name=NAME,
    title="Longer than usual",
    severity=TICKET,
    about="`job`",
    holds=(
        "it has run for more than twice the p99 of at least 20 similar completed jobs, and has cost at least "
        "$10. It is judged in hours in which the job ran, and stays in those in which it did not"
    ),
    runbook="ledger_rules.md#unusual_length",
    thresholds={
        "factor": Threshold(2, 1.1, 1e6, "its run time / p99 of those of similar completed jobs"),
        "jobs": Threshold(20, 1, 1000, "similar jobs that were completed before", True),
        "least_usd": Threshold(10, 0.01, 1e9, "dollars that it has cost"),
    },
    each="job",
    finding=finding,
    margins=margins,
)
