"""Opens the ClickHouse engine inside a process, chDB, with our configuration and nobody else's.

By default it takes its configuration from `config.xml`, `config.d` and `conf.d` of the working directory: once when it is
imported and again when it is opened. Whoever may write there would configure the meter.
"""

import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from sinks.engine_installed import PACKAGE

_OPTIONS: Final = {
    # By default the engine checks its own memory twenty times a second, even when idle.
    "memory_worker_period_ms": "1000",
    # It shares the cores with the meter: one merge at a time is enough for what one process meters.
    "background_pool_size": "1",
    "background_merges_mutations_concurrency_ratio": "1",
}
#: What the engine takes from a file alone.
_BACKUPS: Final = "<backups><allowed_path>{folder}</allowed_path></backups>"

#: A confined process may not list the directory; not every system can do without.
_NAMED_ONLY: Final = getattr(os, "O_PATH", os.O_RDONLY)

_importing = threading.Lock()


def open_engine(
    engine_dir: str, options: Mapping[str, str] | None = None, backup_dir: Path | None = None
) -> Client:
    """Open the engine on its directory; `options` by the names of a server's settings.

    `backup_dir`: the one folder that BACKUP and RESTORE may use; without it there is none.

    Raises:
        clickhouse_connect.driver.exceptions.ProgrammingError: The directory cannot be opened.
    """
    _import_apart()
    # In a directory of our own: what stands beside the file, in `conf.d`, belongs to the configuration, too.
    with tempfile.TemporaryDirectory(prefix="trainfare-engine-") as private:
        backups = "" if backup_dir is None else _BACKUPS.format(folder=escape(str(backup_dir)))
        config = Path(private) / "engine.xml"
        config.write_text(f"<clickhouse>{backups}</clickhouse>")
        return clickhouse_connect.get_client(
            interface="chdb",
            path=engine_dir,
            chdb_options={**_OPTIONS, **(options or {}), "config-file": str(config)},
        )


def _import_apart() -> None:
    """Import the engine while the working directory is that of its own code, as its import opens an engine."""
    with _importing:
        if PACKAGE in sys.modules:
            return
        spec = find_spec(PACKAGE)
        assert spec is not None
        assert spec.origin is not None
        before = os.open(".", _NAMED_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(Path(spec.origin).parent)
            import_module(PACKAGE)
        finally:
            os.fchdir(before)
            os.close(before)
