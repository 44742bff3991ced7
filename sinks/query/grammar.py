"""The subset of ClickHouse's SQL that a query may consist of: node types of its syntax tree and their allowed fields.

It must not include anything that refers outside the query except a table: no file, format, cluster, user or server.
"""

from typing import Final

#: Statements, by the type of their tree's root. DESCRIBE and SHOW CREATE VIEW have no tree; see `described`.
STATEMENTS: Final = frozenset(
    {
        "SelectWithUnionQuery",
        "ExplainQuery",
        "ShowTablesQuery",
        "ShowColumnsQuery",
    }
)
EXPLAIN_KINDS: Final = frozenset(
    {"EXPLAIN", "EXPLAIN AST", "EXPLAIN SYNTAX", "EXPLAIN QUERY TREE", "EXPLAIN PIPELINE", "EXPLAIN ESTIMATE"}
)
EXPLAIN_SETTINGS: Final = frozenset(
    {"indexes", "header", "description", "actions", "json", "graph", "compact", "optimize"}
)
#: Allowed SETTINGS: the handling of NULLs, joins and unions, and whether windows are read in the order of a table. Limits may be lowered.
SETTINGS: Final = frozenset(
    {
        "aggregate_functions_null_for_empty",
        "final",
        "group_by_use_nulls",
        "join_use_nulls",
        "max_execution_time",
        "max_memory_usage",
        "max_result_rows",
        "max_rows_to_read",
        "optimize_read_in_window_order",
        "transform_null_in",
    }
)
#: A statement can only lower these limits.
LOWERED: Final = frozenset({"max_execution_time", "max_memory_usage", "max_result_rows", "max_rows_to_read"})

_SELECT: Final = """
cte_aliases distinct group_by group_by_all group_by_with_cube group_by_with_grouping_sets group_by_with_rollup group_by_with_totals having interpolate limit_by limit_by_length
limit_by_offset limit_by_all limit_length limit_offset limit_with_ties order_by order_by_all prewhere qualify
recursive_with select tables where window with
"""
_FRAME: Final = """
frame_begin_offset frame_begin_preceding frame_begin_type frame_end_offset frame_end_preceding frame_end_type
frame_type order_by parent_window_name partition_by
"""


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Present in any node, without effect.
IGNORED: Final = _keys("type alias")
KEYS: Final = {
    "ArrayJoin": _keys("kind expression_list"),
    "Asterisk": _keys("transformers"),
    "ColumnsApplyTransformer": _keys("func_name parameters lambda lambda_arg column_name_prefix"),
    "ColumnsExceptTransformer": _keys("children is_strict pattern"),
    "ColumnsListMatcher": _keys("column_list transformers"),
    "ColumnsRegexpMatcher": _keys("pattern transformers"),
    "ColumnsReplaceTransformer": _keys("children is_strict"),
    "ColumnsReplaceTransformerReplacement": _keys("name children"),
    "ColumnsTransformerList": _keys("children"),
    "ExplainQuery": _keys("kind settings query"),
    "ExpressionList": _keys("children"),
    "Function": _keys(
        "name arguments parameters window_definition window_name is_window_function is_lambda_function is_operator kind "
        "nulls_action"
    ),
    "Identifier": _keys("name name_parts children"),
    "InterpolateElement": _keys("column expr"),
    "Literal": _keys("value"),
    "OrderByElement": _keys(
        "collation direction expression fill_from fill_staleness fill_step fill_to nulls_direction "
        "nulls_direction_was_explicitly_specified with_fill"
    ),
    "QualifiedAsterisk": _keys("qualifier transformers"),
    "QualifiedColumnsListMatcher": _keys("qualifier column_list transformers"),
    "QualifiedColumnsRegexpMatcher": _keys("qualifier pattern transformers"),
    "QueryParameter": _keys("name param_type"),
    "SelectQuery": _keys(_SELECT),
    "SelectWithUnionQuery": _keys("list_of_modes list_of_selects union_mode"),
    "SetQuery": _keys("changes"),
    "ShowColumnsQuery": _keys(
        "case_insensitive_like database extended full like limit_length not_like table"
    ),
    "ShowTablesQuery": _keys("case_insensitive_like from full like limit_length not_like"),
    "Subquery": _keys("children"),
    "TableExpression": _keys("column_aliases database_and_table_name final subquery table_function"),
    "TableIdentifier": _keys("name name_parts"),
    "TableJoin": _keys("is_natural kind locality on_expression strictness using_expression_list"),
    "TablesInSelectQuery": _keys("children"),
    "TablesInSelectQueryElement": _keys("array_join table_expression table_join"),
    "WindowDefinition": _keys(_FRAME),
    "WindowListElement": _keys("name definition"),
    "WithElement": _keys("name subquery aliases is_materialized"),
}
