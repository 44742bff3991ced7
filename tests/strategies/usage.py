"""GPU samples, network and storage amounts, and node events.

Must keep ordinary samples at 5 minutes or less, so that their order can be drawn without any being late.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.oracle.model import NODE_TYPES, Json
from tests.strategies.values import (
    GPUS,
    NODES,
    SOURCES,
    Ids,
    Times,
    counts,
    maybe,
    some_fields,
)

ORDINARY_INTERVALS_MS = (1, 999, 1000, 1001, 5000, 15_000, 61_500, 300_000)
LONG_INTERVALS_MS = (600_000, 601_000, 602_000, 3_600_000)  # 601 s at equal times: 600 s behind, not late

# 0.0005 and 0.0015 lie at halves of a permille; 0.57 x 1000.0 is not 570 before rounding.
ratios = st.one_of(st.sampled_from((0, 1, 0.5, 0.0005, 0.0015, 0.0025, 0.57, 0.9995)), st.floats(0, 1))


# A sample of the same instant that differs in one part of the order of "newest", and in what it is priced by.
twins = st.tuples(
    st.sampled_from(({"source": "a"}, {"node": "n1"}, {"node": "n3"}, {"id": "0"}, {"id": "c"})),
    st.sampled_from(({"gpu_type": "A100"}, {"gpu_type": "H100"}, {"zone": "z2", "region": "us"})),
).map(lambda parts: parts[0] | parts[1])


_gpus = st.lists(st.sampled_from(GPUS), min_size=1, max_size=3)
_ids = st.sampled_from([{"id": "a"}, {"id": "b"}])


@st.composite
def samples(
    draw: st.DrawFn,
    job_id: str,
    attempts: tuple[int, ...],
    times: Times,
    intervals_ms: tuple[int, ...] = ORDINARY_INTERVALS_MS,
    most: int = 6,
) -> list[Json]:
    """Records of one job: overlapping, unaligned, from two exporters, some without an id, some idle."""
    events: list[Json] = []
    for _ in range(draw(st.integers(0, most))):
        gpus = draw(_gpus)
        event: Json = {
            "node": draw(st.sampled_from(NODES)),
            "source": draw(st.sampled_from(SOURCES)),
            "time_ms": draw(times),
            "interval_ms": draw(st.sampled_from(intervals_ms)),
            "gpus": gpus,
            "util_ratio": [draw(ratios) for _ in gpus],
        }
        if draw(st.integers(0, 2)) == 0:
            event["tensor_ratio"] = [draw(ratios) for _ in gpus]
        if len(gpus) == 1 and draw(st.integers(0, 3)) == 0:  # scalars are arrays of one
            event["gpu"], event["util_ratio"] = event.pop("gpus")[0], event["util_ratio"][0]
        if draw(st.integers(0, 7)):
            event["job_id"] = job_id
            event["attempt"] = draw(st.sampled_from(attempts))
        elif draw(st.booleans()):
            event["job_id"] = ""  # idle
        event |= maybe(draw, _ids, 2) | maybe(draw, some_fields, 2)
        events.append(event)
        if event.get("job_id") and draw(st.booleans()):
            events.append(event | draw(twins))
    return events


amounts = st.one_of(st.sampled_from((0, 1, 7, 10**9, 2**30, 2**53)), st.integers(0, 10**7))
amount_intervals_ms = st.one_of(
    st.sampled_from((0, 1, 999, 1000, 59_999, 60_000, 90_001, 3_600_000)),
    st.integers(0, 600_000),
    st.integers(0, 39).map(lambda n: 2 * 86_400_000 + 1 if n == 0 else n * 1000),
)


_of_network = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(("same_zone", "cross_zone", "cross_region", "internet", "unclassified")),
        "direction": st.sampled_from(("egress", "ingress")),
        "cloud": st.sampled_from(("aws", "gcp")),
        "region": st.sampled_from(("eu", "us")),
        "dst_region": st.sampled_from(("ap", "eu")),
    },
)
_of_storage = st.fixed_dictionaries(
    {},
    optional={
        "storage_class": st.sampled_from(("standard", "cold")),
        "cloud": st.sampled_from(("aws", "gcp")),
        "region": st.sampled_from(("eu", "us")),
    },
)
_units = st.sampled_from((("bytes",), ("requests",), ("bytes", "requests")))


@st.composite
def network_events(
    draw: st.DrawFn, job_id: str, attempts: tuple[int, ...], times: Times, ids: Ids
) -> list[Json]:
    """Bytes moved."""
    events: list[Json] = []
    for _ in range(draw(st.integers(0, 3))):
        event = {"job_id": job_id, "attempt": draw(st.sampled_from(attempts)), "bytes": draw(amounts)}
        event |= {"time_ms": draw(times), "interval_ms": draw(amount_intervals_ms)}
        events.append(event | draw(_of_network) | ids.next())
    return events


@st.composite
def storage_events(
    draw: st.DrawFn, job_id: str, attempts: tuple[int, ...], times: Times, ids: Ids
) -> list[Json]:
    """Storage work and storage kept."""
    events: list[Json] = []
    for _ in range(draw(st.integers(0, 3))):
        op = draw(st.sampled_from(("read", "write", "list", "delete", "stored")))
        if op == "stored":
            what = {"bytes": draw(amounts)}
        elif op in ("list", "delete"):
            what = {"requests": draw(amounts)}
        else:
            given = draw(_units)
            what = {unit: draw(amounts) for unit in given}
        event: Json = {"job_id": job_id, "attempt": draw(st.sampled_from(attempts)), "op": op} | what
        event |= {"time_ms": draw(times), "interval_ms": draw(amount_intervals_ms)}
        events.append(event | draw(_of_storage) | ids.next())
    return events


_some_nodes = st.lists(st.sampled_from(NODES), max_size=3, unique=True)
_node_types = st.lists(st.sampled_from(NODE_TYPES), min_size=1, max_size=5)
_gpu_count = st.fixed_dictionaries({"gpu_count": counts})
_node_team = st.fixed_dictionaries({"team": st.sampled_from(("red", "blue", "", None))})


@st.composite
def node_events(draw: st.DrawFn, times: Times, ids: Ids) -> list[Json]:
    """Events of some nodes, in plausible and implausible orders."""
    events: list[Json] = []
    for node in draw(_some_nodes):
        for kind in draw(_node_types):
            event: Json = {"node": node, "type": kind, "time_ms": draw(times)} | ids.next()
            event |= maybe(draw, _gpu_count, 2) | maybe(draw, some_fields, 3) | maybe(draw, _node_team, 3)
            events.append(event)
    return events
