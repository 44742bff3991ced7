"""The tables and views of this version, empty: statements are checked against them where no store can be asked."""

from __future__ import annotations

from schemas.tables import SCHEMAS
from sinks.clickhouse.migrate import LEDGER, shipped
from sinks.clickhouse.view_files import shipped_views
from sinks.query.wire import KnownTables


def empty_tables(database: str) -> KnownTables:
    """The statements that create them, and their names."""
    views = shipped_views()
    return KnownTables(
        {**dict.fromkeys((*SCHEMAS, "migrations"), False), **{view.name: True for view in views}},
        database,
        [
            LEDGER,
            *(statement for migration in shipped() for statement in migration.statements()),
            *(f"CREATE VIEW `{view.name}` AS\n{view.select}" for view in views),
        ],
    )
