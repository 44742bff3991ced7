"""New embedded stores without their migrations, half a second of a core each: an empty one is made once and copied."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import shutil
import subprocess
import sys
from pathlib import Path

import xxhash

from sinks.clickhouse.migrate import shipped
from sinks.clickhouse.view_files import fingerprints, shipped_views
from sinks.target import Embedded

ROOT = Path(__file__).parents[1]
_MAKE = (
    "import sys; from pathlib import Path; from sinks.clickhouse import ClickHouseStore, Embedded; "
    "ClickHouseStore(Embedded(data_dir=Path(sys.argv[1]))).close()"
)
#: Where the processes of one run of the tests keep the empty store; without one, stores begin by themselves.
_shared: list[Path] = []


def keep_in(folder: Path) -> None:
    """Name the folder that all processes of this run share."""
    _shared[:] = [folder]


def begun(data_dir: Path) -> Path:
    """Return the directory, with an empty store if it had none."""
    engine = Embedded(data_dir=data_dir).engine_dir
    if _shared and not engine.exists():
        made = _made_once(_shared[0])
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(made, engine, symlinks=True)
    return data_dir


@functools.cache
def _made_once(folder: Path) -> Path:
    """The engine's directory of the empty store; the first process that asks makes it, in one that has no engine."""
    migrations = shipped()
    names = [f"{migration.name} {migration.checksum}" for migration in migrations]
    names += fingerprints(shipped_views(), migrations[-1].name).values()
    made = folder / f"empty-store-{xxhash.xxh3_64_hexdigest(' '.join(names).encode())}"
    with (folder / "empty-store.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            making = made.with_name("empty-store-making")
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(making)
            subprocess.run([sys.executable, "-c", _MAKE, str(making)], cwd=ROOT, check=True)
            making.rename(made)
    return Embedded(data_dir=made).engine_dir
