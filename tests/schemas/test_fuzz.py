"""Whatever the bytes are, decoding gives an event or a refusal, and both can be stored."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.reasons import Reason
from tests.schemas.records import FULL, NOW_MS

RECORDS_PER_TOPIC = 10_000
NEWEST_MS = NOW_MS + 300_000
SPLICES = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0.0",
    b"1e3",
    b"5.0",
    b"9" * 25,
    b"9" * 400,
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\xff",
    b"\x00",
    b"\\u0000",
    b'"specversion":"1.0",',
    b"[" * 50,
    b"{" * 2000,
    b"[" * 3000,
    b"null",
    b"true",
    b'"',
    b",",
    b"}",
    b"\xe2\x82",
    "😀".encode(),
]


def random_value(rng: random.Random, depth: int = 0) -> Any:
    scalars: list[Any] = [
        None,
        True,
        False,
        0,
        -1,
        5,
        rng.getrandbits(63),
        rng.getrandbits(70),
        -rng.getrandbits(60),
        rng.random(),
        rng.uniform(-1e6, 1e6),
        1e300,
        float("nan"),
        float("inf"),
        "",
        "text",
        "\u0000",
        "\ud800",
        "x" * rng.randrange(300),
        "1.5",
        "-1",
        "NaN",
        "1.0",
        "spot",
        "2025-10-09T08:53:20Z",
    ]
    kind = rng.randrange(10)
    if depth < 4 and kind == 0:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if depth < 4 and kind == 1:
        return {
            rng.choice(["a", "", "usd", "id", "ü"]): random_value(rng, depth + 1)
            for _ in range(rng.randrange(4))
        }
    return rng.choice(scalars)


def mutate_object(rng: random.Random, record: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(list(changed) or ["id"])
        action = rng.randrange(6)
        if action == 0:
            changed.pop(name, None)
        elif action == 1:
            other = rng.choice(list(FULL))
            changed |= {key: copy.deepcopy(FULL[other][key]) for key in rng.sample(list(FULL[other]), 2)}
        elif action == 2 and isinstance(changed.get(name), dict):
            changed[name][rng.choice(["a", *changed[name]])] = random_value(rng)
        elif action == 3 and isinstance(changed.get(name), list):
            changed[name].insert(rng.randrange(3), random_value(rng))
        elif action == 4:
            changed[rng.choice(["specversion", "data", "data_base64", "time", "gpu", "nodes"])] = (
                random_value(rng)
            )
        else:
            changed[name] = random_value(rng)
    return changed


def mutate_bytes(rng: random.Random, value: bytes) -> bytes:
    data = bytearray(value)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        action = rng.randrange(5)
        if action == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            del data[at : at + rng.randrange(1, 20)]
        elif action == 2:
            data[at:at] = rng.choice(SPLICES)
        elif action == 3:
            del data[at:]
        elif at < len(data):
            data[at] = rng.randrange(256)
    return bytes(data)


def random_record(rng: random.Random, topic: str) -> bytes:
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return json.dumps(random_value(rng)).encode()
    record = FULL[topic] if kind == 2 else mutate_object(rng, FULL[topic])
    if rng.randrange(8) == 0:
        record = mutate_object(rng, {"specversion": "1.0", "id": "i", "source": "s", "data": record})
    value = json.dumps(record, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return value if kind < 6 else mutate_bytes(rng, value)


def random_headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    if rng.randrange(4):
        return []
    names = ["ce_specversion", "ce_id", "ce_source", "ce_time", "content-type", "other"]
    values = [b"1.0", b"x", b"", b"\xff", b"2025-10-09T08:53:20Z", b"application/cloudevents+json", None]
    return [(name, rng.choice(values)) for name in rng.sample(names, rng.randrange(len(names) + 1))]


def check_storable(value: object) -> None:
    """Strings are UTF-8, integers have 64 bits, floats are finite."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int):
        assert -(2**63) <= value < 2**63
    elif isinstance(value, float):
        assert value - value == 0
    elif isinstance(value, dict):
        for name, item in value.items():
            check_storable(name)
            check_storable(item)
    else:
        assert isinstance(value, list | tuple)
        for item in value:
            check_storable(item)


def check(topic: str, value: bytes, headers: list[tuple[str, bytes | None]]) -> Event | Invalid:
    result = decode(topic, value, headers, NEWEST_MS)
    if isinstance(result, Invalid):
        assert isinstance(result.reason, Reason)
        assert 0 < len(result.detail) < 600
        result.detail.encode()
    else:
        assert isinstance(result, get_args(Event))
        stored = msgspec.structs.asdict(result)
        if topic == "controls":  # keeps what nobody judges
            stored.pop("value")
        check_storable(stored)
    return result


@pytest.mark.parametrize("topic", sorted(FULL))
def test_mutated_and_random_records_give_an_event_or_a_refusal(topic: str) -> None:
    rng = random.Random(f"fuzz of {topic}")
    events, reasons = 0, set()
    for _ in range(RECORDS_PER_TOPIC):
        result = check(topic, random_record(rng, topic), random_headers(rng))
        if isinstance(result, Invalid):
            reasons.add(result.reason)
        else:
            events += 1
    # The mutations are worth something: they reach both outcomes, and many ways of refusal.
    assert events > RECORDS_PER_TOPIC // 20
    assert len(reasons) >= 8


@pytest.mark.parametrize("topic", sorted(set(FULL) - {"controls"}))
def test_the_short_way_and_the_long_way_agree(topic: str) -> None:
    rng = random.Random(f"both ways of {topic}")
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", str(FULL[topic]["id"]).encode()),
        ("ce_source", str(FULL[topic]["source"]).encode()),
    ]
    for _ in range(2_000):
        changed = mutate_object(rng, FULL[topic])
        changed |= {"id": FULL[topic]["id"], "source": FULL[topic]["source"]}
        changed.pop("specversion", None)
        value = json.dumps(changed).encode()
        assert check(topic, value, []) == check(topic, value, headers)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(topic=st.sampled_from(sorted(FULL)), field=st.integers(0, 40), value=JSON)
def test_any_json_in_any_field(topic: str, field: int, value: object) -> None:
    names = list(FULL[topic])
    record = {**FULL[topic], names[field % len(names)]: value}
    check(topic, json.dumps(record).encode(), [])


@given(topic=st.sampled_from(sorted(FULL)), value=st.binary(max_size=400))
def test_any_bytes(topic: str, value: bytes) -> None:
    check(topic, value, [])
