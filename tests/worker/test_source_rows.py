"""Rows of `sources`, and that what sources say is in force for nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from schemas.change_tables import CHANGES
from schemas.control_table import CONTROLS
from schemas.events import ControlEvent
from schemas.source_table import SOURCES
from sinks.clickhouse import ClickHouseStore
from streams.engine.pricing.book import PriceBook
from streams.worker.reference.reference_reader import ReferenceChanges, ReferenceReader
from streams.worker.storing.source_rows import source_table
from streams.worker.storing.unsharded_rows import reference_rows
from tests.schemas.test_sources import NOW_MS, TOLD
from tests.worker.lab import Lab, until
from tests.worker.ledger_lab import opened
from tests.worker.test_reference_reader import read

SAID = ControlEvent(
    "t", "s1", NOW_MS, "source", "slurm",
    {name: TOLD[name] for name in ("polls", "entries", "examples", "standing")},
)  # fmt: skip
OWNER = ControlEvent("t", "o", 1, "owner", "ada", {"webhook": "https://example.org/"})
Records = list[tuple[int, bytes, ControlEvent | None]]


def test_one_row_for_each_class_and_reason() -> None:
    rows = source_table([(NOW_MS + 5, b"source/slurm", SAID)], [7]).to_pylist()
    shown = [
        (row["entry_class"], row["reason"], row["entries"], row["example"], row["standing"]) for row in rows
    ]
    assert shown == [
        ("metered", "", 5, "", False),
        ("not_understood", "unknown_gres", 1, "job 7 holds gres/npu", True),
        ("free", "no_gpu", 2, "", False),
    ]
    assert {(row["name"], row["offset"], row["polls"], row["removed"], row["version"]) for row in rows} == {
        ("slurm", 7, 3, False, 8)
    }


def test_sources_what_people_set_and_what_changed_are_rows_of_three_tables() -> None:
    log: Records = [
        (1, b"source/a", SAID),
        (2, b"owner/ada", OWNER),
        (3, b"source/b", OWNER),
        (4, b"source/a", None),
    ]
    changes = ReferenceChanges(
        PriceBook.empty(), {}, [], [], 0, 0, {}, control_log=log, control_offsets=[4, 5, 6, 7]
    )
    found = {
        each.table: (each.token, each.rows.column("offset").to_pylist()) for each in reference_rows(changes)
    }
    assert found == {
        CONTROLS: ("controls:5:6", [5, 6]),
        CHANGES: ("changes:5:6", [5, 6]),
        SOURCES: ("sources:4:7", [4, 4, 4, 7]),
    }


def test_the_reader_keeps_them_out_of_what_is_in_force(lab: Lab) -> None:
    owner = {"kind": "owner", "name": "ada", "id": "o", "source": "s", "time_ms": 1_700_000_000_000}
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap_servers, "log_level": 0})
    for key, value in ((b"source/slurm", TOLD), (b"owner/ada", owner)):
        producer.produce(f"{lab.kafka.topic_prefix}controls", key=key, value=json.dumps(value).encode())
    assert producer.flush(10) == 0

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        await until(lambda: bool(news) and news[-1].positions.get("controls") == 2)

    news = read(lab, work)
    assert [*news[-1].controls] == [b"owner/ada"]
    assert [key for each in news for _, key, _ in each.control_log] == [b"source/slurm", b"owner/ada"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("sources"))) as found:
        yield found


def test_the_view_is_the_last_record_of_each_source(store: ClickHouseStore) -> None:
    clean = ControlEvent("t", "s2", NOW_MS, "source", "slurm", {"polls": 9, "entries": {"metered": 4}})
    log: Records = [
        (1_000, b"source/slurm", SAID),
        (2_000, b"source/gone", SAID),
        (3_000, b"source/ray", SAID),
        (4_000, b"source/slurm", clean),
        (5_000, b"source/gone", None),
    ]
    for _ in range(2):  # as two workers store them
        store.insert(SOURCES, source_table(log, [*range(5)]), "sources:0:4")
    names = "name, polls, read, metered, free, not_understood, causes"
    rows: list[Any] = [*store.ask(f"SELECT {names} FROM source_accounts ORDER BY name").rows()]
    assert rows == [("ray", 3, 8, 5, 2, 1, ["unknown_gres"]), ("slurm", 9, 4, 4, 0, 0, [])]
