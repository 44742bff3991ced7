"""Inserts rows into the embedded engine through an Arrow file in memory."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from clickhouse_connect.driver.client import Client

from sinks.clickhouse import arrow_file
from sinks.clickhouse.insert import SETTINGS, Piece

_INSERT: Final = (
    "INSERT INTO `{table}` ({columns}) FROM INFILE '{path}' "
    "SETTINGS {settings}, insert_deduplication_token = '{token}' FORMAT Arrow"
)


def insert(client: Client, table: str, piece: Piece) -> None:
    """Store the rows; the client's own insert would copy them three times."""
    columns = ", ".join(f"`{name}`" for name in piece.rows.schema.names)
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    # A token may contain any text; its digest needs no quoting.
    token = hashlib.blake2b(piece.token.encode(), digest_size=16).hexdigest()
    with _file() as path:
        with pa.OSFile(path, "wb") as out:
            arrow_file.write(out, piece.rows)
        sql = _INSERT.format(table=table, columns=columns, path=path, settings=settings, token=token)
        client.command(sql)


@contextmanager
def _file() -> Iterator[str]:
    """Yield the path of an empty file: in memory if the system supports it, so that a kill leaves none behind."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        number = os.memfd_create("trainfare-rows")
        try:
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
        return
    with tempfile.NamedTemporaryFile(prefix="trainfare-", suffix=".arrow") as file:
        yield file.name
