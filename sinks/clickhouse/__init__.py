"""The meter's store in ClickHouse, a server or embedded. It must not be imported below the doors that wire sinks."""

from sinks.answer import Answer
from sinks.clickhouse.store import ClickHouseStore
from sinks.target import Embedded, Server, Target

__all__ = ["Answer", "ClickHouseStore", "Embedded", "Server", "Target"]
