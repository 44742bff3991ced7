"""ClickHouse's HTTP protocol, as far as clickhouse-connect speaks it, in front of chDB: a server for tests.

`python -m tests.store_front --data DIR --port N` lets several processes share one store, and fails on command:
`POST /fault?kind=...&times=N`. It must not be used outside tests: it asks for no password.
"""

import argparse
import base64
import json
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from sinks import directory_lock
from sinks.target import Embedded
from tests.bare_engine import ENGINE
from tests.store_faults import STATUS, Fault, Faults
from tests.store_requests import form_of, refusal
from tests.store_users import USERS, checked_grant, grants_of

_PAGE: Final = b"<html><body>It works!</body></html>\n"

# Parameters that a server takes for itself and does not pass to the engine as settings.
_TRANSPORT: Final = frozenset(
    {
        "query",
        "database",
        "buffer_size",
        "client_protocol_version",
        "compress",
        "decompress",
        "enable_http_compression",
        "http_headers_progress_interval_ms",
        "query_id",
        "send_progress_in_http_headers",
        "session_id",
        "wait_end_of_query",
    }
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_INSERT: Final = re.compile(rb"\s*INSERT\s+INTO\s+(?P<table>.+?)\s+FORMAT\s+(?P<format>\w+)\s*", re.I | re.S)
#: The engine has no queue of statements for clusters, and its replicated tables take no rows.
_ON_CLUSTER: Final = re.compile(rb" ON CLUSTER `\w+`")
_REPLICATED: Final = re.compile(
    rb"ENGINE = Replicated(?P<engine>\w+)\('[^']*', '[^']*'(?:, )?(?P<version>\w*)\)"
)
_FORMAT: Final = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_CODE: Final = re.compile(r"Code: (\d+)")


class Front(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        engine_dir: Path,
        config: Path | None = None,
        *,
        is_plain: bool = False,
    ) -> None:
        super().__init__(address, Handler)
        self.engine = f"{engine_dir}?config-file={config}" if config else str(engine_dir)
        self.is_of_cluster = config is not None
        self.is_plain = is_plain
        self.faults = Faults()
        self.forms = 0  # requests that came as a form
        # One handle stays open, so that the engine does not stop and start between requests.
        self._keep = _connect(self.engine)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement of its headers
    server: Front

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._reply(200, b"Ok.\n")
        elif urlsplit(self.path).path == "/fired":
            self._reply(200, json.dumps(self.server.faults.fired).encode())
        else:
            self.do_POST()

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        parameters = dict(parse_qsl(url.query, keep_blank_values=True))
        body = self._body()
        if self.server.is_of_cluster:
            body = _ON_CLUSTER.sub(b"", body)
            if self.server.is_plain:
                body, made = _REPLICATED.subn(rb"ENGINE = \g<engine>(\g<version>)", body)
                word = b"," if b"\nSETTINGS " in body else b" SETTINGS"
                body += (word + b" non_replicated_deduplication_window = 1000") * made
        if url.path == "/faultless":
            self.server.faults.clear()
            self._reply(200, b"ok\n")
            return
        if url.path == "/fault":
            kind, times = parameters["kind"], int(parameters.get("times", "1"))
            delay_s = float(parameters.get("delay_s", "0"))
            self.server.faults.add(kind, times, parameters.get("on", "insert"), delay_s)  # type: ignore[arg-type]  # a test's own word
            self._reply(200, b"ok\n")
            return
        if url.path == "/multipart":
            self._reply(200, json.dumps(self.server.forms).encode())
            return
        form = form_of(self.headers.get("Content-Type", ""), body)
        if form is not None:
            self.server.forms += 1
            parameters, body = parameters | form, b""
        head = parameters["query"].encode() + b"\n" if "query" in parameters else b""
        insert = _INSERT.match(head + body)
        refused = refusal(self.path, parameters, b"" if insert else head + body)
        if refused is not None:
            headers = {"X-ClickHouse-Exception-Code": refused.code} if refused.code else {}
            self._reply(refused.status, refused.text.encode(), headers)
            return
        fault, delay_s = self.server.faults.take(insert=insert is not None) or (None, 0.0)
        if fault == "reset_before":
            self._reset()
            return
        if fault in STATUS:
            self._reply(STATUS[fault], _PAGE if fault == "wrong" else b"a fault on demand\n", {}, ours=False)
            return
        if fault == "die":
            threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
        else:
            time.sleep(delay_s)
        self._run(parameters, head + body, insert, fault)

    def _run(
        self, parameters: dict[str, str], sql: bytes, insert: re.Match[bytes] | None, fault: Fault | None
    ) -> None:
        handle = _connect(self.server.engine)
        try:
            if "database" in parameters:
                handle.query(f"USE `{parameters['database']}`")
            result, form = (
                _insert(handle, parameters, insert, sql[insert.end() :])
                if insert
                else _query(handle, parameters, sql.decode(), self._user())
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            text = str(error)
            code = _CODE.search(text)
            self._reply(
                500, text.encode(), {"X-ClickHouse-Exception-Code": code.group(1) if code else "1002"}
            )
            return
        finally:
            handle.close()
        if fault == "reset_after":
            self._reset()
        elif fault == "unavailable_after":
            self._reply(503, b"a fault on demand\n")
        elif fault == "wrong_after":
            self._reply(200, _PAGE, {}, ours=False)
        elif fault == "truncated":
            self._break_off(result)
        else:
            self._reply(200, result, {"X-ClickHouse-Format": form} if form else {})

    def _user(self) -> str:
        """Who asks: by Basic authentication, whose password nobody looks at."""
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(given).decode().partition(":")[0] if kind == "Basic" else "default"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size_bytes := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size_bytes))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _reply(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, ours: bool = True
    ) -> None:
        self.send_response(status)
        own = {"X-ClickHouse-Timezone": "UTC", "X-ClickHouse-Query-Id": str(uuid4())} if ours else {}
        for name, value in {**own, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _break_off(self, body: bytes) -> None:
        """Promise more than is sent: half of a result, nothing of an acknowledgement but its first line."""
        if not body:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Click")
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
        self.wfile = self.rfile = open(os.devnull, "r+b", buffering=0)  # type: ignore[assignment]  # noqa: PTH123, SIM115 - nothing is left to flush

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Say nothing of each request."""


def _connect(engine_dir: str) -> Any:
    return ENGINE.connect(engine_dir)


def _settings(parameters: dict[str, str]) -> dict[str, str]:
    names = [n for n in parameters if n not in _TRANSPORT and not n.startswith("param_")]
    # `readonly` comes last, since nothing can be set after it.
    return {
        name: parameters[name]
        for name in sorted(names, key=lambda n: n == "readonly")
        if _NAME.fullmatch(name)
    }


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _insert(
    handle: Any, parameters: dict[str, str], insert: re.Match[bytes], rows: bytes
) -> tuple[bytes, str]:
    form = insert["format"].decode()
    clause = ", ".join(f"{name} = {_quote(value)}" for name, value in _settings(parameters).items())
    with tempfile.NamedTemporaryFile(suffix=".rows") as file:
        file.write(rows)
        file.flush()
        settings = f"SETTINGS {clause} " if clause else ""
        table = insert["table"].decode()
        handle.query(f"INSERT INTO {table} FROM INFILE {_quote(file.name)} {settings}FORMAT {form}")
    return b"", ""


def _query(handle: Any, parameters: dict[str, str], sql: str, user: str) -> tuple[bytes, str]:
    if user in USERS:
        mode = USERS[user].read_only
        if sql.startswith("SHOW GRANTS"):
            sql = grants_of(user)
        elif sql.startswith("CHECK GRANT"):
            sql = checked_grant(user, sql)
        if mode != "0":
            handle.query(f"SET readonly = {mode}")
    for name, value in _settings(parameters).items():
        handle.query(f"SET {name} = {_quote(value)}")
    bound = {name[6:]: value for name, value in parameters.items() if name.startswith("param_")}
    named = _FORMAT.search(sql)
    form = named.group(1) if named else "TabSeparated"
    result = handle.query(sql, form, params=bound).bytes()
    return result, form if result or named else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--config", type=Path, help="of the engine: its cluster and ZooKeeper")
    parser.add_argument("--plain", action="store_true", help="replicated tables are made without replication")
    options = parser.parse_args()
    target = Embedded(data_dir=options.data)
    directory_lock.acquire(target.data_dir)
    front = Front(("127.0.0.1", options.port), target.engine_dir, options.config, is_plain=options.plain)
    print(json.dumps({"port": front.server_port}), flush=True)  # noqa: T201 - whoever started it reads this
    front.serve_forever()


if __name__ == "__main__":
    main()
