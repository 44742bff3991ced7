"""The meter's store in ClickHouse, a server or embedded. Only the modules that wire sinks may import it."""

from sinks.answer import QueryResult
from sinks.clickhouse.store import ClickHouseStore
from sinks.target import Embedded, Server, Target

__all__ = ["ClickHouseStore", "Embedded", "QueryResult", "Server", "Target"]
