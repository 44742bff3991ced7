"""What senders really send is read the quick way, every record of it: counted, so that a slow path cannot creep in unseen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import chain

import orjson
import pytest

from loadtest import fleet, soak_load
from loadtest.record_batches import RATIO_MARK, SECONDS_MARK
from schemas.decode import decode
from schemas.events import GpuEvent
from streams.demo.fleet import Fleet
from streams.engine.coverage.shapes import Shapes
from streams.topics import Topic
from tests.engine.coverage.shape_twin import checked, shape_of
from tests.schemas.records import NOW_MS

HOUR_AGO_MS = NOW_MS - 3_600_000


def demo() -> list[bytes]:
    told = Fleet(HOUR_AGO_MS, 1, {}).advance(HOUR_AGO_MS + 120_000)
    return [record.value for record in told if record.topic == Topic.GPU]


def soak() -> list[bytes]:
    begin_s = HOUR_AGO_MS // 1000
    load = soak_load.Load(160, begin_s)
    events = chain(load.opening(), *(load.second(begin_s + second) for second in range(1, 60)))
    return [event.value for event in events if event.topic == Topic.GPU and event.key != b"bad"]


def bench() -> list[bytes]:
    values = [
        fleet.record(job, place, gpus, 7).value for job in range(9) for place in range(2) for gpus in (1, 8)
    ]
    return [value.replace(SECONDS_MARK, b"1750000000").replace(RATIO_MARK, b"042") for value in values]


def exporter(kind: str) -> list[bytes]:
    """Eight GPUs of a node with long ids and all planes, by the ways in which programs print ratios."""
    rng = random.Random(3)
    draw = {
        "percent": lambda: rng.randrange(101) / 100,
        "six decimals": lambda: float(f"{rng.random():.6f}"),
        "quotients": lambda: rng.randrange(15_001) / 15_000,
        "doubles": rng.random,
    }[kind]
    gpus = [f"GPU-{rng.getrandbits(128):032x}" for _ in range(8)]
    about = {
        "source": "dcgm/node-17",
        "node": "node-17",
        "job_id": "llama-70b-pretrain",
        "attempt": 2,
        "gpus": gpus,
    }
    messages = [
        {
            **about,
            "id": f"node-17/{k}",
            "time_ms": HOUR_AGO_MS + k * 10_000,
            "interval_ms": 10_000,
            "util_ratio": [draw() for _ in gpus],
            "sm_ratio": [draw() for _ in gpus],
            "tensor_ratio": [draw() for _ in gpus],
            "memory_used_mib": [rng.randrange(81_560) for _ in gpus],
            "power_w": [round(rng.random() * 700, 3) for _ in gpus],
        }
        for k in range(100)
    ]
    return [orjson.dumps(message) for message in messages] + [
        json.dumps(message).encode() for message in messages
    ]


SENDERS: dict[str, Callable[[], list[bytes]]] = {
    "demo": demo,
    "soak": soak,
    "bench": bench,
    "percent": lambda: exporter("percent"),
    "six decimals": lambda: exporter("six decimals"),
    "quotients": lambda: exporter("quotients"),
}


@pytest.mark.parametrize("name", SENDERS)
def test_every_record_is_taken(name: str) -> None:
    values = SENDERS[name]()
    assert len(values) >= 8
    events = [decode("gpu", value, (), NOW_MS) for value in values]
    said = {repr(shape_of(event)) for event in events if isinstance(event, GpuEvent)}
    shapes = Shapes()
    assert checked(shapes, values).count(False) == 0
    assert len(shapes) <= 2 * len(said)  # with spaces and without


def test_nearly_every_record_of_random_doubles_is_taken() -> None:
    values = exporter("doubles")
    # 24 random doubles each; of those below 1e-5, many have more decimals than there are exact powers of ten.
    assert checked(Shapes(), values).count(False) <= len(values) // 50
