"""A fleet's samples as an exporter on each node sends them, as fast as arrays allow, with totals that are known exactly.

`python -m loadtest.fleet w2 --bootstrap 127.0.0.1:9092 --topic trainfare.gpu --partitions 8` fills a topic.
The value is the contract's `gpu` message, the key the job, the batch's instants the event times. The same
seed and begin give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import orjson
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from loadtest.known import Known, cost_nano, minutes_of
from loadtest.produce import Batch, BatchProducer
from loadtest.record_batches import RATIO_MARK, SECONDS_MARK, Record, Template
from streams.transport.partitions import partition_of

NODE_GPUS: Final = 8
#: GPU type -> nano-dollars an hour; jobs take them in turn.
PRICES_NANO: Final = {"H100": 2_500_000_000, "A100": 1_234_567_891}
_TYPES: Final = tuple(PRICES_NANO)
#: Ratios drawn at once: 4 MiB.
_DRAWN: Final = 2 * 2**20


@dataclass(frozen=True)
class Shape:
    """How large a fleet is; each sender is an exporter that sends one message a second."""

    jobs: int
    senders_per_job: int
    gpus: int  # in a message
    seconds: int
    #: A partition's batches in a second; a real producer's linger makes some.
    slices: int = 1

    @property
    def messages(self) -> int:
        """All of them."""
        return self.jobs * self.senders_per_job * self.seconds


#: Batches of about 350 records in 8 partitions; an embedded broker keeps 5 MB of each, so `quick` is small.
SHAPES: Final = {
    "w1": Shape(jobs=1_000, senders_per_job=10, gpus=1, seconds=100, slices=4),
    "w2": Shape(jobs=1_000, senders_per_job=3, gpus=8, seconds=100),
    "w2-long": Shape(jobs=1_000, senders_per_job=3, gpus=8, seconds=25_000),
    "quick": Shape(jobs=1_000, senders_per_job=1, gpus=8, seconds=60),
}


class Fleet:
    """`second 0` of it is `begin_s`; `known` grows with what was handed out."""

    def __init__(self, shape: Shape, begin_s: int, partitions: int, seed: int = 1) -> None:
        self.shape = shape
        self.begin_s = begin_s
        self._random = np.random.default_rng(seed)
        senders = shape.jobs * shape.senders_per_job
        # Exporters do not tick together; one keeps its place in the second.
        offsets_ms = self._random.integers(0, 1000, senders)
        self.known = Known.none_yet(begin_s, [job_name(job) for job in range(shape.jobs)], shape.seconds)
        self._templates = list(self._cut(offsets_ms, partitions))

    def _cut(self, offsets_ms: np.ndarray, partitions: int) -> Iterator[tuple[int, np.ndarray, Template]]:
        """Partition, its senders and their template, slice by slice of the second."""
        shape = self.shape
        homes = [partition_of(job_name(job).encode(), partitions) for job in range(shape.jobs)]
        home = np.repeat(np.array(homes), shape.senders_per_job)
        piece = offsets_ms * shape.slices // 1000
        for each in range(shape.slices):
            for partition in range(partitions):
                found = np.flatnonzero((home == partition) & (piece == each))
                found = found[np.argsort(offsets_ms[found], kind="stable")]
                if len(found):
                    records = [self._record(int(sender), int(offsets_ms[sender])) for sender in found]
                    yield partition, found, Template(records)

    def _record(self, sender: int, offset_ms: int) -> Record:
        job, place = divmod(sender, self.shape.senders_per_job)
        return record(job, place, self.shape.gpus, offset_ms)

    def batches(self) -> Iterator[list[Batch]]:
        """Everything, in order of event time: what one request may carry, at most one batch a partition."""
        shape = self.shape
        senders = shape.jobs * shape.senders_per_job
        at_once = max(1, _DRAWN // (senders * shape.gpus))
        for first in range(0, shape.seconds, at_once):
            count = min(at_once, shape.seconds - first)
            yield from self._some(first, count, senders)
        self._booked()

    def _some(self, first: int, count: int, senders: int) -> Iterator[list[Batch]]:
        shape, known = self.shape, self.known
        permille = self._random.integers(0, 1000, (count, senders, shape.gpus), dtype=np.uint16)
        of_jobs = permille.reshape(count, shape.jobs, -1).sum(-1, dtype=np.int64)
        per_job = shape.senders_per_job * shape.gpus
        made = [
            (partition, template.batches(self.begin_s + first, permille[:, found]))
            for partition, found, template in self._templates
        ]
        for second in range(count):
            known.sent(first + second, of_jobs[second], senders, per_job)
            request: dict[int, Batch] = {}
            for partition, of_seconds in made:
                if partition in request:
                    yield list(request.values())
                    request = {}
                request[partition] = Batch(partition, of_seconds[second])
            yield list(request.values())

    def _booked(self) -> None:
        """What the engine makes of it: each GPU is paid for each second before one in which its exporter spoke."""
        shape, known = self.shape, self.known
        gpus = _gpus_by_node(shape)
        minutes = minutes_of(self.begin_s - 1, self.begin_s + shape.seconds - 1)
        quantity = np.outer(gpus, minutes).ravel() * 1000 * 1000
        prices = np.array([PRICES_NANO[type_of(job)] for job in range(shape.jobs)])
        costs = {price: int(cost_nano(quantity, np.array([price])).sum()) for price in PRICES_NANO.values()}
        known.sampled_gpu_s = np.full(shape.jobs, int(gpus.sum()) * shape.seconds)
        known.productive_gpu_ms = known.permille.sum(axis=1)
        known.ledger_rows = np.full(shape.jobs, len(quantity))
        known.quantity = np.full(shape.jobs, int(quantity.sum()))
        known.cost_nano = np.array([costs[int(price)] for price in prices])

    # -- what else is said of the jobs ---------------------------------------------------------------------

    def prices(self) -> Iterator[bytes]:
        """Price records: what a GPU of each type costs, always."""
        for kind, nano in PRICES_NANO.items():
            yield orjson.dumps(
                {
                    "source": "fleet", "id": kind, "time_ms": self.begin_s * 1000, "sku": kind.lower(),
                    "component": "gpu", "usd": f"{nano / 10**9:.9f}", "per": "gpu_hour", "effective_ms": 0,
                    "gpu_type": kind,
                }
            )  # fmt: skip

    def started(self) -> Iterator[bytes]:
        """Job events without which all jobs are metered by their samples; they pay for the same seconds."""
        gpus = _gpus_by_node(self.shape)
        for job in range(self.shape.jobs):
            nodes = {node_name(job, place): int(count) for place, count in enumerate(gpus)}
            about = {"gpu_count": int(gpus.sum()), "nodes": nodes, "gpu_type": type_of(job), "team": "fleet"}
            yield self._told(job, "started", self.begin_s - 1, about)

    def completed(self) -> Iterator[bytes]:
        """The ends of the jobs that `started`."""
        for job in range(self.shape.jobs):
            yield self._told(job, "completed", self.begin_s + self.shape.seconds - 1, {})

    def _told(self, job: int, kind: str, at_s: int, about: dict[str, object]) -> bytes:
        body = {"source": "fleet", "id": kind, "time_ms": at_s * 1000, "job_id": job_name(job), "type": kind}
        return orjson.dumps({**body, **about})


def record(job: int, place: int, gpus: int, offset_ms: int) -> Record:
    """The message of a job's exporter, with marks for its second and its ratios."""
    node, first = divmod(place * gpus, NODE_GPUS)
    ids = b",".join(b'"%b"' % _gpu_id(job, node, first + gpu) for gpu in range(gpus))
    ratios = b",".join([b"0." + RATIO_MARK] * gpus)
    value = (
        b'{"source":"dcgm","time_ms":%b%03d,"interval_ms":1000,"node":"%b","job_id":"%b","gpu_type":"%b",'
        b'"gpus":[%b],"util_ratio":[%b]}'
    ) % (
        SECONDS_MARK, offset_ms, node_name(job, node).encode(), job_name(job).encode(), type_of(job).encode(),
        ids, ratios,
    )  # fmt: skip
    return Record(job_name(job).encode(), value, offset_ms)


