"""Columns of GPU messages: those of the general decoder, or none."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pytest

from streams.demo.records import Writer
from streams.engine.coverage.shapes import Shape, Shapes
from tests.engine.coverage.shape_twin import checked, pack, parse
from tests.schemas.records import NOW_MS, Record, record

SMALL: Record = {
    "source": "s",
    "time_ms": NOW_MS,
    "interval_ms": 1000,
    "node": "n",
    "gpus": ["a", "b"],
    "util_ratio": [0.5, 1],
}


def small(**changes: object) -> bytes:
    return json.dumps(
        {name: value for name, value in {**SMALL, **changes}.items() if value is not ...}
    ).encode()


def text(old: bytes, new: bytes) -> bytes:
    """The small message with some of its bytes replaced."""
    message = orjson.dumps(SMALL)
    assert old in message
    return message.replace(old, new)


def demo() -> bytes:
    out = Writer()
    out.gpu(NOW_MS, "node-1", 10_000, ["0", "1"], [0.0, 0.0])
    return out.drain()[0].value


PLAIN: dict[str, bytes] = {
    "small": small(),
    "full": json.dumps(record("gpu")).encode(),
    "compact": orjson.dumps(record("gpu")),
    "demo": demo(),
    "indented": json.dumps(SMALL, indent=2).encode(),
    "tabs": json.dumps(SMALL, separators=("\t,\t", "\r:\n")).encode(),
    "around": b" \n" + small() + b"\t\r ",
    "other order": json.dumps(dict(reversed(record("gpu").items()))).encode(),
    "one gpu": small(gpus=..., gpu="a", util_ratio=0.25, power_w=[3], sm_ratio=1),
    "gpu beside gpus": small(gpu="z"),
    "null gpus": small(gpus=None, gpu="a", util_ratio=[0.25]),
    "nulls": small(sm_ratio=None, power_w=None, id=None, job_id=None, attempt=None, gpu=None, zone=None),
    "idle": small(job_id=""),
    "empty id": small(id=""),
    "attempt": small(job_id="j", attempt=2**31 - 1),
    "longest job": small(job_id="j" * 200),
    "longest names": small(id="i" * 256, source="s" * 256, node="n" * 256, gpus=["a" * 256, "b"]),
    "exponents": text(b"[0.5,1]", b"[5e-1,1E0]"),
    "more exponents": text(b"[0.5,1]", b"[0.0000005e+6,0e22]"),
    "zeros": text(b"[0.5,1]", b"[0,0.000]"),
    "largest level": small(power_w=[2**53, 9007199254740.5], memory_used_mib=[0.1, 81_559]),
    "all fields": small(
        job_id="j",
        cloud="aws",
        region="r",
        zone="z",
        cluster="c",
        account="a",
        instance_type="i",
        gpu_type="g",
        purchase="spot",
    ),
    "empty price field": small(zone=""),
    "brackets in text": small(node='}],{["', gpus=["]", ","]).replace(b'\\"', b"'"),
    "many": small(gpus=[f"g{k}" for k in range(1024)], util_ratio=[k / 1024 for k in range(1024)]),
    "latest": small(time_ms=NOW_MS + 300_000),
    "earliest": small(time_ms=946_684_800_000),
    "interval": small(interval_ms=3_600_000),
}

ODD: dict[str, bytes | None] = {
    "tombstone": None,
    "empty": b"",
    "blank": b"  ",
    "no object": b"[]",
    "empty object": b"{}",
    "trailing": small() + b"x",
    "two": small() * 2,
    "cut": small()[:-1],
    "future": small(time_ms=NOW_MS + 300_001),
    "before 2000": small(time_ms=946_684_799_999),
    "time as float": small(time_ms=float(NOW_MS)),
    "time with exponent": text(b"1760000000000", b"176e10"),
    "time as text": small(time_ms=str(NOW_MS)),
    "time null": small(time_ms=None),
    "negative time": small(time_ms=-NOW_MS),
    "time with zero": text(b"1760", b"01760"),
    "long time": text(b"1760000000000", b"1760000000000" * 4),
    "no interval": small(interval_ms=...),
    "interval of 0": small(interval_ms=0),
    "long interval": small(interval_ms=3_600_001),
    "specversion": small(specversion=None),
    "id too long": small(id="i" * 257),
    "others too long": small(node="n" * 257, gpus=["a" * 257, "b"], job_id="j" * 201),
    "unknown key": small(usage=1),
    "long key": small(a_key_of_more_than_16_bytes=1),
    "twice": text(b'"node":"n"', b'"node":"n","node":"n"'),
    "escape in key": text(b'"node"', b'"n\\u006fde"'),
    "escape in text": small(node="a\nb"),
    "not ascii": orjson.dumps({**SMALL, "node": "nöde"}),
    "not utf-8": text(b'"n"', b'"\xff"'),
    "control character": text(b'"n"', b'"\x1f"'),
    "no node": small(node=...),
    "empty node": small(node=""),
    "node null": small(node=None),
    "node as number": small(node=5),
    "no source": small(source=...),
    "long job": small(job_id="j" * 201),
    "attempt 0": small(job_id="j", attempt=0),
    "attempt 01": text(b'"node"', b'"attempt":01,"node"'),
    "attempt -1": small(attempt=-1),
    "attempt 1.0": small(attempt=1.0),
    "purchase": small(purchase="owned"),
    "no gpus": small(gpus=...),
    "empty gpus": small(gpus=[], util_ratio=[]),
    "repeated gpu": small(gpus=["a", "a"]),
    "gpus as text": small(gpus="ab"),
    "gpu as number": small(gpus=["a", 1]),
    "too many": small(gpus=[f"g{k}" for k in range(1025)], util_ratio=[0] * 1025),
    "unequal": small(util_ratio=[0.5]),
    "unequal power": small(power_w=[1, 2, 3]),
    "util null": small(util_ratio=None),
    "a null among numbers": small(util_ratio=[None, 1]),
    "true": small(util_ratio=[True, 1]),
    "nested": small(util_ratio=[[1], 1]),
    "an object": small(util_ratio={"a": 1, "b": 2}),
    "above 1": small(util_ratio=[0.5, 1.0000000000000002]),
    "minus 0": text(b"[0.5,1]", b"[-0,1]"),
    "negative": small(power_w=[-1, 1]),
    "above the largest level": small(power_w=[2**53 + 2, 1]),
    "comma at the end": text(b"[0.5,1]", b"[0.5,1,]"),
    "no comma": text(b"[0.5,1]", b"[0.5 1]"),
    "no colon": text(b'"node":', b'"node" '),
    "comma before": text(b"{", b"{,"),
    "comma behind": text(b"]}", b"],}"),
    "leading zero": text(b"0.5", b"00.5"),
    "point first": text(b"0.5", b".5"),
    "point last": text(b"[0.5,1]", b"[0.5,1.]"),
    "no exponent": text(b"0.5", b"0.5e"),
    "plus": text(b"0.5", b"+0.5"),
    "infinite": text(b"0.5", b"Infinity"),
    "nan": text(b"0.5", b"NaN"),
    "hexadecimal": text(b"0.5", b"0x1"),
    "comment": text(b"{", b"{/**/"),
    "vertical tab": text(b"{", b"{\x0b"),
    "byte order mark": b"\xef\xbb\xbf" + small(),
    "1 MiB and more": small() + b" " * 2**20,
    "nul": text(b",", b"\0,"),
    "null and more": small(zone=None).replace(b"null", b"nulls"),
    "cut null": b'{"zone":nul',
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_messages_are_taken_the_quick_way(name: str) -> None:
    shapes = Shapes()
    assert checked(shapes, [PLAIN[name]] * 2) == [True, True]
    assert len(shapes) == 1


@pytest.mark.parametrize("name", ODD)
def test_odd_messages_are_left_to_the_general_decoder(name: str) -> None:
    assert checked(Shapes(), [ODD[name], small(), ODD[name]]) == [False, True, False]


def test_all_together_each_has_its_own_values() -> None:
    values = [*ODD.values(), *PLAIN.values(), *reversed(list(ODD.values())), *reversed(list(PLAIN.values()))]
    shapes = Shapes()
    first = checked(shapes, values)
    assert first == [value in PLAIN.values() for value in values]
    assert checked(shapes, values, b"\x01\x80\xff") == first


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9])
def test_what_follows_a_value_is_not_part_of_it(size: int) -> None:
    whole = small(zone="abcdefg")
    for cut in range(len(whole)):
        packed = pack([whole])
        sizes = np.array([cut], np.int32)
        parsed = Shapes().parse(packed.data[: cut + size], packed.value_at, sizes, np.array([2**60]))
        assert parsed.shape.tolist() == [-1], cut


def test_records_share_a_shape_though_their_numbers_and_ids_differ() -> None:
    values = [
        small(id=f"e{k}" * k, time_ms=NOW_MS - k, interval_ms=k + 1, util_ratio=[k / 10, 0]) for k in range(9)
    ]
    shapes = Shapes()
    parsed, _ = parse(shapes, values)
    assert parsed.shape.tolist() == [0] * 9
    assert shapes[0] == Shape("s", "n", "", 1, ("a", "b"), {})
    again, _ = parse(shapes, values[:1])
    assert again.shape.tolist() == [0]


def test_an_id_is_measured_in_records_of_a_known_shape_too() -> None:
    assert checked(Shapes(), [small(id="i" * n) for n in (1, 257, 256, 999)]) == [True, False, True, False]


def test_text_that_differs_in_one_byte_is_another_shape() -> None:
    whole = small(job_id="job-17", gpus=["GPU-8f1c2a3b-0001", "GPU-8f1c2a3b-0002"], zone="z1").decode()
    values = [whole] + [
        whole.replace(*pair) for pair in (("-17", "-18"), ("0002", "0003"), ("z1", "z2"), ('"n"', '"m"'))
    ]
    shapes = Shapes()
    assert checked(shapes, [value.encode() for value in values * 2]) == [True] * 10
    assert len(shapes) == 5


def test_planes_that_nobody_has_are_empty_and_others_are_filled_up() -> None:
    parsed, _ = parse(Shapes(), [small(), small(power_w=[1, 2]), b"bad", small()])
    assert (len(parsed.sm), len(parsed.tensor), len(parsed.memory)) == (0, 0, 0)
    assert parsed.value_ptr.tolist() == [0, 2, 4, 4, 6]
    nan = float("nan")
    np.testing.assert_array_equal(parsed.power, [nan, nan, 1, 2, nan, nan])


def test_a_plane_that_only_a_refused_record_has_is_empty() -> None:
    parsed, _ = parse(Shapes(), [small(), small(power_w=[1, 2], purchase="owned"), small()])
    assert parsed.shape.tolist() == [0, -1, 0]
    assert len(parsed.power) == 0
    assert parsed.util.tolist() == [0.5, 1, 0.5, 1]


def test_each_record_has_its_own_newest_time() -> None:
    packed = pack([small()] * 3)
    newest_ms = np.array([NOW_MS - 1, NOW_MS, NOW_MS - 1])
    assert Shapes().parse(*packed, newest_ms).shape.tolist() == [-1, 0, -1]


def test_a_span_outside_the_data_is_an_error() -> None:
    packed = pack([small()])
    newest_ms = np.array([NOW_MS])
    for at, size in ((-1, 5), (1, len(packed.data)), (2**40, 0)):
        with pytest.raises(ValueError, match="outside"):
            Shapes().parse(packed.data, np.array([at]), np.array([size], np.int32), newest_ms)


def test_no_records_are_no_columns() -> None:
    parsed, _ = parse(Shapes(), [])
    assert [len(column) for column in parsed[:-1]] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_the_table_grows_by_many_shapes_in_one_batch() -> None:
    shapes = Shapes()
    values = [small(node=f"node-{k}", job_id=f"job-{k // 4}") for k in range(500)]
    assert all(checked(shapes, values * 2))
    assert len(shapes) == 500
    assert [shapes[k].node for k in range(500)] == [f"node-{k}" for k in range(500)]


@pytest.mark.parametrize("limits", [(3, 2**26), (200_000, 300)])
def test_a_full_table_is_emptied_and_says_so(limits: tuple[int, int]) -> None:
    shapes = Shapes(*limits)
    assert all(checked(shapes, [small(node=f"n{k}") for k in range(5)]))
    assert (len(shapes), shapes.generation) == (5, 0)
    assert checked(shapes, [small(node="x")]) == [True]
    assert (len(shapes), shapes.generation) == (1, 1)
    assert shapes[0].node == "x"
    with pytest.raises(IndexError):
        shapes[1]


def test_refused_text_is_asked_once_and_has_no_shape() -> None:
    shapes = Shapes()
    assert checked(shapes, [small(purchase="owned")]) == [False]
    assert checked(shapes, [small(purchase="owned", time_ms=NOW_MS - 1), small()]) == [False, True]
    assert len(shapes) == 2
    for number in (0, -1, 2):
        with pytest.raises(IndexError):
            shapes[number]


def test_after_an_exception_half_way_the_table_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    shapes = Shapes()
    checked(shapes, [small()])
    with monkeypatch.context() as patch:
        patch.setattr("streams.engine.coverage.shapes.decode", fail)
        with pytest.raises(MemoryError):
            parse(shapes, [small(node="m")])
    assert checked(shapes, [small(node="m"), small()]) == [True, True]
    assert shapes.generation == 1
