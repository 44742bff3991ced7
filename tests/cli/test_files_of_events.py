"""Files of events and of prices: read in every form, keyed as the contract says, refused by line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from streams.cli.publish import outgoing
from streams.errors import WrongUseError
from streams.keys import key_of
from streams.topics import Topic
from tests.price_records import price_records

NOW_MS = 1_800_000_000_000
PRICE: dict[str, object] = {
    "sku": "h100",
    "component": "gpu",
    "usd": "2.50",
    "per": "gpu_hour",
    "effective_ms": 1_700_000_000_000,
}


@pytest.mark.parametrize(
    ("topic", "value", "key"),
    [
        (Topic.JOBS, {"job_id": "j", "node": "n"}, "j"),
        (Topic.GPU, {"job_id": "j", "node": "n"}, "j"),
        (Topic.GPU, {"job_id": "", "node": "n"}, "n"),
        (Topic.GPU, {"node": "n"}, "n"),
        (Topic.NETWORK, {"job_id": "j"}, "j"),
        (Topic.STORAGE, {"job_id": "j"}, "j"),
        (Topic.NODES, {"node": "n", "job_id": "j"}, "n"),
        (Topic.PRICES, {"sku": "s", "effective_ms": 7}, "s@7"),
        (Topic.CONTROLS, {"kind": "owner", "name": "ada"}, "owner/ada"),
        (Topic.JOBS, {"specversion": "1.0", "id": "1", "data": {"job_id": "j"}}, "j"),
        (Topic.JOBS, {}, ""),
        (Topic.JOBS, {"job_id": {"no": "text"}}, ""),
    ],
)
def test_key_of_every_topic(topic: Topic, value: dict[str, object], key: str) -> None:
    assert key_of(topic, json.dumps(value).encode()) == key.encode()


def test_key_of_what_is_no_object_is_empty() -> None:
    assert key_of(Topic.JOBS, b"[1]") == key_of(Topic.JOBS, b"nonsense") == b""


def test_value_goes_on_byte_by_byte(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text(
        '{"topic": "trainfare.jobs", "value": {"job_id": "j",  "x": 1.10}, "headers": {"a": "b"}}\n\n'
    )
    assert list(outgoing(file, "trainfare.")) == [
        (Topic.JOBS, b"j", b'{"job_id": "j",  "x": 1.10}', [("a", b"b")])
    ]


def test_null_is_a_tombstone(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text('{"topic": "controls", "value": null}\n')
    assert next(outgoing(file, ""))[2] is None


def test_packed_files_are_the_same_events(tmp_path: Path) -> None:
    line = b'{"topic": "nodes", "value": {"node": "n"}}\n'
    (tmp_path / "e.jsonl").write_bytes(line)
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "e.jsonl.zst").write_bytes(zstandard.compress(line))
    plain, *packed = [list(outgoing(tmp_path / f"e.jsonl{end}", "")) for end in ("", ".gz", ".zst")]
    assert plain
    assert packed == [plain, plain]


def price_file(tmp_path: Path, name: str, content: str) -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.jsonl", json.dumps(PRICE) + "\n"),
        ("p.json", json.dumps([PRICE], indent=2)),
        ("p.csv", "sku,component,usd,per,effective_ms,region\nh100,gpu,2.50,gpu_hour,1700000000000,\n"),
        ("p.jsonl", json.dumps({"topic": "prices", "value": PRICE})),
    ],
)
def test_prices_in_every_form(name: str, content: str, tmp_path: Path) -> None:
    (record,) = price_records(price_file(tmp_path, name, content), NOW_MS)
    assert record.key == b"h100@1700000000000"
    assert json.loads(record.value) == {
        **PRICE,
        "id": "h100@1700000000000",
        "source": "trainfare prices load",
        "time_ms": NOW_MS,
    }


def test_what_a_record_names_stays(tmp_path: Path) -> None:
    named = {**PRICE, "id": "i", "source": "s", "time_ms": 1_700_000_000_000}
    (record,) = price_records(price_file(tmp_path, "p.jsonl", json.dumps(named)), NOW_MS)
    assert json.loads(record.value) == named


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.jsonl", json.dumps(PRICE) + "\n" + json.dumps({**PRICE, "usd": "-1"}), "line 2: field `usd`"),
        (
            "p.json",
            f"[\n{json.dumps(PRICE)},\n{json.dumps({**PRICE, 'per': 'mile'})}\n]",
            "line 3: field `per`",
        ),
        ("p.csv", "sku,component,usd,per,effective_ms\nh,gpu,-1,gpu_hour,1\n", "line 2: field `usd`"),
        ("p.csv", "sku,usd,per,from\nh,1,gpu_hour,,3\n", "line 2: more cells"),
        ("p.jsonl", "nonsense\n", "line 1: not a JSON object"),
        ("p.json", "[1,", "not a JSON array"),
        ("p.json", "[\n1\n]", "line 2: not a JSON object"),
        ("p.jsonl", "\n", "no price records"),
        ("p.jsonl", '{"topic": "jobs", "value": {}}', "line 1: topic 'jobs'"),
        ("p.jsonl", json.dumps({**PRICE, "time_ms": NOW_MS + 400_000}), "line 1"),
    ],
)
def test_faulty_prices_are_named_by_line_and_field(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    path = price_file(tmp_path, name, content)
    with pytest.raises(WrongUseError) as caught:
        price_records(path, NOW_MS)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
