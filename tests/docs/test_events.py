"""The pages of events is what the wire structs say; its topics, keys, examples and reasons are those of the code."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_type_hints

import msgspec
import pytest
from msgspec import Meta, Struct

from schemas.decode import RECORD_MAX_BYTES, WIRES, decode
from schemas.events import MATCH_FIELDS, ControlEvent, JobEvent, JobType
from schemas.events_docs import documented, example, render
from schemas.events_text import REASONS, TOPICS
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.wire import BudgetWire, PricedWire, Wire
from schemas.wire_types import Doc
from streams.engine.timeline.states import held_after, state_after
from streams.keys import key_of
from streams.topics import SHARD_TOPICS, Topic, partition_count, topic_config
from streams.transport.admin import DEAD_LETTER_TOPIC
from streams.worker.storing.dead_letters import message_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text() for name in render())
LATER_MS = 2**42
PARTITIONS = 99
STRUCTS = [*WIRES.values(), BudgetWire]


def _section(title: str) -> str:
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(("| `", "| [`"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# -- generated ------------------------------------------------------------------------------------------------


def test_the_pages_are_current() -> None:
    """Run `make docs` where this fails."""
    assert render() == {name: (DOCS / name).read_text() for name in render()}


@pytest.mark.parametrize("topic", sorted(WIRES))
def test_every_field_of_a_record_is_told(topic: str) -> None:
    told = {row[0].strip("`"): row for row in _rows(_section(topic)) if len(row) == 6}
    above = {row[0].strip("`") for title in ("Common fields", "Price fields") for row in _rows(_sub(title))}
    for field in msgspec.structs.fields(WIRES[topic]):
        assert field.name in told.keys() | above | {"specversion"}
        if field.name in told:
            assert told[field.name][1] == ("yes" if field.required else "no")


def _sub(title: str) -> str:
    return PAGE.partition(f"\n### {title}\n")[2].partition("\n##")[0]


def test_the_common_and_the_price_fields_are_those_of_the_structs() -> None:
    for title, struct in (("Common fields", Wire), ("Price fields", PricedWire)):
        told = [row[0].strip("`") for row in _rows(_sub(title))]
        assert told == [name for name in struct.__annotations__ if name != "specversion"]


class _Nothing(Struct):
    """A record to which somebody adds a field."""

    node: Annotated[str, Meta(description="a string")]


class _NoUnit(Struct):
    size: Annotated[int | None, Meta(description="an integer"), Doc("how large it is", 5)] = None


class _Told(Struct):
    size: Annotated[int | None, Meta(description="an integer"), Doc("how large it is", 5, "GPUs")] = None


def test_a_field_without_a_meaning_fails() -> None:
    with pytest.raises(LookupError, match=r"_Nothing\.node has no Doc"):
        documented(_Nothing)


def test_a_number_without_a_unit_fails() -> None:
    with pytest.raises(LookupError, match=r"_NoUnit\.size is a number"):
        documented(_NoUnit)
    assert documented(_Told)["size"].unit == "GPUs"


# -- examples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", sorted(WIRES))
def test_the_example_of_a_topic_is_an_event(topic: str) -> None:
    shown = json.loads(re.findall(r"```json\n(.*?)```", _section(topic), re.DOTALL)[-1])
    assert shown == example(topic)
    event = decode(topic, json.dumps(shown).encode(), [], LATER_MS)
    assert not isinstance(event, Invalid), event


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_the_example_of_a_field_is_of_its_type(struct: type[Struct]) -> None:
    hints = get_type_hints(struct, include_extras=True)
    for name, doc in documented(struct).items():
        msgspec.convert(doc.example, hints[name])


def test_an_example_of_another_type_would_show() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert("ten", get_type_hints(WIRES["gpu"], include_extras=True)["interval_ms"])


def test_the_envelope_on_the_page_is_taken_off() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", _sub("CloudEvents"), re.DOTALL)
    event = decode("jobs", shown.encode(), [], LATER_MS)
    assert isinstance(event, JobEvent)
    assert (event.source, event.id) == ("slurm/main", "e1")
    assert datetime.fromtimestamp(event.time_ms / 1000, UTC) == datetime(2026, 6, 1, 10, tzinfo=UTC)


# -- topics and keys ------------------------------------------------------------------------------------------


def test_every_topic_is_told_with_its_partitions_and_cleanup() -> None:
    told = {_names(row[0])[0]: (row[1].strip("`"), row[2]) for row in _rows(_topics())}
    expected = {
        str(topic): (
            "1" if partition_count(topic, PARTITIONS) == 1 else "kafka.partitions",
            topic_config(topic).get("cleanup.policy", "delete"),
        )
        for topic in Topic
    }
    assert told == {**expected, DEAD_LETTER_TOPIC: ("1", "delete")}


def _topics() -> str:
    return PAGE.partition("\n## Topics\n")[2].partition("\n##")[0]


@pytest.mark.parametrize("topic", list(Topic))
def test_the_key_of_a_topic_is_made_of_the_fields_told(topic: Topic) -> None:
    (cell,) = [row[3] for row in _rows(_topics()) if _names(row[0]) == [str(topic)]]
    record = example(topic)
    fields = _names(cell.partition(", of idle")[0])
    told = "".join(str(record[name]) if name in record else name for name in fields)
    assert key_of(topic, json.dumps(record).encode()) == told.encode()


def test_idle_gpus_are_keyed_by_their_node() -> None:
    idle = {**example("gpu"), "job_id": ""}
    assert key_of(Topic.GPU, json.dumps(idle).encode()) == idle["node"].encode()


def test_the_first_five_topics_are_those_of_the_shards() -> None:
    assert [_names(row[0])[0] for row in _rows(_topics())][:5] == [str(topic) for topic in SHARD_TOPICS]


# -- what stands in words -------------------------------------------------------------------------------------


def test_the_types_of_jobs_do_what_is_told() -> None:
    rows = _rows(TOPICS["jobs"])
    assert {name for row in rows for name in _names(row[0])} == set(JobType.__members__)
    for types, state, gpus in rows:
        for name in _names(types):
            event = JobEvent("s", "1", 0, "j", 1, JobType[name])
            told = [name] if state.startswith("ended") else _names(state)
            assert state_after(event, "before") == (told[0] if told else "before"), name
            stays = "as before" in gpus
            assert held_after(event, held=True) == (stays or gpus.startswith("held")), name
            assert held_after(event, held=False) == (not stays and gpus.startswith("held")), name


def test_the_match_fields_of_prices_are_told() -> None:
    named = set(_names(TOPICS["prices"].partition("are match fields")[0]))
    assert named == set(MATCH_FIELDS) - set(documented(PricedWire))


def test_the_kinds_of_controls_are_told() -> None:
    kinds = [_names(row[0])[0] for row in _rows(TOPICS["controls"])]
    assert sorted(kinds) == sorted(_names_of_kinds())


def _names_of_kinds() -> list[str]:
    found = []
    for kind in (
        "owner",
        "budget",
        "silence",
        "planned",
        "override",
        "rule",
        "ack",
        "receipt",
        "operator",
        "source",
        "token",
        "request",
        "deed",
    ):
        record = {**example("controls"), "alert_id": "al_" + 24 * "0", "kind": kind}
        if kind == "source":
            own = {name: record[name] for name in ("id", "source", "time_ms", "name", "kind")}
            record = {**own, "polls": 1, "entries": {}}
        if kind == "request":
            own = {name: record[name] for name in ("id", "source", "time_ms", "name", "kind")}
            record = {**own, "control": {}, "by": "token/ada", "until_ms": 1}
        if kind == "deed":
            own = {name: record[name] for name in ("id", "source", "time_ms", "name", "kind")}
            record = {**own, "act": "repair", "what": "minutes", "count": 1, "by": "root at host"}
        if kind == "token":
            own = {name: record[name] for name in ("id", "source", "time_ms", "name", "kind")}
            record = {**own, "hash": 64 * "0", "scopes": ["ingest"]}
        event = decode("controls", json.dumps(record).encode(), [], LATER_MS)
        found += [kind] if isinstance(event, ControlEvent) else []
    return found


def test_every_reason_is_told_and_no_other() -> None:
    assert set(REASONS) == set(Reason)
    assert [_names(row[0])[0] for row in _rows(_sub("Reasons of dead letters"))] == [str(r) for r in Reason]


def test_the_message_of_a_dead_letter_has_the_fields_told() -> None:
    row = {"topic": "gpu", "partition": 3, "offset": 5, "reason": "future", "detail": "d", "raw": b"{}"}
    key, text = message_of(row, 7)
    binary = json.loads(message_of({**row, "raw": b"\xff"}, 7)[1])
    told = [name for line in _rows(_section("deadletter").partition("###")[0]) for name in _names(line[0])]
    assert set(told) == set(json.loads(text))
    assert set(binary) - set(told) == {"raw_base64"}
    assert key == b"gpu/3/5"


def test_the_limits_of_a_record_are_those_told() -> None:
    assert RECORD_MAX_BYTES == 2**20
    assert "of 1 MiB and 256 levels of nesting at most" in PAGE
