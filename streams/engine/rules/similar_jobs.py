"""Which jobs are similar, by their names: what a job may be compared with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from streams.engine.rules.formatting import short

#: The running number at the end of a name, as a regular expression of Python and of ClickHouse.
NUMBER: Final = r"(?:[-_.:/][^-_.:/]*[0-9][^-_.:/]*)+$"
_SUFFIX: Final = re.compile(NUMBER)


#: From so many earlier jobs on, a kind of jobs (an experiment, a name) has a history of its own: a job of it is not compared
#: with its whole team, which does other things.
OWN_JOBS: Final = 2
TEAM: Final = "team"


class Similarity(NamedTuple):
    """What jobs of a team have in common: an experiment, the beginning of their names, or the team only."""

    team: str
    by: str
    name: str


def stem_of(job_id: str) -> str:
    """The name without the endings that have a digit, which number the jobs of a kind: `test-12`, `test-x7f2k`."""
    return _SUFFIX.sub("", job_id)


def similarities_of(job_id: str, team: str, experiment: str) -> Iterator[Similarity]:
    """Yield what a job may have in common with others, the narrowest first."""
    if experiment:
        yield Similarity(team, "experiment", experiment)
    if stem := stem_of(job_id):
        yield Similarity(team, "name", stem)
    yield Similarity(team, TEAM, team)


def jobs_of(similarity: Similarity, at_most: int) -> str:
    """Return words for its jobs."""
    if similarity.by == "name":
        return f"jobs named {short(similarity.name, at_most)}"
    if similarity.by == "team" and not similarity.name:
        return "jobs without a team"
    return f"jobs of {similarity.by} {short(similarity.name, at_most)}"
