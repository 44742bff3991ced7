"""What jobs on spot have saved: each beside the on-demand price, as `estimate --of` has it, added up by team."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streams.errors import TrainfareError
from streams.estimate.asking import ON_DEMAND, Records, ran_job, stored_book
from streams.estimate.elsewhere import Elsewhere, compared


class SpotSaved(NamedTuple):
    """What the jobs of a team saved and lost by preemptions, nano-dollars."""

    saved_nano: int = 0
    lost_nano: int = 0
    jobs: int = 0


def spot_saved(
    records: Records, jobs: Iterable[Mapping[str, object]]
) -> tuple[dict[str, SpotSaved], list[str]]:
    """By team what on demand would have cost more than spot did, and why jobs are left out, one text each.

    Args:
        records: Runs statements.
        jobs: `job_id` and `team` of each.
    """
    sums: dict[str, SpotSaved] = {}
    unknown: list[str] = []
    book, there = stored_book(records, ""), Elsewhere({"purchase": ON_DEMAND})
    for job in jobs:
        team, job_id = str(job["team"]), str(job["job_id"])
        try:
            found = compared(ran_job(records, job_id, there, book), there, book)
        except TrainfareError as fault:
            unknown.append(f"{job_id}: {fault}")
            continue
        known = sums.get(team, SpotSaved())
        sums[team] = SpotSaved(
            known.saved_nano + found.saved_nano, known.lost_nano + found.ran.lost_nano, known.jobs + 1
        )
    return sums, unknown
