"""The store of the meter in a ClickHouse, a server or embedded: one object for rows, snapshots and SQL."""

import logging
import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa
from clickhouse_connect.driver.client import Client

from sinks.answer import QueryResult
from sinks.archive import Archive
from sinks.clickhouse import arrow_file, infile, select
from sinks.clickhouse.answer import ask
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.damage import LostPart, drop_part, lost_parts
from sinks.clickhouse.insert import SETTINGS, Piece, pieces
from sinks.clickhouse.migrate import create_database, migrate, shipped
from sinks.clickhouse.months import drop_months, months_before
from sinks.clickhouse.tuning import tune
from sinks.clickhouse.view_files import shipped_views
from sinks.conform import conform
from sinks.errors import SinkBusy
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Condition
from sinks.snapshots import Snapshots
from sinks.target import Embedded, Target

logger = logging.getLogger(__name__)


class ClickHouseStore:
    """Rows, snapshots, archive and SQL of one database. Calls block; any thread may call.

    Opening it creates the database, applies migrations and makes changed views anew.

    Raises:
        StoreUnreachable: Nobody answers.
        StoreInUse: Another process has the directory open.
        StoreMismatch: Another version created it.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection = ClickHouseConnection(target, target.database)
        self._reader: ClickHouseConnection | None = None
        self._lock = threading.Lock()
        self.snapshots = Snapshots(self)
        self.archive = Archive(self)
        self.readback = Readback(self)
        self.meta = Meta(self, str(target))
        #: Parts that the engine had detached when the store was opened: their rows are missing.
        self.lost_parts: list[LostPart] = []
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store the rows, in as many inserts as their months and number require; see `rows.Rows`."""
        for piece in pieces(table, conform(table, rows), token):
            self._insert(table, piece)

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Current rows, ordered by key."""
        return conform(table, self.query(*select.select(table, where, columns, limit)), columns)

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of matching rows, 0 if there are none."""
        versions: list[int] = self.query(*select.newest_version(table, where))["newest"].to_pylist()
        return versions[0] if versions else 0

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Delete rows; they are gone on return (without `wait`: later), and leave the disk at the next merge."""
        sql, parameters = select.delete(table, where, wait=wait)
        self._connection.change(sql, parameters)

    def forget_part(self, part: LostPart) -> None:
        """Delete the files of a detached part."""
        drop_part(self._connection, part)
        self.lost_parts = lost_parts(self._connection)

    def months_before(self, table: str, before: int) -> list[int]:
        """The months of a table before one (202611: November 2026)."""
        return months_before(self._connection, table, before, self.target.database)

    def drop_months(self, table: str, before: int) -> list[int]:
        """Drop the months of a table before one (202611: November 2026), and return them."""
        return drop_months(self._connection, table, before, self.target.database)

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own read-only SQL; DateTime columns are returned as uint32 seconds."""
        bound = dict(parameters or {})
        return self._connection.call(lambda client: client.query_arrow(sql, parameters=bound))

    def ask(
        self,
        sql: str,
        parameters: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Run our own read-only SQL in ClickHouse's read-only mode; return values with their column types.

        `settings`: of this statement, beside those of the session.

        SQL of users goes to `sinks.query`.

        Raises:
            QueryFailed: ClickHouse could not run it.
        """
        with self._lock:
            if self._reader is None:
                self._reader = ClickHouseConnection(self.target, self.target.database, read_only=True)
        return self._reader.call(lambda client: ask(client, sql, parameters, settings))

    def close(self) -> None:
        """Close all clients and release the directory."""
        if self._reader is not None:
            self._reader.close()
        self._connection.close()

    def _insert(self, table: str, piece: Piece) -> None:
        def send(client: Client) -> None:
            if isinstance(self.target, Embedded):
                infile.insert(client, table, piece)
                return
            settings = {**SETTINGS, "insert_deduplication_token": piece.token}
            file = arrow_file.file_of(piece.rows, compress=self.target.compress)
            summary = client.raw_insert(f"`{table}`", piece.rows.schema.names, file, settings, "Arrow")
            if not summary.query_id():
                # For example a proxy's page with status 200: counted as an acknowledgement, it would lose the rows.
                raise SinkBusy(f"{self.target} did not acknowledge an insert: the answer is not ClickHouse's")

        self._connection.call(send)

    def _prepare(self) -> None:
        create_database(self._connection, self.target.database)
        migrate(self._connection, self.target.database, shipped(), shipped_views())
        self.lost_parts = lost_parts(self._connection)
        for part in self.lost_parts:
            logger.error(
                "part was set aside, its rows are missing",
                extra={
                    "store": str(self.target),
                    "part": str(part),
                    "runbook": "docs/backup.md#a-part-was-set-aside",
                },
            )
        if isinstance(self.target, Embedded):
            tune(self._connection)
