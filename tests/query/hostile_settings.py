"""Attacks by SETTINGS: those that carry SQL, paths or limits, wherever a statement may hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.query.attacks import READ, Attack

_PLACES = (
    "SELECT count() FROM jobs SETTINGS {s}",
    "SELECT * FROM (SELECT job_id FROM jobs SETTINGS {s})",
    "EXPLAIN SELECT job_id FROM jobs SETTINGS {s}",
    "EXPLAIN {s} SELECT job_id FROM jobs",
)
_MORE = (
    "SELECT 1 SETTINGS {s} UNION ALL SELECT 2", "SELECT 1 UNION ALL SELECT 2 SETTINGS {s}", "(SELECT 1 SETTINGS {s})", "SELECT 1 SETTINGS final = 1, {s}",
    "SELECT * FROM view(SELECT 1 SETTINGS {s})", "WITH t AS (SELECT 1 SETTINGS {s}) SELECT * FROM t", "SELECT (SELECT 1 SETTINGS {s})", "SHOW TABLES SETTINGS {s}",
    "SHOW COLUMNS FROM jobs SETTINGS {s}", "DESCRIBE (SELECT 1 SETTINGS {s})", "DESCRIBE jobs SETTINGS {s}", "SELECT * FROM jobs WHERE 1 IN (SELECT 1 SETTINGS {s})",
    "SELECT 1 settings/**/{s}", "SELECT 1 INTERSECT SELECT 1 SETTINGS {s}", "SELECT * FROM numbers(3) SETTINGS {s}", "SELECT * FROM numbers(3, SETTINGS {s})",
)  # fmt: skip
_FIXED = (
    "readonly = 0", "readonly = 2", "limit = 1", "offset = 1", "profile = 'default'", "additional_table_filters = {'jobs': '1 = (SELECT 1 FROM system.one)'}",
    "additional_result_filter = '1 IN system.one'", "format_template_row = '@READ@'", "format_template_resultset = '@READ@'", "format_schema = '@READ@:x'",
    "input_format_record_errors_file_path = '@WRITE@'", "errors_output_format = 'CSV'", "dialect = 'kusto'", "allow_ddl = 1", "max_threads = 64",
    "max_memory_usage = -1", "max_execution_time = 'x'", "max_execution_time = -1", "final = 2.5", "join_use_nulls = (SELECT 1)",
    "allow_introspection_functions = 1", "log_comment = 'x'", "custom_x = 1", "SQL_x = 1", "max_query_size = 0", "compatibility = '20.1'", "enable_analyzer = 0",
    "output_format_json_quote_64bit_integers = 1", "send_logs_level = 'trace'", "stream_like_engine_allow_direct_select = 1", "workload = 'x'", "use_query_cache = 1",
    "max_execution_time = DEFAULT", "final = 1, final = 'x'", "join_algorithm = 'partial_merge'", "temporary_files_codec = 'NONE'", "implicit_table_at_top_level = 'jobs'",
    "extract_key_value_pairs_max_pairs_per_row = 9", "max_bytes_before_external_sort = 1", "timeout_overflow_mode = 'break'", "result_overflow_mode = 'break'",
    "allow_experimental_object_storage_queue_hive_partitioning = 1", "param_x = 1", "user_files_path = '/'", "disk = disk(type = local, path = '/etc/')",
)  # fmt: skip
_LIFTED = (
    "max_execution_time = 0",
    "max_execution_time = 100000",
    "max_memory_usage = 0",
    "max_result_rows = 0",
    "max_rows_to_read = 99999999999999",
    "max_result_rows = 1e9",
)


def attacks(settings: Iterable[str]) -> Iterator[Attack]:
    """`settings` are those of the engine whose value is a text."""
    for at, name in enumerate(sorted(settings)):
        yield Attack("setting", _PLACES[at % len(_PLACES)].replace("{s}", f"{name} = '{READ}'"))
    for change in _FIXED:
        for place in (*_PLACES, *_MORE):
            yield Attack("setting", place.replace("{s}", change))
    for change in _LIFTED:
        yield Attack("limit", f"SELECT sum(sipHash64(number)) FROM numbers(100000000000) SETTINGS {change}")
