"""SQL of users: checked by what it would run, and run in a process of its own that can do nothing else.

`pool.QueryPool` starts the processes, `process.QueryProcess` is one. The engine must not import it, and it must not
open a store for writing.
"""

from sinks.query.limits import QueryLimits
from sinks.query.process import Answered, QueryProcess
from sinks.query.wire import ServerAddress, StoreFiles

__all__ = ["Answered", "QueryLimits", "QueryProcess", "ServerAddress", "StoreFiles"]
