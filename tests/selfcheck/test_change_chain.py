"""The chain of hashes over the audit trail: over a real store, and what each kind of tampering is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from schemas.change_tables import CHANGE_SEALS, CHANGES, SCHEMAS
from schemas.columns import instants
from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.rows import Condition
from streams.selfcheck.audit import tables
from streams.selfcheck.change_chain import Seal
from streams.selfcheck.seals import END_SQL, seal
from streams.worker.storing.change_rows import Origin, change_table

NOW_MS = 1_780_308_000_000
LEAD = Origin("10.0.0.7", "issued token")


def event(number: int, kind: str = "silence", **value: object) -> ControlEvent:
    return ControlEvent(
        "trainfare/web", f"web_{number}", NOW_MS, kind, f"n{number}", {"by": "token/lead", **value}
    )


def put(store: ClickHouseStore, offset: int, made: ControlEvent | None, origin: Origin = LEAD) -> None:
    key = f"{'silence' if made is None else made.kind}/n".encode()
    store.insert(
        CHANGES, change_table([(NOW_MS, key, made)], [offset], [origin]), f"changes:{offset}:{made}:{origin}"
    )


def found(store: ClickHouseStore, noted: Sequence[Seal] = ()) -> tuple[bool, str]:
    """Whether the trail is right, and what is said of it."""
    (one,) = tables.chain(lambda sql, bound: store.ask(sql, bound).records(), noted)
    return one.ok, one.detail


def fault(store: ClickHouseStore, noted: Sequence[Seal] = ()) -> str:
    is_right, said = found(store, noted)
    return "" if is_right else said


def test_the_newest_change_is_found_by_the_end_of_the_table(store: ClickHouseStore) -> None:
    many = 100_000
    rows = change_table([(NOW_MS, b"silence/n", event(1))] * many, range(many), [LEAD] * many)
    store.insert(CHANGES, rows, "many")
    read_few = ", max_rows_to_read = 20000"
    assert [*store.ask(END_SQL + read_few).rows()] == [(many - 1,)]
    with pytest.raises(QueryFailed, match="TOO_MANY_ROWS"):
        store.ask(f"SELECT max(offset) FROM changes FINAL SETTINGS final = 1{read_few}")


def hashes(store: ClickHouseStore) -> list[tuple[object, ...]]:
    return [*store.ask("SELECT offset, hash FROM change_seals FINAL ORDER BY offset").rows()]


@pytest.fixture
def sealed(store: ClickHouseStore) -> ClickHouseStore:
    for number in range(5):
        put(store, number * 3, event(number, team="vision", comment="benchmark"))
    newest = seal(store, -1, NOW_MS)
    assert newest == 12, "nothing is sealed before it has settled"
    assert hashes(store) == []
    seal(store, newest, NOW_MS)
    assert len(hashes(store)) == 5
    return store


def _altered(store: ClickHouseStore) -> None:
    store.delete(CHANGES, [Condition("offset", "=", 6)])
    put(store, 6, event(2, team="vision", comment="benchmark"), Origin("10.0.0.8", "issued token"))


def _taken(store: ClickHouseStore) -> None:
    store.delete(CHANGES, [Condition("offset", "=", 6)])


def _taken_with_its_seal(store: ClickHouseStore) -> None:
    _taken(store)
    store.delete(CHANGE_SEALS, [Condition("offset", "=", 6)])


def _exchanged(store: ClickHouseStore) -> None:
    for offset in (3, 6):
        store.delete(CHANGES, [Condition("offset", "=", offset)])
    put(store, 3, event(2, team="vision", comment="benchmark"), Origin("10.0.0.7", "issued token"))
    put(store, 6, event(1, team="vision", comment="benchmark"), Origin("10.0.0.7", "issued token"))


def _cut_off(store: ClickHouseStore) -> None:
    store.delete(CHANGES, [Condition("offset", ">", 6)])


def _cut_off_with_seals(store: ClickHouseStore) -> None:
    _cut_off(store)
    store.delete(CHANGE_SEALS, [Condition("offset", ">", 6)])


def _first_taken_with_its_seal(store: ClickHouseStore) -> None:
    for table in (CHANGES, CHANGE_SEALS):
        store.delete(table, [Condition("offset", "=", 0)])


def _seal_altered(store: ClickHouseStore) -> None:
    (before,) = [row[1] for row in hashes(store) if row[0] == 6]
    store.delete(CHANGE_SEALS, [Condition("offset", "=", 6)])
    rows = {"offset": [6], "time": instants([NOW_MS]), "hash": [str(before)[::-1]], "version": [7]}
    store.insert(CHANGE_SEALS, pa.Table.from_pydict(rows, schema=SCHEMAS[CHANGE_SEALS]), "another")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda _: None, ""),
        (_exchanged, "a change was altered: offset 3"),
        (_cut_off, "a change was taken away: offset 9"),
        (_first_taken_with_its_seal, "a change was altered: offset 3"),
        (_seal_altered, "a change was altered: offset 6"),
        (_altered, "a change was altered: offset 6"),
        (_taken, "a change was taken away: offset 6"),
        (_taken_with_its_seal, "a change was altered: offset 9"),
        (lambda store: put(store, 7, event(9)), "a change was put in between others: offset 7"),
    ],
)
def test_what_is_not_as_it_was_sealed_is_named(
    sealed: ClickHouseStore, tamper: Callable[[ClickHouseStore], None], said: str
) -> None:
    tamper(sealed)
    assert fault(sealed).startswith(said)
    assert bool(fault(sealed)) == bool(said)


def test_what_was_noted_elsewhere_shows_that_the_end_was_cut_off_or_the_chain_made_anew(
    sealed: ClickHouseStore,
) -> None:
    noted = [Seal(int(str(offset)), str(digest)) for offset, digest in hashes(sealed)][-1:]
    assert fault(sealed, noted) == ""
    _cut_off_with_seals(sealed)
    assert fault(sealed) == ""  # the tables agree with each other
    assert fault(sealed, noted).startswith(f"the hash {noted[0].hash[:16]}... that was noted of offset 12")
    for number in (3, 4):
        put(sealed, number * 3, event(number, team="speech", comment="benchmark"))
    seal(sealed, 12, NOW_MS)
    assert (len(hashes(sealed)), fault(sealed)) == (5, "")
    assert fault(sealed, noted) != ""


def test_changes_without_a_seal_are_said(sealed: ClickHouseStore) -> None:
    _, said = found(sealed)
    assert said.startswith("5 changes are as they were sealed; note 12:")
    put(sealed, 20, event(7))
    assert "5 changes are as they were sealed, 1 later without a seal so far; note 12:" in found(sealed)[1]
    sealed.delete(CHANGE_SEALS, [Condition("offset", ">=", 0)])
    assert found(sealed)[1].startswith("0 changes are as they were sealed, 6 later without a seal so far")


def test_a_chain_goes_on_the_same_whoever_seals_and_in_whatever_pieces(sealed: ClickHouseStore) -> None:
    before = hashes(sealed)
    put(sealed, 20, event(7))
    assert seal(sealed, 12, NOW_MS + 1) == 20
    assert seal(sealed, 20, NOW_MS + 2) == 20
    now = hashes(sealed)
    assert now[:5] == before
    assert len(now) == 6
    assert fault(sealed) == ""


def test_no_address_or_hash_is_in_a_row() -> None:
    secret = "https://hooks.example.com/secret"
    made = [
        event(1, "owner", webhook=secret),
        event(2, "team", slack=secret),
        event(3, "token", hash=secret, scopes=["ingest"]),
        event(4, "budget", webhook=secret, usd="5"),
    ]
    rows = change_table([(NOW_MS, b"k/n", each) for each in made], [1, 2, 3, 4], [LEAD] * 4).to_pylist()
    assert secret not in str(rows)
    asked = event(5, "request", control={"kind": "budget", "usd": "5", "webhook": secret}, until_ms=9)
    (row,) = change_table([(NOW_MS, b"k/n", asked)], [5], [LEAD]).to_pylist()
    assert row["after"] == '{"control":{"kind":"budget","usd":"5","webhook":"***"},"until_ms":9}'
    assert rows[2]["after"] == '{"hash":"***","scopes":["ingest"]}'
    assert {(row["by"], row["proof"], row["address"]) for row in rows} == {
        ("token/lead", "issued token", "10.0.0.7")
    }
