"""The chain of hashes over the audit trail: over a real store, and what each kind of tampering is called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schemas.change_tables import CHANGE_SEALS, CHANGES
from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.rows import Condition
from streams.selfcheck.audit import tables
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


def fault(store: ClickHouseStore) -> str:
    (found,) = tables.chain(lambda sql, bound: store.ask(sql, bound).records())
    return "" if found.ok else found.detail


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


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda _: None, ""),
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


def test_a_chain_goes_on_the_same_whoever_seals_and_in_whatever_pieces(sealed: ClickHouseStore) -> None:
    before = hashes(sealed)
    put(sealed, 20, event(7))
    assert seal(sealed, 12, NOW_MS + 1) == 20
    assert seal(sealed, 20, NOW_MS + 2) == 20
    found = hashes(sealed)
    assert found[:5] == before
    assert len(found) == 6
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
