"""A price context: the values of all match fields that a unit of usage has.

Contexts are plain tuples so that they compare, hash and store cheaply; this module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.events import MATCH_FIELDS, TRAFFIC_FIELDS

#: The usage's values of MATCH_FIELDS, in that order; None = the field is absent.
Context = tuple[str | None, ...]

#: The position of the GPU type, whose names are compared by product.
GPU_TYPE: Final = MATCH_FIELDS.index("gpu_type")
INSTANCE_TYPE: Final = MATCH_FIELDS.index("instance_type")


def usage_context(values: tuple[str | None, ...], team: str | None, project: str | None) -> Context:
    """The context of GPU-time and other time: the eight price fields plus the job's team and project."""
    return (*values, team, project, None, None, None, None)


def traffic_context(match: Mapping[str, str], team: str | None, project: str | None) -> Context:
    """The context of network and storage amounts: the event's own fields, the job's team and project."""
    named = {field: match[field] for field in TRAFFIC_FIELDS if field in match}
    named_or_job = {**named, "team": team, "project": project}
    return tuple(named_or_job.get(field) for field in MATCH_FIELDS)
