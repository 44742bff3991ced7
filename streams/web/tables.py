"""GET /api/v1/tables: what SQL may name, and examples to begin with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sinks.clickhouse.view_files import shipped_views
from sinks.query.team_rows import READABLE
from streams.web.cache import Cache
from streams.web.store_reader import StoreReader

_COLUMNS: Final = """
SELECT c.table AS name, t.engine = 'View' AS is_view, t.comment AS origin, c.name AS column_name, c.type AS type
FROM system.columns AS c
INNER JOIN (SELECT name, engine, comment FROM system.tables WHERE database = currentDatabase()) AS t ON t.name = c.table
WHERE c.database = currentDatabase()
ORDER BY is_view DESC, name, c.position
SETTINGS final = 0, max_execution_time = 30"""
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")
_READ: Final = re.compile(r"(?:FROM|JOIN)\s+(\w+)", re.ASCII)
_TTL_MS: Final = 60_000


class Example(NamedTuple):
    """A statement that works on any store; those with a column of time draw a chart."""

    title: str
    sql: str


EXAMPLES: Final = (
    Example(
        "Cost by team, with lost work",
        "SELECT team, count() AS jobs, sum(cost_usd) AS usd, sum(lost_cost_usd) AS lost_usd\n"
        "FROM job_costs\nGROUP BY team\nORDER BY usd DESC",
    ),
    Example(
        "Cost per day",
        "SELECT toStartOfDay(hour) AS day, sum(cost_usd) AS usd, sum(lost_cost_usd) AS lost_usd\n"
        "FROM cost_hours\nGROUP BY day\nORDER BY day",
    ),
    Example(
        "The ten dearest jobs",
        "SELECT job_id, owner, team, state, attempts, cost_usd, lost_cost_usd\n"
        "FROM job_costs\nORDER BY cost_usd DESC, job_id\nLIMIT 10",
    ),
    Example(
        "What each price was paid for",
        "SELECT sku, price_effective, price_usd, component, sum(cost_usd) AS usd\n"
        "FROM ledger\nGROUP BY ALL\nORDER BY usd DESC",
    ),
    Example(
        "Network and storage by path and operation",
        "SELECT component, path, direction, op, storage_class, sum(cost_usd) AS usd\n"
        "FROM ledger\nWHERE component IN ('network', 'storage')\nGROUP BY ALL\nORDER BY usd DESC",
    ),
    Example(
        "Lost work by the reason of the end",
        "SELECT reason, count(DISTINCT job_id) AS jobs, sum(lost_cost_usd) AS lost_usd, sum(retry_cost_usd) AS retry_usd\n"
        "FROM lost_work\nGROUP BY reason\nORDER BY lost_usd DESC",
    ),
    Example(
        "Idle cost of nodes per day",
        "SELECT toStartOfDay(hour) AS day, sum(node_cost_usd) AS nodes_usd, sum(idle_cost_usd) AS idle_usd\n"
        "FROM idle_hours\nGROUP BY day\nORDER BY day",
    ),
    Example(
        "Alerts by rule",
        "SELECT rule, severity, countIf(status = 'firing') AS firing, count() AS alerts, max(started) AS newest\n"
        "FROM alerts\nGROUP BY rule, severity\nORDER BY alerts DESC, rule",
    ),
    Example(
        "Dead letters by reason",
        "SELECT topic, reason, sum(records) AS records, sum(stored) AS stored\n"
        "FROM dead_letter_counts\nGROUP BY topic, reason\nORDER BY records DESC",
    ),
    Example(
        "Burn rate of each job now",
        "SELECT job_id, time, usd_per_hour_now, usd_per_hour_1h, expected_usd_per_hour\n"
        "FROM burn_now\nWHERE usd_per_hour_now > 0\nORDER BY usd_per_hour_now DESC",
    ),
)


class Tables:
    """The tables and views of the store, with their columns."""

    def __init__(self, store_reader: StoreReader, now_ms: Callable[[], int]) -> None:
        self._store_reader = store_reader
        self._cache = Cache(now_ms, _TTL_MS)

    async def listed(self, teams: tuple[str, ...] | None = None) -> dict[str, Any]:
        """All of them, views first; `teams`: those that whoever is bound to teams may read.

        Raises:
            ApiError: The store cannot say.
        """

        async def make() -> list[dict[str, Any]]:
            about = {view.name: first_sentence(view.doc) for view in shipped_views()}
            found: dict[str, dict[str, Any]] = {}
            for row in await self._store_reader.rows(_COLUMNS):
                name = row["name"]
                table = found.setdefault(
                    name,
                    {
                        "name": name,
                        "is_view": bool(row["is_view"]),
                        "about": about.get(name, ""),
                        "origin": row["origin"],
                        "columns": [],
                    },
                )
                table["columns"].append({"name": row["column_name"], "type": _plain(row["type"])})
            return list(found.values())

        tables = await self._cache.get("tables", make)
        examples: Sequence[Example] = EXAMPLES
        if teams is not None:
            tables = [each for each in tables if each["name"] in READABLE]
            examples = [each for each in EXAMPLES if READABLE.issuperset(_READ.findall(each.sql))]
        return {
            "tables": tables,
            "examples": [each._asdict() for each in examples],
        }


def first_sentence(doc: str) -> str:
    """The first sentence of a view's text, without its links."""
    text = _LINK.sub(r"\1", " ".join(doc.split())).replace("`", "")
    return re.split(r"(?<=\.) ", text, maxsplit=1)[0]


def _plain(kind: str) -> str:
    """A type as the pages of tables name it."""
    plain = re.sub(r"LowCardinality\((\w+)\)", r"\1", kind)
    return plain.replace("(3, 'UTC')", "(3)").replace("('UTC')", "")
