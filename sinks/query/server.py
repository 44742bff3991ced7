"""Runs queries on a ClickHouse server, as a user who may only read our database."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from sinks.driver_pool import driver_pool
from sinks.query import answers
from sinks.query.limits import QueryLimits
from sinks.query.reads import Reads
from sinks.query.refusal import NOT_ON_SERVER, FailedQueryError, QueriesOffError, RefusedQueryError
from sinks.query.session import Parser, answering, failing, local_client, write_columns
from sinks.query.wire import Request, ServerAddress

_TABLES: Final = "SELECT name, engine IN ('View', 'MaterializedView') AS is_view FROM system.tables WHERE database = {database:String}"
_CONNECT_S: Final = 5
#: Read-only modes of ClickHouse: no setting can be changed, or all except this one.
_FIXED, _OPEN_TO_SETTINGS = "1", "2"


class ServerRunner:
    """A stateless session per query; the statement is checked here before it is sent.

    Raises:
        QueriesOffError: The user has more privileges than to read, or the server cannot be reached.
    """

    def __init__(self, server: ServerAddress, limits: QueryLimits, scratch_dir: str) -> None:
        self._server = server
        self._limits = limits
        with failing():
            self._parser = Parser(local_client(scratch_dir))
        try:
            client = self._client()
            try:
                check_grants(client, server.user, server.database)
                self._read_only = _mode(client)
            finally:
                client.close()
        except ClickHouseError as fault:
            where = f"ClickHouse at {server.scheme}://{server.host}:{server.port}"
            raise QueriesOffError(
                f"{where} does not answer the user {server.user} (clickhouse.reader_user): {_short(fault)}"
            ) from fault

    def run(self, request: Request, out: BinaryIO) -> int:
        """Write the result; return the number of its rows.

        Raises:
            RefusedQueryError: The statement is not allowed.
            FailedQueryError: It failed or exceeded a limit.
        """
        if request.teams is not None:
            raise RefusedQueryError(NOT_ON_SERVER)
        with failing():
            client = self._client()
        try:
            database = self._server.database
            with failing():
                found = client.query(_TABLES, parameters={"database": database}).result_rows
            tables = {str(name): bool(is_view) for name, is_view in found}
            prepared = self._parser.prepare(request.sql, request.parameters, tables, database, self._limits)
            with failing():
                self._set(client, prepared.settings)
            if request.is_check:
                write_columns(client, prepared, out)
                return 0
            with answering(client, prepared) as (columns, blocks):
                return answers.write(request.form, columns.names, columns.types, blocks, out, self._limits)
        finally:
            client.close()

    def reads(self) -> Reads | None:
        """None: a server says so only after the answer, and the driver does not pass it on."""
        return None

    def _set(self, client: Client, settings: Mapping[str, str]) -> None:
        # A client that leaves cancels its query.
        for name, value in {**settings, "cancel_http_readonly_queries_on_client_close": "1"}.items():
            client.set_client_setting(name, value)
        if self._read_only != _OPEN_TO_SETTINGS:
            client.set_client_setting("readonly", "1")

    def _client(self) -> Client:
        server = self._server
        ca_cert = Path(server.ca_cert) if server.ca_cert else None
        return clickhouse_connect.get_client(
            interface=server.scheme,
            host=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            database=server.database,
            connect_timeout=_CONNECT_S,
            send_receive_timeout=self._limits.time_ms // 1000 + _CONNECT_S,
            autogenerate_session_id=False,
            client_name="trainfare query",
            pool_mgr=driver_pool(2 * (self._limits.time_ms // 1000 + _CONNECT_S), ca_cert),
            query_retries=0,
        )


def check_grants(client: Client, user: str, database: str) -> None:
    """Check that the user may only read the tables of the database.

    Raises:
        QueriesOffError: The user has more privileges.
    """
    wanted = re.compile(
        rf"GRANT SELECT(?:\([^)]*\))? ON `?{re.escape(database)}`?\.(?:\*|`?\w+`?) TO \S+", re.IGNORECASE
    )
    grants = [str(row[0]).strip() for row in client.query("SHOW GRANTS FOR CURRENT_USER").result_rows]
    for grant in grants:
        if not wanted.fullmatch(grant):
            more = re.sub(r" TO .*", "", grant)[:200]
            raise QueriesOffError(
                f"the user {user} (clickhouse.reader_user) may do more than read the tables of `{database}`: {more}; "
                f"it needs GRANT SELECT ON {database}.* and nothing else"
            )
    if not grants:
        raise QueriesOffError(
            f"the user {user} (clickhouse.reader_user) may not read `{database}`: GRANT SELECT ON {database}.* TO {user}"
        )


def _mode(client: Client) -> str:
    """The read-only mode of the user's profile.

    Raises:
        QueriesOffError: It does not let limits be set.
    """
    with suppress(FailedQueryError):
        mode = str(
            client.query("SELECT value FROM system.settings WHERE name = 'readonly'").result_rows[0][0]
        )
        if mode == _FIXED:
            raise QueriesOffError(
                "the profile of clickhouse.reader_user has readonly = 1, so that a query's limits cannot be set; "
                "give it readonly = 2"
            )
        return mode
    return "0"


def _short(fault: Exception) -> str:
    return " ".join(str(fault).split())[:200]
