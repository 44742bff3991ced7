"""Runs one query in a session of its own: checked, run within its limits, its result written to a file."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from sinks.embedded_engine import open_engine
from sinks.engine_installed import require_engine
from sinks.errors import EngineMissing
from sinks.query import tree as trees
from sinks.query.described import described
from sinks.query.guard import judge, nodes_of
from sinks.query.limits import QueryLimits
from sinks.query.parameters import bound
from sinks.query.refusal import FailedQueryError, QueriesOffError, RefusedQueryError
from sinks.query.team_rows import TeamBound
from sinks.query.wire import Parameter

_TEXT_LIMITS: Final = {
    "max_query_size": "4194304",
    "max_parser_depth": "300",
    "max_parser_backtracks": "100000",
}
#: Addresses within the engine, which some of its messages have twice.
_STACK: Final = re.compile(r",? Stack trace \(when copying[^)]*\):(?:\s*\d+\. [^\n]*? @ 0x[0-9a-f]+)*")
#: The name of an error, at the end of its text.
_KIND: Final = re.compile(r"\(([A-Z][A-Z0-9_]{2,60})\)\s*$")
_VERSION: Final = re.compile(r"\s*\(version [0-9.]+[^)]*\)")

#: Statements whose judgement is kept: the product's own are some fifty, each asked again and again.
_KNOWN_MAX: Final = 128

Blocks = Iterator[Sequence[Sequence[object]]]


class AllowedStatement(NamedTuple):
    """A statement that may run, before its parameters have values."""

    sql: str
    selects: bool  # otherwise it describes tables or a query
    types: Mapping[str, str]  # of its parameters, by name
    settings: Mapping[str, str]
    tables: frozenset[str]


class Prepared(NamedTuple):
    """A statement that may run, and what it needs."""

    sql: str
    selects: bool  # otherwise it describes tables or a query
    parameters: dict[str, Parameter]
    settings: Mapping[str, str]
    tables: frozenset[str]


class _JudgedBy(NamedTuple):
    """All that a judgement depends on."""

    sql: str
    tables: tuple[tuple[str, bool], ...]
    database: str
    limits: QueryLimits
    is_bound: bool


class ColumnTypes(NamedTuple):
    """The header of a result."""

    names: tuple[str, ...]
    types: tuple[str, ...]


class Parser:
    """ClickHouse's parser, in the embedded engine, without any open table; it judges the same statement once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[_JudgedBy, AllowedStatement] = {}
        for name, value in _TEXT_LIMITS.items():
            client.set_client_setting(name, value)

    def text(self, sql: str, value: str) -> str:
        """The single cell of a query whose parameter `q` has the value."""
        with failing():
            return str(self._client.query(sql, parameters={"q": value}).result_rows[0][0])

    def prepare(
        self,
        sql: str,
        parameters: Mapping[str, Parameter],
        tables: Mapping[str, bool],
        database: str,
        limits: QueryLimits,
        bound_to: TeamBound | None = None,
    ) -> Prepared:
        """Check a statement; `tables`: name -> whether it is a view; `bound_to`: whose rows alone it reads.

        Raises:
            RefusedQueryError: It is not allowed.
            FailedQueryError: It cannot be parsed.
        """
        asked = _JudgedBy(sql, tuple(tables.items()), database, limits, bound_to is not None)
        found = self._known.pop(asked, None) or self._judged(sql, tables, database, limits, bound_to)
        self._known[asked] = found
        if len(self._known) > _KNOWN_MAX:
            del self._known[next(iter(self._known))]  # the one that was longest not asked
        settings = found.settings
        if bound_to is not None:
            settings = {
                **settings,
                **(bound_to.settings() if limits.is_own else bound_to.settings_of_users()),
            }
        return Prepared(found.sql, found.selects, bound(found.types, parameters), settings, found.tables)

    def _judged(
        self,
        sql: str,
        tables: Mapping[str, bool],
        database: str,
        limits: QueryLimits,
        bound_to: TeamBound | None,
    ) -> AllowedStatement:
        trees.check_text(sql)
        asked = described(sql, database)
        if asked is not None and asked.name:
            if asked.name not in tables or (asked.prefix.startswith("SHOW") and not tables[asked.name]):
                kind = "view" if asked.prefix.startswith("SHOW") else "table or view"
                raise RefusedQueryError(f"`{asked.name}` is no {kind} of this store; SHOW TABLES lists them")
            if bound_to is not None:
                bound_to.check_tables([asked.name])
            described_sql = f"{asked.prefix} `{database}`.`{asked.name}`"
            return AllowedStatement(described_sql, False, {}, limits.settings(), frozenset({asked.name}))
        tree = trees.parse(self, asked.query if asked is not None else sql)
        judged = judge(tree, tables.keys(), database, limits)
        text = trees.text_of(self, judged.tree)
        # The generated text is checked, too, in case it parses differently from the tree.
        judge(trees.parse(self, text), tables.keys(), database, limits)
        names = frozenset(tables) if judged.tree.get("type") == "ShowTablesQuery" else judged.tables
        if bound_to is not None:
            if not limits.is_own:
                bound_to.check(nodes_of(judged.tree), judged.settings)
            bound_to.check_tables(names, is_own=limits.is_own)
        return AllowedStatement(
            f"{asked.prefix} ({text})" if asked is not None else text,
            asked is None and str(judged.tree.get("type")).startswith("Select"),
            judged.parameters,
            {**limits.settings(), **{name: str(value) for name, value in judged.settings.items()}},
            names,
        )


