"""Keeps a snapshot of this version: `python -m tests.golden.snapshots.make`, once, when a version is released.

Writes `<version>/`: the chain of shard 0 (a base and its increments), the tables as the store had them then
(archived jobs among them).  It refuses to write over what was kept.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import pyarrow as pa

from schemas.tables import ARCHIVE, SCHEMAS
from streams.engine.shard.snapshot_format import FORMAT
from tests.golden.snapshots.scene import END, HERE, PIECES, Judging, read_log


def main() -> int:
    """Write the files; 1 if they exist."""
    target = HERE / version("trainfare")
    if target.exists():
        sys.stderr.write(f"{target} is kept already\n")
        return 1
    machine = Judging()
    lines = read_log()
    begin = 0
    for turn, end in enumerate(PIECES):
        machine.read(lines, begin, end, pay_open=turn % 2 == 0)
        begin = end
    assert begin == END
    chain = machine._chain(0, 0)
    assert len(chain) >= 5
    assert machine.store.tables[ARCHIVE]
    target.mkdir()
    about = {
        "format": FORMAT,
        "read": END,
        "chain": [[one.version, one.parent, one.root] for one in chain],
    }
    (target / "about.json").write_text(json.dumps(about) + "\n", "utf-8")
    for one in chain:
        (target / f"snapshot-{one.version}.bin").write_bytes(one.blob)
    for name, rows in machine.store.tables.items():
        if rows:
            table = pa.Table.from_pylist(list(rows.values()), schema=SCHEMAS[name])
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            path = str(target / f"{name}.arrow")
            with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as out:
                out.write_table(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
