"""A price context: the values of all match fields that a unit of usage has.

Contexts are plain tuples so that they compare, hash and store cheaply; this module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.events import MATCH_FIELDS, TRAFFIC_FIELDS, Component
from streams.engine.pricing.kinds import TIME_COMPONENTS, Kind

#: The usage's values of MATCH_FIELDS, in that order; None = the field is absent.
Context = tuple[str | None, ...]

#: The position of the GPU type, whose names are compared by product.
GPU_TYPE: Final = MATCH_FIELDS.index("gpu_type")
INSTANCE_TYPE: Final = MATCH_FIELDS.index("instance_type")
#: The last one, of a single label of the job.
LABEL: Final = MATCH_FIELDS.index("label")


_COMPLIANCE: Final = str(Component.compliance)
_FOR_LABELS: Final = (Kind.GPU_TIME, Kind.JOB_TIME)

#: The labels of a job; None: it has none.
Labels = tuple[tuple[str, str], ...] | None
#: A component of a quantity, and the context that prices it.
Part = tuple[str, Context]


class Payer(NamedTuple):
    """What prices can match of a job as a whole."""

    team: str | None = None
    project: str | None = None
    labels: tuple[str, ...] = ()  # as `key=value`, ascending; those that no price names may be absent


NOBODY: Final = Payer()


def labels_of(labels: Labels) -> tuple[str, ...]:
    """The labels of a job as prices name them."""
    return tuple(sorted(f"{key}={value}" for key, value in labels or ()))


def usage_context(values: tuple[str | None, ...], team: str | None, project: str | None) -> Context:
    """The context of GPU-time and other time: the eight price fields plus the job's team and project."""
    return (*values, team, project, None, None, None, None, None)


def time_parts(kind: Kind, context: Context, labels: Iterable[str]) -> tuple[Part, ...]:
    """What a quantity of time is priced by: each component once, and compliance once for each label."""
    parts = [(component, context) for component in TIME_COMPONENTS[kind]]
    if kind in _FOR_LABELS:
        parts += [(_COMPLIANCE, (*context[:-1], label)) for label in labels]
    return tuple(parts)


def traffic_context(match: Mapping[str, str], team: str | None, project: str | None) -> Context:
    """The context of network and storage amounts: the event's own fields, the job's team and project."""
    named = {field: match[field] for field in TRAFFIC_FIELDS if field in match}
    named_or_job = {**named, "team": team, "project": project}
    return tuple(named_or_job.get(field) for field in MATCH_FIELDS)
