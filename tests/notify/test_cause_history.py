"""What a store is asked of the alerts of many causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa

from sinks.rows import Condition
from streams.engine.rules.shared_cause import cause_text
from streams.notify.history import StoredDeliveries
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import Office, an_alert


def test_many_causes_of_long_names_are_asked_in_parts_that_a_store_takes() -> None:
    store, asked = MemoryStore(), list[int]()

    class Counting(MemoryStore):
        def select(self, table: str, where: Sequence[Condition] = (), *rest: Any, **more: Any) -> pa.Table:
            asked.append(len("".join(map(str, cast("Sequence[str]", where[0].value)))))
            return store.select(table, where, *rest, **more)

    there = Office(store=store)
    name = "\ud800" * 60
    causes = [cause_text("sweep", f"{number:04}", name, name, name) for number in range(400)]
    alerts = [an_alert(f"j{number}", shared_cause=cause) for number, cause in enumerate(causes)]
    there.keep(*alerts)
    found = StoredDeliveries(Counting()).of_causes(causes, 0)
    assert sorted(row.shared_cause for row in found) == causes
    assert len(asked) > 5
    assert max(asked) <= 65_536
