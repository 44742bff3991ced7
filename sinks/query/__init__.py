"""SQL of users: judged by what it would run, and run in a process of its own that can do nothing else.

`pool.QueryPool` starts the processes, `process.QueryProcess` is one. It must not be imported by the core, nor open a store for writing.
"""

from sinks.query.limits import QueryLimits
from sinks.query.process import Answered, QueryProcess
from sinks.query.wire import ServerAddress, StoreFiles

__all__ = ["Answered", "QueryLimits", "QueryProcess", "ServerAddress", "StoreFiles"]