def local_client(scratch_dir: str, store_dir: str = "") -> Client:
    """Open a session of the engine in this process, with its own files in `scratch_dir`.

    Raises:
        QueriesOffError: The engine is not installed.
    """
    try:
        require_engine("SQL of users, which the engine's own parser reads,")
    except EngineMissing as missing:
        raise QueriesOffError(str(missing)) from missing
    return open_engine(
        scratch_dir, {"custom_local_disks_base_directory": f"{store_dir}/"} if store_dir else None
    )


@contextmanager
def answering(client: Client, prepared: Prepared) -> Iterator[tuple[ColumnTypes, Blocks]]:
    """Run a statement; yield its columns, and its rows in blocks of columns."""
    values: dict[str, Any] | None = dict(prepared.parameters) or None
    with failing():
        if not prepared.selects:
            found = client.query(prepared.sql, parameters=values, tz_mode="aware", query_tz="UTC")
            yield (
                ColumnTypes(tuple(found.column_names), _names_of(found.column_types)),
                iter([found.result_columns]),
            )
            return
        stream = client.query_column_block_stream(
            prepared.sql, parameters=values, tz_mode="aware", query_tz="UTC"
        )
        with stream as blocks:
            source: Any = stream.source  # typed as what it is closed by
            columns = ColumnTypes(tuple(source.column_names), _names_of(source.column_types))
            yield columns if columns.names else _header(client, prepared.sql, values), iter(blocks)


def write_columns(client: Client, prepared: Prepared, out: BinaryIO) -> None:
    """Write the types of an answer's columns by name, as JSON, without running the statement; none of what is no SELECT.

    Raises:
        FailedQueryError: It names a column that is not there, or a function does not take what it is given.
    """
    found: dict[str, str] = {}
    if prepared.selects:
        with failing():
            asked = client.query(
                f"DESCRIBE TABLE ({prepared.sql})", parameters=dict(prepared.parameters) or None
            ).result_columns
        found = dict(zip(asked[0], asked[1], strict=True))
    out.write(msgspec.json.encode(found))


@contextmanager
def failing() -> Iterator[None]:
    """Map faults of the driver and the engine to ours, without paths and versions.

    Raises:
        FailedQueryError: The mapped fault.
    """
    try:
        yield
    except (ClickHouseError, RuntimeError) as fault:  # chDB raises the latter within a stream of blocks
        raise FailedQueryError(_in_words(str(fault))) from fault


@contextmanager
def failing_unseen() -> Iterator[None]:
    """Shorten faults to their kind: the text of one may have a value of a row.

    Raises:
        FailedQueryError: The shortened fault.
    """
    try:
        yield
    except FailedQueryError as fault:
        kind = _KIND.search(str(fault))
        said = kind[1] if kind else "of no known kind"
        raise FailedQueryError(
            f"the query failed ({said}); an identity bound to teams sees no more of it, as it may have a value of a row"
        ) from None


def _names_of(types: Iterable[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in types)


def _header(client: Client, sql: str, bound: dict[str, Any] | None) -> ColumnTypes:
    """The columns of an empty result, which the embedded engine omits."""
    with suppress(ClickHouseError):  # not a SELECT: there is no header
        found = client.query(f"DESCRIBE TABLE ({sql})", parameters=bound).result_columns
        return ColumnTypes(tuple(found[0]), tuple(found[1]))
    return ColumnTypes((), ())


def _in_words(message: str) -> str:
    text = _VERSION.sub("", _STACK.sub("", message))
    # The engine's messages contain paths of its files, which users must not see.
    return re.sub(r"(?<![\w.])/(?:[\w.@+-]+/)+[\w.@+-]*", "(a file of the store)", text).strip()
