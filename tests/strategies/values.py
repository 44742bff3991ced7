"""Small vocabularies and numbers that collide often: instants, fields, counts, ids.

Must stay small: a fault shows where two events meet, and wide random values hardly ever meet.  A strategy is made once and
kept: to make and check it anew for each draw would take longer than the draw.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.oracle.model import HOUR_MS, MINUTE_MS, Json, Line

Times = st.SearchStrategy[int]

BASE_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
SPAN_MS = 2 * HOUR_MS  # all event times of one fleet lie in [base, base + span]
PARTITIONS = 2

NODES = ("n1", "n2", "n3")
GPUS = ("0", "1", "2")
SOURCES = ("k8s", "slurm")
FIELD_VALUES = {
    "cloud": ("aws", "gcp"),
    "region": ("eu", "us"),
    "zone": ("z1", "z2"),
    "cluster": ("c1", "c2"),
    "account": ("x", "y"),
    "instance_type": ("p5", "a2"),
    "gpu_type": ("H100", "A100"),
    "purchase": ("spot", "on_demand"),
}
TEAMS = ("red", "blue")
PROJECTS = ("llm", "vision")


@cache
def instants(base_ms: int, span_ms: int = SPAN_MS) -> st.SearchStrategy[int]:
    """Event times: minute boundaries, one ms beside them, whole seconds and anything between."""
    inside_ms = st.one_of(st.sampled_from((0, 1, 999, 1000, 30_000, 59_999)), st.integers(0, MINUTE_MS - 1))
    minute = st.one_of(st.integers(0, 3), st.integers(0, span_ms // MINUTE_MS - 1))
    return st.builds(lambda m, ms: base_ms + m * MINUTE_MS + ms, minute, inside_ms)


@st.composite
def times_around(draw: st.DrawFn, base_ms: int) -> Times:
    """Event times that meet: most are one of a few instants of the fleet, so that ties and equal ends happen."""
    pool_ms = draw(st.lists(instants(base_ms), min_size=3, max_size=6, unique=True))
    meeting = st.sampled_from(pool_ms)
    return st.one_of(meeting, meeting, instants(base_ms))


def partition_of(key: str) -> int:
    """One partition per key, the same for every topic of a job."""
    return zlib.crc32(key.encode()) % PARTITIONS


def line(topic: str, event: Json) -> Line:
    """A log line in the partition of its key."""
    key = event.get("node") if topic == "nodes" or not event.get("job_id") else event["job_id"]
    return Line(topic, event, partition=0 if topic in ("prices", "controls") else partition_of(str(key)))


class Ids:
    """Identities that are unique in a log, though ids recur under the other source."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._count = 0

    def next(self) -> Json:
        """`source` and `id` of one more event; not in the order in which they are asked for."""
        self._count += 1
        number = self._count * 389 % 1000 + self._count // 1000 * 1000
        return {"source": SOURCES[number % 2], "id": f"{self._prefix}{number // 2}"}


@cache
def usually_first(values: tuple[str, ...]) -> st.SearchStrategy[str]:
    """The first value three times in four: prices and jobs then agree on several fields at once."""
    return st.sampled_from((values[0], values[0], *values))


_field_names = st.one_of(
    st.lists(st.sampled_from(tuple(FIELD_VALUES)), max_size=3, unique=True), st.just(list(FIELD_VALUES))
)


@st.composite
def _some_fields(draw: st.DrawFn) -> dict[str, str | None]:
    """All price fields, or a few, or none; now and then a JSON null, which says nothing."""
    names = draw(_field_names)
    fields: dict[str, str | None] = {name: draw(usually_first(FIELD_VALUES[name])) for name in names}
    if draw(st.integers(0, 15)) == 0:
        fields["zone"] = None
    return fields


some_fields = _some_fields()

# Thousandths that JSON carries as a float; 0.3 and 2.675 are not exact in binary.
COUNTS = (0, 0.001, 0.3, 0.5, 1, 1.5, 2, 2.675, 3, 8)
counts = st.sampled_from(COUNTS)
_held = st.dictionaries(st.sampled_from(NODES), counts, max_size=3)


@st.composite
def _gpu_values(draw: st.DrawFn) -> Json:
    """How many GPUs: a count, nodes, or both agreeing; or instances on nodes without GPUs."""
    way = draw(st.integers(0, 4))
    if way == 0:
        return {"gpu_count": draw(counts)}
    if way == 4:
        bare = dict.fromkeys(draw(st.sets(st.sampled_from(NODES), min_size=1)), 0)
        return {"nodes": bare, "instance_count": draw(counts)}
    nodes = draw(_held)
    if way == 1:
        milli = sum(round(count * 1000) for count in nodes.values())
        return {"nodes": nodes, "gpu_count": milli / 1000}
    return {"nodes": nodes}


gpu_values = _gpu_values()


def maybe(draw: st.DrawFn, strategy: st.SearchStrategy[Any], one_in: int = 3) -> Any:
    """The strategy's dict once in a while, else an empty dict."""
    return draw(strategy) if draw(st.integers(1, one_in)) == 1 else {}
