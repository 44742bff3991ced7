"""What holds when the guard does not: the kernel keeps a query process from files, from other processes and from the network."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.query import QueryLimits, QueryProcess, StoreFiles
from sinks.query import process as processes
from tests.query import unguarded
from tests.query.attacks import PORT, READ, WRITE, Attack, Canary

_CONNECT = f"__import__('socket').create_connection(('127.0.0.1', {PORT}), 1)"
_SEND = f"__import__('socket').socket(__import__('socket').AF_INET, 2).sendto(b'x', ('127.0.0.1', {PORT}))"
# A connection that fails is not tried again for longer than a query may run.
_ONCE = "SETTINGS http_max_tries = 1, s3_retry_attempts = 0, connections_with_failover_max_tries = 1"
READS = (
    f"SELECT * FROM file('{READ}', 'LineAsString')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM file('/proc/@PARENT@/environ', 'LineAsString')",
    f"SELECT * FROM executable('cat {READ}', 'LineAsString', 'a String')",
    f"CREATE DATABASE x ENGINE = SQLite('{READ}')",
    f"python: open('{READ}').read()",
    "python: open('/etc/passwd').read()",
    "python: open('/proc/@PARENT@/environ', 'rb').read()",
    "python: open('/proc/@PARENT@/mem', 'rb').read(1)",
    "python: __import__('os').listdir('/')",
    "python: __import__('os').listdir('/tmp')",
    f"python: __import__('subprocess').run(['/bin/cat', '{READ}'], capture_output=True).stdout",
)
WRITES = (
    f"SELECT 1 INTO OUTFILE '{WRITE}'",
    f"INSERT INTO FUNCTION file('{WRITE}', 'CSV', 'a String') SELECT 'x'",
    f"BACKUP TABLE system.one TO File('{WRITE}')",
    f"python: open('{WRITE}', 'w').write('x')",
    f"python: open('{READ}', 'a').write('x')",
    f"python: __import__('os').mkdir('{WRITE}')",
    f"python: __import__('os').unlink('{READ}')",
    f"python: __import__('os').symlink('/etc/passwd', '{WRITE}')",
    f"python: __import__('os').rename('{READ}', '{WRITE}')",
    "python: open('@STORE@/made', 'w')",
    "python: __import__('shutil').rmtree('@STORE@')",
)
CALLS = (
    f"SELECT * FROM url('http://127.0.0.1:{PORT}/', 'LineAsString', 'a String') {_ONCE}",
    f"SELECT * FROM remote('127.0.0.1:{PORT}', system, one) {_ONCE}",
    f"SELECT * FROM s3('http://127.0.0.1:{PORT}/b/k', 'LineAsString') {_ONCE}",
    f"python: {_CONNECT}",
    f"python: {_SEND}",
)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    canary = Canary.made(tmp_path / "canary", secrets.token_hex(8), [])
    yield canary
    canary.close()


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "inside.txt").write_text("of the store\n", encoding="ascii")
    return folder


@pytest.fixture
def process(store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueryProcess]:
    monkeypatch.setattr(processes, "_START", unguarded.START)
    process = QueryProcess(StoreFiles(str(store_dir), "trainfare"), QueryLimits(time_ms=10_000))
    try:
        if "files" in process.wait_ready():
            pytest.skip("this kernel has no Landlock: nothing but the guard keeps a query from files")
        yield process
    finally:
        process.close()


def came(process: QueryProcess, sql: str, canary: Canary, store_dir: Path) -> str:
    """What came of it."""
    at = canary.aimed(Attack("unguarded", sql)).sql.replace("@PARENT@", str(os.getpid()))
    answer = process.ask(at.replace("@STORE@", str(store_dir)), {}, "json")
    with os.fdopen(answer.descriptor, "rb") as file:
        file.seek(0)
        return str(json.loads(file.read()))


def test_the_guard_is_off_and_the_store_can_be_read(
    process: QueryProcess, canary: Canary, store_dir: Path
) -> None:
    """Otherwise the tests below would show nothing."""
    assert came(process, "SELECT 1", canary, store_dir) == "[(1,)]"
    sql = "SELECT * FROM file('@STORE@/inside.txt', 'LineAsString')"
    assert "of the store" in came(process, sql, canary, store_dir)
    assert "of the store" in came(process, "python: open('@STORE@/inside.txt').read()", canary, store_dir)


def test_no_other_file_can_be_read(process: QueryProcess, canary: Canary, store_dir: Path) -> None:
    for sql in READS:
        found = came(process, sql, canary, store_dir)
        assert canary.secret not in found, sql
        assert found.startswith("failed") or found in ("b''", "[]"), (sql, found)


def test_no_file_can_be_made_or_changed(process: QueryProcess, canary: Canary, store_dir: Path) -> None:
    before, store = canary.seen(), sorted(store_dir.rglob("*"))
    for sql in WRITES:
        found = came(process, sql, canary, store_dir)
        assert found.startswith("failed"), (sql, found)
    assert canary.seen() == before
    assert sorted(store_dir.rglob("*")) == store


def test_nobody_can_be_called(process: QueryProcess, canary: Canary, store_dir: Path) -> None:
    for sql in CALLS:
        came(process, sql, canary, store_dir)
        assert not canary.heard(), sql
    with socket.create_connection(canary.tcp.getsockname()):
        assert canary.heard()
