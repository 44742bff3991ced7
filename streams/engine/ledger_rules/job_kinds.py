"""What kind of job a job is, by its names: which others it may be compared with.

It must not know what is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SUFFIX: Final = re.compile(r"(?:[-_.:/][^-_.:/]*[0-9][^-_.:/]*)+$")


class JobKind(NamedTuple):
    """What jobs of a team have in common: an experiment, the beginning of their names, or the team only."""

    team: str
    by: str
    name: str


def kinds_of(job_id: str, team: str, experiment: str) -> Iterator[JobKind]:
    """Yield the kinds of a job, the narrowest first."""
    if experiment:
        yield JobKind(team, "experiment", experiment)
    if stem := _SUFFIX.sub("", job_id):
        yield JobKind(team, "name", stem)
    yield JobKind(team, "team", team)
