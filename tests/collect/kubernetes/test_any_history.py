"""Whatever a collector saw of a cluster and however it was stopped: a job costs what its pods held, second by second."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.collect.collector import Position, SourceUnavailableError
from streams.collect.kubernetes.collector import open_collector
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import T0_S, node, owner, pod
from tests.collect.slurm.test_recorded import NANO_PER_GPU_S, PRICE
from tests.collect.world import Log
from tests.harness import meter
from tests.oracle.model import Line

_LAST_S = 500


class Life(NamedTuple):
    """A pod's times, in seconds after T0."""

    name: str
    job: str
    gpus: int
    created: int
    bound: int
    started: int
    ended: int
    exit_code: int
    place: str
    on: str

    def shown(self, **times: int) -> dict[str, Any]:
        labels = {"batch.kubernetes.io/job-completion-index": self.place} if self.place else {}
        owners = owner("Job", self.job)
        found: dict[str, Any] = {"created": self.created, **times}
        code = self.exit_code if "ended" in times else 0
        return pod(
            self.name, gpus=str(self.gpus), labels=labels, owners=owners, on=self.on, exit_code=code, **found
        )

    def steps(self) -> list[tuple[int, int, dict[str, Any]]]:
        """When the API server hears of what: a kubelet reports an end up to 2 s later."""
        late = self.ended + len(self.name) % 3
        bound = {"bound": self.bound}
        started = {**bound, "started": self.started}
        return [
            (self.created, 0, self.shown()),
            (self.bound, 1, self.shown(**bound)),
            (self.started, 2, self.shown(**started)),
            (late, 3, self.shown(**started, ended=self.ended)),
        ]


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    """Some jobs, each of some rounds of pods; a round begins after the one before it has ended, 5 s later or more."""
    found: list[Life] = []
    for job in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, 60))
        for attempt in range(draw(st.integers(1, 3))):
            ends = []
            for n in range(draw(st.integers(1, 3))):
                created = begin + draw(st.integers(0, 3))
                bound = created + draw(st.integers(0, 10))
                started = bound + draw(st.integers(0, 10))
                ended = max(started, begin + 5) + draw(st.integers(0, 60))
                ends.append(ended)
                name = f"p{job}-{attempt}-{'x' * n}"
                place = draw(st.sampled_from(["", str(n)]))
                code, on = draw(st.sampled_from([0, 1])), draw(st.sampled_from(["n1", "n2"]))
                gpus = draw(st.integers(1, 8))
                found.append(Life(name, f"j{job}", gpus, created, bound, started, ended, code, place, on))
            begin = max(ends) + draw(st.integers(5, 20))
    return found


def collect(cluster: Cluster, log: Log, data: st.DataObject) -> None:
    """Poll at any times; a poll may be cut short, its history gone, its position stored or lost to an older one."""
    server = cluster.server
    positions: list[Position | None] = [None]
    versions = {each.version for each in server.changes["pods"]}
    last = max(versions)
    for shown in (*sorted(data.draw(st.sets(st.sampled_from(sorted(versions)), max_size=5))), last):
        server.shown = shown
        server.oldest = data.draw(st.sampled_from([0, 0, last + 1]))
        is_cut = shown != last and data.draw(st.booleans())
        server.cut_bytes = data.draw(st.integers(0, 5_000)) if is_cut else None
        position = (
            positions[-1] if shown == last else positions[-data.draw(st.integers(1, min(len(positions), 2)))]
        )
        now_ms = (T0_S + _LAST_S) * 1000
        try:
            for batch in open_collector(cluster.options).poll(position, now_ms):
                log.publish(batch.events)
                if shown != last and data.draw(st.booleans()):
                    break  # killed after it published, before it stored its position
                positions.append(batch.position)
        except SourceUnavailableError:
            assert is_cut


@settings(max_examples=40)
@given(lives(), st.data())
def test_a_job_costs_what_its_pods_held(found: list[Life], data: st.DataObject) -> None:
    cluster = Cluster()
    try:
        cluster.put("nodes", node("n1"), node("n2"))
        steps = sorted((step for life in found for step in life.steps()), key=lambda step: step[:2])
        for _, _, each in steps:
            cluster.put("pods", each)
        log = Log()
        for _ in range(2):
            collect(cluster, log, data)
    finally:
        cluster.server.close()
    assert not log.refused()
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in log.events if topic == "jobs")]
    tables = meter(lines, as_of_ms=(T0_S + 100_000) * 1000)
    costs: Counter[str] = Counter()
    for key, row in tables.ledger.items():
        costs[key.job_id] += row.cost_nano
    wanted: Counter[str] = Counter()
    for life in found:
        wanted[f"research/uid-{life.job}/{life.job}"] += (
            life.gpus * (life.ended - life.bound) * NANO_PER_GPU_S
        )
    assert +costs == +wanted
    assert not tables.dead
