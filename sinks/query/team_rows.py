"""What of a store is read for whoever is bound to teams: the tables and views that there are for them, and which rows of these.

The filter is ClickHouse's own (`additional_table_filters`): it stands at each reading of a table, within views, subqueries and
joins too. Every table that is not listed here has no row. It must not depend on what a statement says.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from sinks.query.refusal import RefusedQueryError
from sinks.query.tree import Node

_OF_JOB: Final = "job_id IN ({own_jobs})"
_OF_TEAM: Final = "team IN ({teams})"
#: The jobs of the teams.
OWN_JOBS: Final = f"SELECT job_id FROM {{database}}.jobs FINAL WHERE {_OF_TEAM}"
_OWN_BUDGET: Final = (
    "match[''team''] IN ({teams}) OR (subject_kind = ''team'' AND subject_name IN ({teams})) "
    "OR (subject_kind = ''job'' AND subject_name IN ({own_jobs}))"
)
#: The condition of a row, by table. A job is whose it is now, and all its rows with it.
FILTERS: Final[Mapping[str, str]] = {
    "jobs": _OF_TEAM,
    "alerts": _OF_TEAM,
    **dict.fromkeys(
        (
            "job_minutes",
            "job_usage_minutes",
            "job_hours",
            "job_bills",
            "job_checkpoints",
            "attempts",
            "attempt_gpus",
            "burn_rates",
        ),
        _OF_JOB,
    ),
    "deliveries": "alert_id IN (SELECT alert_id FROM {database}.alerts FINAL WHERE team IN ({teams}))",
    "receipts": "subject_kind = ''job'' AND subject_name IN ({own_jobs})",
    "budget_use": _OWN_BUDGET,
    "actions": f"job_id IN ({{own_jobs}}) AND budget IN (SELECT budget FROM {{database}}.budget_use FINAL WHERE {_OWN_BUDGET})",
    "controls": (
        "match[''team''] IN ({teams}) OR match[''job_id''] IN ({own_jobs}) "
        "OR alert_id IN (SELECT alert_id FROM {database}.alerts FINAL WHERE team IN ({teams}))"
    ),
}
#: In SQL of users also: what a rule by SQL says and asks is by whoever wrote it, the `ratio` of `team_burn` is a share of what all
#: jobs cost, and a receipt may hold a job against those of others.
OF_USERS: Final[Mapping[str, str]] = {
    "alerts": "NOT startsWith(rule, ''sql/'') AND rule != ''team_burn''",
    "receipts": (
        "(NOT JSONHas(message, ''data'', ''kind'', ''same'') OR JSONHas(message, ''data'', ''kind'', ''same'', ''team'')) "
        "AND JSONExtractString(message, ''data'', ''cheaper'', ''purchase'') != ''spot''"
    ),
}
#: Tables that these conditions read.
BEHIND_FILTERS: Final = frozenset({"jobs", "alerts", "budget_use"})
#: Of no team: prices and rates.
COMMON: Final = frozenset({"prices", "fx_rates", "carbon_intensities"})
#: Read by a view of `VIEWS`, and named by nobody: nothing of it but keys is shown.
_SHOWN_AS_KEYS: Final = frozenset({"allocated_months"})
#: Views that read only those tables.
VIEWS: Final = frozenset(
    {
        "attempt_costs",
        "billed_jobs",
        "burn_now",
        "carbon_hours",
        "chargeback",
        "cost_hours",
        "job_costs",
        "ledger",
        "level_costs",
        "level_traffic",
        "lost_work",
        "m10_cost_variance",
        "m1_cost_per_wall_clock_hour",
        "m2_cost_per_gpu_hour",
        "m4_burn_rate",
        "m5_retry_overhead",
        "m6_storage_cost_per_hour",
        "m7_egress_cost_per_hour",
        "m8_utilization_adjusted_cost",
        "m9_cost_per_experiment",
        "run_costs",
        "traffic_hours",
        "usage",
    }
)
#: Of all teams, and without a row for those who are bound: until when bills were loaded is then not said.
_EMPTY: Final = frozenset({"bill_loads"})
#: What views read beside them.
BEHIND_VIEWS: Final = _SHOWN_AS_KEYS | _EMPTY
READABLE: Final = FILTERS.keys() | COMMON | VIEWS
#: A plan as it is written, its filters in this order. Otherwise a condition of the statement may be tried on rows of others before
#: the filter, be it on the ends of index granules alone, and tell of them by an error.
IN_ORDER: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "query_plan_enable_optimizations",
        "query_plan_optimize_prewhere",
        "query_plan_merge_filters",
        "query_plan_filter_push_down",
        "query_plan_push_down_limit",
        "query_plan_push_down_volume_reducing_functions",
        "query_plan_propagate_predicate_across_join",
        "query_plan_top_k_through_join",
        "query_plan_optimize_lazy_materialization",
        "query_plan_read_in_order",
        "optimize_move_to_prewhere",
        "optimize_move_to_prewhere_if_final",
        "optimize_trivial_count_query",
        "optimize_use_implicit_projections",
        "optimize_use_projections",
        "optimize_read_in_order",
        "optimize_aggregation_in_order",
        "optimize_distinct_in_order",
        "use_primary_key",
        "use_partition_pruning",
        "use_skip_indexes",
        "use_skip_indexes_if_final",
        "use_statistics",
        "use_statistics_for_part_pruning",
        "use_query_condition_cache",
        "use_top_k_dynamic_filtering",
        "enable_group_by_top_k_optimization",
        "enable_join_runtime_filters",
    ),
    "0",
)
#: What a statement may set: nothing that limits what is read, whose errors count rows of others.
_SETTINGS: Final = frozenset(
    {
        "aggregate_functions_null_for_empty",
        "group_by_use_nulls",
        "join_use_nulls",
        "transform_null_in",
    }
)
#: Numbers of blocks and of rows within what was read.
_OF_BLOCKS: Final = frozenset({"blocknumber", "blocksize", "indexhint", "rownumberinblock"})
_NAMED_MAX: Final = 12


class TeamBound(NamedTuple):
    """Whose rows are read, of which database with which tables."""

    teams: tuple[str, ...]
    database: str
    tables: Collection[str]

    def settings(self, unfiltered: Collection[str] = ()) -> dict[str, str]:
        """What keeps rows of others from being read; of tables in `unfiltered`, in a statement of ours that shows none of their rows, it does not."""
        return self._settings(unfiltered, {})

    def _settings(self, unfiltered: Collection[str], more: Mapping[str, str]) -> dict[str, str]:
        if not self.teams:
            return {"additional_table_filters": self._listed(dict.fromkeys(self.tables, "0"))}
        names = {"teams": teams_text(self.teams), "database": self.database}
        own_jobs = OWN_JOBS.format(**names)
        conditions = {
            name: FILTERS[name].format(own_jobs=own_jobs, **names) if name in FILTERS else "0"
            for name in sorted(self.tables)
            if not (name in COMMON or name in _SHOWN_AS_KEYS or name in VIEWS or name in unfiltered)
        }
        conditions |= {
            name: f"({conditions[name]}) AND {each}" for name, each in more.items() if name in conditions
        }
        return {"additional_table_filters": self._listed(conditions)}

    def _listed(self, conditions: Mapping[str, str]) -> str:
        listed = ", ".join(f"'{self.database}.{name}': '{each}'" for name, each in conditions.items())
        return f"{{{listed}}}"

    def settings_of_users(self) -> dict[str, str]:
        """The same for a statement that may try what it wants."""
        return {**self._settings((), OF_USERS), **IN_ORDER}

    def check_tables(self, names: Collection[str], *, is_own: bool = False) -> None:
        """Check that a statement names nothing else; `is_own`: it is the product's.

        Raises:
            RefusedQueryError: It does.
        """
        if beyond := sorted(set(names) - READABLE - (_EMPTY if is_own else frozenset())):
            _refuse(
                f"`{beyond[0]}` is not kept by team, and this identity is bound to teams: it may read {_some(READABLE)}; "
                "somebody who sees all teams may query the others"
            )

    def check(self, nodes: Iterator[tuple[Node, str]], settings: Collection[str]) -> None:
        """Check the parts of a statement of a user.

        Raises:
            RefusedQueryError: One could tell of rows before they are filtered.
        """
        if beyond := sorted(set(settings) - _SETTINGS):
            _refuse(
                f"the setting `{beyond[0]}` is not for an identity that is bound to teams; {', '.join(sorted(_SETTINGS))} are"
            )
        for node, _ in nodes:
            self._check_node(node)

    def _check_node(self, node: Node) -> None:
        kind = node.get("type")
        if kind == "ExplainQuery":
            _refuse("EXPLAIN tells how much is read, and this identity is bound to teams")
        if node.get("prewhere"):
            _refuse("PREWHERE is judged before rows are kept apart by team: write WHERE")
        if kind == "Function" and str(node.get("name")).lower() in _OF_BLOCKS:
            _refuse(
                f"the function `{node.get('name')}` tells what was read, and this identity is bound to teams"
            )
        # Those that the engine adds to a table begin so: part, place in it.
        names = [node.get("name"), *(node.get("name_parts") or ())] if kind == "Identifier" else []
        if any(str(part).startswith("_") or "._" in str(part) for part in names):
            _refuse(
                f"`{str(node.get('name'))[:80]}` begins with `_`: an identity bound to teams reads columns alone"
            )
        if str(node.get("alias") or "").startswith(f"{self.database}."):
            _refuse("an alias may not begin with the name of the database")


def teams_text(teams: Collection[str]) -> str:
    """Teams as they stand in a filter, whatever is in their names; a list of one, too."""
    return "".join(f"unhex(''{each.encode('utf-8', 'surrogatepass').hex()}''), " for each in teams).rstrip()


def _some(names: Collection[str]) -> str:
    shown = sorted(names)
    return f"{', '.join(shown[:_NAMED_MAX])} and {len(shown) - _NAMED_MAX} more (GET /api/v1/tables)"


def _refuse(message: str) -> None:
    raise RefusedQueryError(message)
