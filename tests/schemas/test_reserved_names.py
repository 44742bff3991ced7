"""Names of the meter's own: nobody else's record has one, however it is written, and nobody passes for the canary."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.reserved import CANARY, CANARY_JOB_PREFIX, GROUPS
from streams.selfcheck.canary.plan import CanaryOptions, events_of, price_at, run_at
from tests.schemas.records import FULL, NOW_MS, record

PROOF = CanaryProof(b"k" * 32)
OTHERS = CanaryProof(b"o" * 32)
RUN = run_at(NOW_MS - 60_000, CanaryOptions(4))
SENT = [price_at(NOW_MS - 120_000), *events_of(RUN)]
NAMED = [
    (topic, field)
    for topic, fields in {
        "jobs": ("source", "job_id", "cloud"),
        "gpu": ("source", "job_id", "node", "cloud"),
        "network": ("source", "job_id", "cloud"),
        "storage": ("source", "job_id", "cloud"),
        "nodes": ("source", "node", "cloud"),
        "prices": ("source", "sku", "cloud"),
    }.items()
    for field in fields
]


def why(topic: str, value: bytes, headers: Any = (), proof: CanaryProof | None = PROOF) -> str:
    event = decode(topic, value, headers, NOW_MS + 300_000, proof)
    return event.reason if isinstance(event, Invalid) else ""


def escaped(value: dict[str, Any]) -> bytes:
    return json.dumps(value).replace("trainfare", "\\u0074rainfare").encode()


@pytest.mark.parametrize("name", [CANARY, f"{CANARY_JOB_PREFIX}x", f"{CANARY}X"])
@pytest.mark.parametrize(("topic", "field"), NAMED)
def test_a_name_of_the_canary_is_nobody_else_s(topic: str, field: str, name: str) -> None:
    value = record(topic, **{field: name})
    assert why(topic, json.dumps(value).encode()) == Reason.reserved_name
    assert why(topic, escaped(value)) == Reason.reserved_name
    assert why(topic, json.dumps(value).encode(), proof=None) == Reason.reserved_name
    said = decode(topic, json.dumps(value).encode(), (), NOW_MS + 300_000)
    assert isinstance(said, Invalid)
    assert said.detail.startswith(f"field `{field}`: got ")
    assert "the meter's own" in said.detail


def test_nor_on_a_node_of_a_job_nor_in_an_envelope() -> None:
    assert (
        why("jobs", json.dumps(record("jobs", nodes={CANARY: 8.5}, gpu_count=8.5)).encode())
        == Reason.reserved_name
    )
    event = {**FULL["jobs"], "job_id": f"{CANARY_JOB_PREFIX}1"}
    base = {"specversion": "1.0", "id": "e", "source": "s", "type": "job.started"}
    data = json.dumps(event).encode()
    structured = {**base, "data": event}
    packed = {**base, "data_base64": base64.b64encode(data).decode()}
    assert why("jobs", json.dumps(structured).encode()) == Reason.reserved_name
    assert why("jobs", json.dumps(packed).encode()) == Reason.reserved_name
    honest = {**FULL["jobs"]}
    for name in ("id", "source"):
        honest.pop(name)
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"e"), ("ce_source", CANARY.encode()), ("ce_type", b"t")]
    assert why("jobs", json.dumps(honest).encode(), headers) == Reason.reserved_name


@pytest.mark.parametrize("field", ["owner", "team", "project", "experiment"])
@pytest.mark.parametrize("name", [*sorted(GROUPS), "Idle", " IDLE "])
def test_a_word_of_the_tables_names_no_group(field: str, name: str) -> None:
    value = record("jobs", **{field: name})
    assert why("jobs", json.dumps(value).encode()) == Reason.reserved_name
    assert why("jobs", json.dumps(value).replace("l", "\\u006c").encode()) in (
        Reason.reserved_name,
        "malformed_json",
    )
    assert why("jobs", json.dumps(record("jobs", **{field: f"{name}x"})).encode()) == ""


@pytest.mark.parametrize(
    "name", ["trainfare-canar", "a.trainfare-canary.1", "Trainfare-canary.1", "trainfare-eval"]
)
def test_a_name_that_no_list_excludes_is_anybody_s(name: str) -> None:
    assert why("jobs", json.dumps(record("jobs", job_id=name)).encode()) == ""


def test_the_canary_s_own_records_are_taken_with_the_key_they_were_signed_by() -> None:
    for topic, _, event in SENT:
        value = PROOF.signed(topic, event)
        assert why(topic, value) == ""
        assert why(topic, value, proof=None) == Reason.reserved_name
        assert why(topic, value, proof=OTHERS) == Reason.reserved_name
        assert PROOF.signed(topic, event) == value, "equal events have equal ids"


def attacks(topic: str, value: bytes) -> dict[str, tuple[str, bytes, Any]]:
    """What somebody can send who has read a record of the canary in Kafka."""
    seen = msgspec.json.decode(value)
    mac = str(seen["id"])[-32:]
    changes: dict[str, dict[str, Any]] = {
        "100 GPUs": {"gpu_count": 100},
        "another node": {"node": "n1"},
        "its job's next event": {"type": "scaled", "gpu_count": 100},
        "later": {"time_ms": seen["time_ms"] + 1},
        "another attempt": {"attempt": 2},
        "priced as another": {"cloud": "aws", "gpu_type": "H100"},
        "more bytes": {"bytes": 10**15},
        "another job": {"job_id": f"{CANARY_JOB_PREFIX}1.1"},
        "another sku": {"sku": f"{CANARY}-b"},
        "its price": {"usd": "0"},
        "a MAC twice": {"labels": {"x": mac}},
        "an id of its own": {"id": f"{CANARY}.mine"},
        "a field that is not known": {"x": 1},
    }
    found: dict[str, tuple[str, bytes, Any]] = {
        name: (topic, json.dumps({**seen, **more}).encode(), ()) for name, more in changes.items()
    }
    twice = value[:-1] + b',"gpu_count":100}'
    found |= {
        "a field twice": (topic, twice, ()),
        "blanks": (topic, value + b" ", ()),
        "with an envelope": (
            topic,
            value,
            [("ce_specversion", b"1.0"), ("ce_id", b"e"), ("ce_source", b"s"), ("ce_type", b"t")],
        ),
        "no MAC": (topic, value.replace(b"." + mac.encode(), b""), ()),
        "a MAC of zeros": (topic, value.replace(mac.encode(), b"0" * 32), ()),
        "an upper-case MAC": (topic, value.replace(mac.encode(), mac.upper().encode()), ()),
    }
    for other in ("jobs", "gpu", "network", "storage"):
        if other != topic:
            found[f"to {other}"] = (other, value, ())
    return found


@pytest.mark.parametrize("index", range(len(SENT)))
def test_what_was_read_in_kafka_is_worth_nothing_but_itself(index: int) -> None:
    topic, _, event = SENT[index]
    value = PROOF.signed(topic, event)
    for name, (where, attack, headers) in attacks(topic, value).items():
        if attack == value and where == topic and not headers:
            continue
        found: Event | Invalid = decode(where, attack, headers, NOW_MS + 300_000, PROOF)
        assert isinstance(found, Invalid), name


NULS = [
    *((topic, {field: "a\0b"}) for topic, field in NAMED),
    ("jobs", {"id": "\0"}),
    ("jobs", {"team": "vision\0"}),
    ("jobs", {"owner": "\0ada"}),
    ("jobs", {"labels": {"a\0": "b"}}),
    ("jobs", {"labels": {"a": "\0"}}),
    ("jobs", {"nodes": {"n\0": 8.5}, "gpu_count": 8.5}),
    ("jobs", {"quality": {"loss\0": 1.0}}),
    ("gpu", {"gpus": ["0", "\0"]}),
    ("gpu", {"id": "a\0"}),
    ("network", {"id": "a\0"}),
    ("controls", {"name": "a\0"}),
    ("controls", {"kind": "budget", "anything": {"deep": ["x\0"]}}),
    ("controls", {"kind": "budget", "any\0thing": 1}),
]


@pytest.mark.parametrize(("topic", "changes"), NULS)
def test_a_nul_byte_is_in_no_name(topic: str, changes: dict[str, Any]) -> None:
    value = json.dumps(record(topic, **changes)).encode()
    assert why(topic, value) == Reason.nul_byte
    found = decode(topic, value, (), NOW_MS + 300_000)
    assert isinstance(found, Invalid)
    assert "\0" not in found.detail
    # As a byte it is no JSON.
    assert why(topic, value.replace(b"\\u0000", b"\0")) == Reason.malformed_json


def test_nor_in_the_attributes_of_an_envelope() -> None:
    bare = {name: each for name, each in FULL["jobs"].items() if name not in ("id", "source")}
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"e"), ("ce_source", b"s\0"), ("ce_type", b"t")]
    assert why("jobs", json.dumps(bare).encode(), headers) == Reason.nul_byte
