"""What is asked of Ray's dashboard at a poll."""

from __future__ import annotations

from typing import Final, NamedTuple

from streams.collect.http_source import OutsideApi

JOBS: Final = "/api/jobs/"
#: The page of actors reads this; of all answers, it alone says since when an actor runs.
ACTORS: Final = "/logical/actors"
#: Ray lists at most 10,000 of each.
GROUPS: Final = "/api/v0/placement_groups?detail=1&limit=10000"
TASKS: Final = (
    "/api/v0/tasks?detail=1&limit=10000&filter_keys=type&filter_predicates=%3D&filter_values=NORMAL_TASK"
)
NODES: Final = "/api/v0/nodes?detail=1&limit=10000"


class RayAnswers(NamedTuple):
    """The answers of one poll, as Ray gave them; None: not asked for."""

    jobs: bytes
    actors: bytes
    nodes: bytes
    groups: bytes | None
    tasks: bytes | None


def ask(source: OutsideApi, *, reserved: bool, tasks: bool) -> RayAnswers:
    """What Ray says now.

    Jobs come first: what another answer says of a job that is not in them is of a later one.

    Raises:
        SourceUnavailableError: It does not answer.
    """
    return RayAnswers(
        jobs=source.get(JOBS),
        actors=source.get(ACTORS),
        nodes=source.get(NODES),
        groups=source.get(GROUPS) if reserved else None,
        tasks=source.get(TASKS) if reserved and tasks else None,
    )
