"""Says that the ClickHouse engine inside a process, chDB, is not installed, before anything needs it.

It is half of an installation by size, and who writes to a server needs it for nothing but users' SQL.
"""

from importlib.util import find_spec
from typing import Final

from sinks.errors import EngineMissing

PACKAGE: Final = "chdb"


def require_engine(what: str) -> None:
    """Check that the engine can be loaded, without loading it; `what` needs it.

    Raises:
        EngineMissing: It is not installed.
    """
    if find_spec(PACKAGE) is None:
        raise EngineMissing(
            f"{what} needs the embedded ClickHouse, which is not installed: pip install 'trainfare[embedded]'"
        )
