"""Files of `sinks/clickhouse/migrations` as they were while they made views, too: what older stores ran."""

from __future__ import annotations

from pathlib import Path

#: File name -> contents.
FORMER_SQL = {path.name: path.read_text() for path in sorted(Path(__file__).parent.glob("*.sql"))}
