"""The meter's store in ClickHouse, a server or embedded. It must not be imported below the doors that wire sinks."""

from sinks.answer import QueryResult
from sinks.clickhouse.store import ClickHouseStore
from sinks.target import Embedded, Server, Target

__all__ = ["ClickHouseStore", "Embedded", "QueryResult", "Server", "Target"]