def job_name(job: int) -> str:
    """`job_id`."""
    return f"train-{job:06}"


def node_name(job: int, place: int) -> str:
    """`node`: the job's first, second..."""
    return f"node-{job:06}-{place}"


def type_of(job: int) -> str:
    """`gpu_type`."""
    return _TYPES[job % len(_TYPES)]


def _gpu_id(job: int, node: int, gpu: int) -> bytes:
    return b"GPU-%08x" % (((job * 64 + node) * NODE_GPUS + gpu) * 2654435761 & 0xFFFFFFFF)


def _gpus_by_node(shape: Shape) -> np.ndarray:
    """[nodes of a job]: how many of its GPUs are on each."""
    node_of = np.arange(shape.senders_per_job * shape.gpus) // NODE_GPUS
    return np.bincount(node_of)


def workload(name: str, begin_s: int, partitions: int, seconds: int | None = None, seed: int = 1) -> Fleet:
    """The fleet of that name in `SHAPES`, as long as it says or as asked."""
    shape = SHAPES[name]
    return Fleet(shape if seconds is None else replace(shape, seconds=seconds), begin_s, partitions, seed)


def fill(fleet: Fleet, bootstrap_servers: str, topic: str) -> Known:
    """Send all of it to a topic that exists, with as many partitions as the fleet was made for."""
    with BatchProducer(bootstrap_servers, topic) as producer:
        for request in fleet.batches():
            producer.send(request)
    return fleet.known


