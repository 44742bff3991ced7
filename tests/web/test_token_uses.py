"""When and from where a token was used last is stored, of all workers, and outlives each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.token_use_table import TOKEN_USES
from sinks.clickhouse import ClickHouseStore
from streams.web.errors import ApiError
from streams.web.store_reader import StoreReader
from streams.web.token_uses import TokenUse, TokenUses
from tests.worker.ledger_lab import opened


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("uses"))) as found:
        yield found


def test_the_last_use_is_that_of_the_worker_that_saw_it_last(store: ClickHouseStore) -> None:
    async def go() -> None:
        reader = StoreReader(lambda: store, "uses", 1)
        first, second, third = TokenUses(), TokenUses(), TokenUses()
        first.note("jobs", "10.0.0.1", 5)
        first.note("old", "10.0.0.1", 1)
        second.note("jobs", "10.0.0.2", 9)
        await second.store(reader)
        await first.store(reader)  # later, of an earlier use
        await first.store(reader)  # nothing is new
        expected = {"jobs": TokenUse(9, "10.0.0.2"), "old": TokenUse(1, "10.0.0.1")}
        for uses in (first, second, third):
            assert await uses.of_all_workers(reader) == expected
        assert store.select(TOKEN_USES).num_rows == 2
        first.note("jobs", "10.0.0.3", 20)  # not stored yet, and known here
        assert (await first.of_all_workers(reader))["jobs"] == TokenUse(20, "10.0.0.3")
        assert (await third.of_all_workers(reader))["jobs"] == TokenUse(9, "10.0.0.2")
        await reader.close()

    asyncio.run(go())


def test_what_a_store_did_not_take_is_stored_later(
    store: ClickHouseStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        there: list[ClickHouseStore | None] = [None]
        reader, uses = StoreReader(lambda: there[0], "uses", 1), TokenUses()
        uses.note("late", "10.0.0.1", 5)
        with pytest.raises(ApiError):
            await uses.store(reader)
        await uses.store_or_say(reader)
        assert "the last uses of tokens are not stored yet" in caplog.text
        uses.note("late", "10.0.0.2", 7)
        there[0] = store
        await uses.store(reader)
        assert (await TokenUses().of_all_workers(reader))["late"] == TokenUse(7, "10.0.0.2")
        await reader.close()

    asyncio.run(go())
