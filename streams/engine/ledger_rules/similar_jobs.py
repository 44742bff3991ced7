"""Which jobs are similar, by their names: what a job may be compared with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SUFFIX: Final = re.compile(r"(?:[-_.:/][^-_.:/]*[0-9][^-_.:/]*)+$")


class Similarity(NamedTuple):
    """What jobs of a team have in common: an experiment, the beginning of their names, or the team only."""

    team: str
    by: str
    name: str


def similarities_of(job_id: str, team: str, experiment: str) -> Iterator[Similarity]:
    """Yield what a job may have in common with others, the narrowest first."""
    if experiment:
        yield Similarity(team, "experiment", experiment)
    if stem := _SUFFIX.sub("", job_id):
        yield Similarity(team, "name", stem)
    yield Similarity(team, "team", team)
