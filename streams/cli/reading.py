"""Questions to the store of a meter: opened for one command, read, closed.

It must not write; nor make a store where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sinks.clickhouse import Answer, ClickHouseStore, Embedded, Server, Target
from streams.config import ClickHouseSettings
from streams.errors import WrongUseError
from streams.explain.spans import stored_job
from streams.pipeline.blobs import JobBlob

_PATIENCE_S = 3.0
"""A person waits: a server that does not answer is named soon."""


class Reader:
    """SQL with bound parameters, answered in Python values."""

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store

    def ask(self, sql: str, **parameters: object) -> Answer:
        """Return the answer; `{name:Type}` in the SQL takes the parameter of that name."""
        return self._store.ask(sql, parameters)

    def records(self, sql: str, **parameters: object) -> list[dict[str, object]]:
        """Return the answer's rows as objects."""
        answer = self.ask(sql, **parameters)
        return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]

    def state_of(self, job_id: str) -> JobBlob | None:
        """The job's state as its shard last stored it; None if there is none."""
        found = self.records("SELECT shard FROM jobs FINAL WHERE job_id = {job:String}", job=job_id)
        return stored_job(self._store, int(str(found[0]["shard"])), job_id) if found else None


@contextmanager
def reader(settings: ClickHouseSettings) -> Iterator[Reader]:
    """Open the store that the settings name."""
    store = ClickHouseStore(_target(settings))
    try:
        yield Reader(store)
    finally:
        store.close()


def _target(settings: ClickHouseSettings) -> Target:
    if settings.data_dir is None:
        return Server(
            url=settings.url,
            database=settings.database,
            user=settings.user,
            password=settings.password.get_secret_value(),
            retry_for_s=_PATIENCE_S,
        )
    target = Embedded(data_dir=settings.data_dir, database=settings.database, retry_for_s=_PATIENCE_S)
    if not target.engine_dir.is_dir():
        raise WrongUseError(
            f"--data {settings.data_dir}: no meter's data there; name the directory given to "
            "`trainfare replay` or `trainfare worker`"
        )
    return target
