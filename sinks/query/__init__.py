"""SQL of users: judged by what it would run, and run in a process of its own that can do nothing else.

`Querying` is the door. It must not be given SQL of ours, which the store runs itself.
"""

from sinks.query.limits import QueryLimits
from sinks.query.process import Answered, QueryProcess
from sinks.query.wire import ServerAddress, StoreFiles

__all__ = ["Answered", "QueryLimits", "QueryProcess", "ServerAddress", "StoreFiles"]