def main(argv: Sequence[str] | None = None) -> int:
    """Fill a topic and say what it must come to."""
    parser = argparse.ArgumentParser(prog="fleet", description=__doc__)
    parser.add_argument("workload", choices=SHAPES)
    parser.add_argument(
        "--bootstrap", default="127.0.0.1:9092", help="the broker; all partitions are its own"
    )
    parser.add_argument("--topic", default="trainfare.gpu")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument(
        "--create", action="store_true", help="make the topic; its timestamps are event times"
    )
    parser.add_argument(
        "--begin-s", type=int, help="event time of the first second, s since 1970; else so that it ends now"
    )
    parser.add_argument("--seconds", type=int, help="event time, instead of what the workload says")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--totals", type=Path, help="write what it must come to, as .npz (loadtest.known)")
    options = parser.parse_args(argv)
    if options.create:
        client = AdminClient({"bootstrap.servers": options.bootstrap})
        for made in client.create_topics([NewTopic(options.topic, options.partitions, 1)]).values():
            made.result()
    seconds = options.seconds or SHAPES[options.workload].seconds
    begin_s = options.begin_s if options.begin_s is not None else recent(seconds)
    fleet = workload(options.workload, begin_s, options.partitions, seconds, options.seed)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    known = fill(fleet, options.bootstrap, options.topic)
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    if options.totals is not None:
        known.save(options.totals)
    sys.stdout.write(
        f"{known.messages:,} messages, {known.gpu_samples:,} samples from {begin_s} s on, in {took_s:.1f} s "
        f"({known.messages / took_s:,.0f} messages/s, {cpu_s:.1f} s of CPU); "
        f"{int(known.sampled_gpu_s.sum()):,} GPU-s, {int(known.cost_nano.sum()) / 1e9:.9f} USD\n"
    )
    return 0


def recent(seconds: int) -> int:
    """A begin, at a whole window, so that so many seconds are over now."""
    return (int(time.time()) - seconds - 20) // 10 * 10


if __name__ == "__main__":
    sys.exit(main())
