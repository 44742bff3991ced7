"""Names, ids and labels are at most 256 bytes of UTF-8, and at most 64 stand together: on every way into the meter."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from tests.schemas.records import FULL, NOW_MS, decoded, record, refused

NEWEST_MS = NOW_MS + 300_000
PRICED = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type")
TEXTS: dict[str, tuple[str, ...]] = {
    "jobs": ("id", "source", *PRICED, "owner", "team", "project", "experiment", "run_id", "work_dir"),
    "gpu": ("id", "source", "node", *PRICED),
    "network": ("id", "source", "cloud", "region", "dst_region"),
    "storage": ("id", "source", "cloud", "region", "storage_class"),
    "nodes": ("id", "source", "node", *PRICED),
    "prices": ("id", "source", "sku", *PRICED, "team", "project", "storage_class"),
    "controls": ("id", "source", "name", "owner", "anything"),
}
FIELDS = [(topic, field) for topic, fields in TEXTS.items() for field in fields]
#: One of 256 bytes and one of more, in one, two, three and four bytes a character.
FIT = ["x" * 256, "é" * 128, "€" * 85, "😀" * 64, "\x01" * 256]
TOO_LONG = ["x" * 257, "é" * 128 + "x", "€" * 86, "😀" * 64 + "x", "x" * 300_000]


def encoded(value: dict[str, Any], ascii_only: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only).encode()


@pytest.mark.parametrize(("topic", "field"), FIELDS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_name_of_256_bytes_is_taken_and_a_longer_one_refused_with_its_field(
    topic: str, field: str, ascii_only: bool
) -> None:
    for text in FIT:
        result = decoded(topic, encoded(record(topic, **{field: text}), ascii_only))
        assert not isinstance(result, Invalid), (text[:3], result)
    for text in TOO_LONG:
        invalid = refused(topic, encoded(record(topic, **{field: text}), ascii_only))
        assert invalid.reason is Reason.too_long
        assert invalid.detail.startswith(f"field `{field}`: got ")
        assert "at most 256 bytes of UTF-8" in invalid.detail
        assert len(invalid.detail) < 400


@pytest.mark.parametrize("text", TOO_LONG)
@pytest.mark.parametrize(
    ("topic", "build", "field"),
    [
        ("jobs", lambda text: {"labels": {text: "v"}}, "labels (a name in it)"),
        ("jobs", lambda text: {"labels": {"k": text}}, "labels.k"),
        ("jobs", lambda text: {"quality": {text: 1}}, "quality (a name in it)"),
        ("jobs", lambda text: {"progress": {text: 1}}, "progress (a name in it)"),
        ("jobs", lambda text: {"nodes": {text: 8.5}}, "nodes (a name in it)"),
        ("jobs", lambda text: {"budget": {"usd": text}}, "budget.usd"),
        ("gpu", lambda text: {"gpus": ["a", text]}, "gpus[1]"),
        ("gpu", lambda text: {"gpus": ..., "gpu": text, "util_ratio": 0.5}, "gpu"),
        ("controls", lambda text: {"match": {text: "v"}}, "match (a name in it)"),
        ("controls", lambda text: {"match": {"team": text}}, "match.team"),
        ("controls", lambda text: {"actions": ["notify", text]}, "actions[1]"),
    ],
)
def test_names_inside_of_objects_and_arrays(topic: str, build: Any, field: str, text: str) -> None:
    for ascii_only in (True, False):
        invalid = refused(topic, encoded(record(topic, **build(text)), ascii_only))
        assert (invalid.reason, field in invalid.detail) == (Reason.too_long, True), invalid.detail


@pytest.mark.parametrize("text", TOO_LONG)
def test_ids_and_sources_of_an_envelope(text: str) -> None:
    data = record("jobs", id=..., source=...)
    envelope = {"specversion": "1.0", "id": "i", "source": "s", "data": data}
    for field in ("id", "source"):
        structured = refused("jobs", {**envelope, field: text})
        headers = {"ce_specversion": "1.0", "ce_id": "i", "ce_source": "s", f"ce_{field}": text}
        binary = decode(
            "jobs", json.dumps(data).encode(), [(n, v.encode()) for n, v in headers.items()], NEWEST_MS
        )
        assert structured == binary
        assert structured.reason is Reason.too_long
        assert structured.detail.startswith(f"field `{field}`")


@pytest.mark.parametrize(
    ("topic", "field", "most", "item"),
    [
        ("jobs", "labels", 64, "v"),
        ("jobs", "quality", 64, 1.5),
        ("jobs", "progress", 64, 1.5),
        ("controls", "match", 64, "v"),
    ],
)
def test_so_many_may_stand_together(topic: str, field: str, most: int, item: object) -> None:
    fits = {f"k{number}": item for number in range(most)}
    assert not isinstance(decoded(topic, record(topic, **{field: fits})), Invalid)
    invalid = refused(topic, record(topic, **{field: {**fits, "more": item}}))
    assert invalid.reason is Reason.too_long
    assert invalid.detail.startswith(f"field `{field}`: got ")


def test_a_job_may_hold_16384_nodes() -> None:
    nodes = {f"n{number}": 1 for number in range(16_384)}
    assert not isinstance(decoded("jobs", record("jobs", nodes=nodes, gpu_count=16_384)), Invalid)
    invalid = refused("jobs", record("jobs", nodes={**nodes, "more": 1}, gpu_count=16_385))
    assert (invalid.reason, "at most 16384 nodes" in invalid.detail) == (Reason.too_long, True)


def test_a_control_has_at_most_64_fields() -> None:
    own = {name: FULL["controls"][name] for name in ("id", "source", "time_ms", "kind", "name")}
    fields = {f"f{number}": number for number in range(64)}
    assert not isinstance(decoded("controls", {**own, **fields}), Invalid)
    invalid = refused("controls", {**own, **fields, "more": 1})
    assert (invalid.reason, invalid.detail) == (
        Reason.too_long,
        "record: got ***, expected at most 64 entries",
    )


@pytest.mark.parametrize(("field", "most"), [("comment", 1_024), ("webhook", 2_048), ("slack", 2_048)])
def test_comments_and_addresses_may_be_longer(field: str, most: int) -> None:
    assert not isinstance(decoded("controls", record("controls", **{field: "é" * (most // 2)})), Invalid)
    invalid = refused("controls", record("controls", **{field: "é" * (most // 2) + "x"}))
    assert (invalid.reason, f"at most {most} bytes" in invalid.detail) == (Reason.too_long, True)
    nested = refused("controls", record("controls", match={field: "x" * 257}))
    assert nested.reason is Reason.too_long, "only a control's own comment and addresses"


def test_a_job_id_keeps_its_limit_and_its_reason() -> None:
    for topic in ("jobs", "gpu", "network", "storage"):
        assert not isinstance(decoded(topic, record(topic, job_id="é" * 100)), Invalid)
        assert refused(topic, record(topic, job_id="é" * 100 + "x")).reason is Reason.out_of_range
        assert refused(topic, record(topic, job_id="x" * 1_000)).reason is Reason.out_of_range


@pytest.mark.parametrize("topic", sorted(set(FULL) - {"controls"}))
def test_the_short_way_and_the_long_way_agree_on_lengths(topic: str) -> None:
    """The short way counts characters and looks at bytes where it must; the long way always looks at bytes."""
    rng = random.Random(f"lengths of {topic}")
    refusals = 0
    for _ in range(1_500):
        field = rng.choice(TEXTS[topic][2:])
        text = "".join(
            rng.choice("xé€😀\\\x01") for _ in range(rng.choice((60, 64, 85, 100, 128, 250, 256, 257)))
        )
        changed = record(topic, **{field: text})
        headers: list[tuple[str, bytes | None]] = [
            ("ce_specversion", b"1.0"),
            ("ce_id", changed["id"].encode()),
            ("ce_source", changed["source"].encode()),
        ]
        value = encoded(changed, rng.random() < 0.5)
        result = decode(topic, value, (), NEWEST_MS)
        assert result == decode(topic, value, headers, NEWEST_MS)
        assert isinstance(result, Invalid) == (len(text.encode()) > 256)
        refusals += isinstance(result, Invalid)
    assert 300 < refusals < 1_300
