"""An API server that serves what was recorded of a real one, over HTTP: lists in pages, watches, objects by name, faults.

The recording is a log of watch events. A list is what the log comes to; a watch is a part of it, and ends at once.
"""

from __future__ import annotations

import bisect
import json
import ssl
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "s3cret-token"


class Change(NamedTuple):
    """A line of a watch; `version` is the object's then."""

    version: int
    type: str
    object: dict[str, Any]


class ReplayServer:
    """Shows the changes up to a version. Bytes that it sends, and requests that it had, are there for tests to look at."""

    def __init__(self, changes: Mapping[str, Iterable[Change]], tls: ssl.SSLContext | None = None) -> None:
        """`changes`: "pods" and "nodes", each in the order of versions."""
        self.changes = {kind: list(changes.get(kind, ())) for kind in ("pods", "nodes")}
        self.shown = 0
        self.is_away = False
        self.oldest = 0  # a watch from before it is told within its stream that it is too old
        self.gone = False  # every watch is answered by 410
        self.status = 200
        self.page_objects = 1_000_000
        self.cut_bytes: int | None = None  # a watch breaks off after so many bytes
        self.lines: list[bytes] | None = None  # instead of what a watch of pods would say
        self.bodies: dict[str, bytes] = {}  # path -> answer
        self.denied: set[str] = set()  # paths that may not be read
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A collector that has read enough hangs up."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Return what there is now, by name."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for change in self.changes[kind]:
            if change.version <= self.shown:
                meta = change.object["metadata"]
                found.pop((meta.get("namespace", ""), meta["name"]), None)
                if change.type != "DELETED":
                    found[meta.get("namespace", ""), meta["name"]] = change.object
        return [found[name] for name in sorted(found)]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(handler.path)
        self.tokens.add(handler.headers.get("Authorization", ""))
        if self.is_away or self.status != 200:
            self._status(handler, 503 if self.is_away else self.status, "try again later")
        elif parts.path in self.denied:
            self._status(handler, 403, "may not get it")
        elif parts.path in self.bodies:
            self._whole(handler, self.bodies[parts.path])
        elif parts.path.startswith("/api/v1/nodes/"):
            name = unquote(parts.path.rsplit("/", 1)[1])
            found = [each for each in self.objects("nodes") if each["metadata"]["name"] == name]
            if found:
                self._whole(handler, json.dumps(found[0]).encode())
            else:
                self._status(handler, 404, f'nodes "{name}" not found')
        elif parts.path.rsplit("/", 1)[1] not in self.changes:
            self._status(handler, 404, "the server could not find the requested resource")
        elif "watch" in query and self.gone:
            self._status(handler, 410, "too old resource version")
        elif "watch" in query:
            self._watch(handler, parts.path.rsplit("/", 1)[1], query)
        else:
            self._list(handler, parts.path.rsplit("/", 1)[1], query)

    def _list(self, handler: BaseHTTPRequestHandler, kind: str, query: Mapping[str, str]) -> None:
        objects = self.objects(kind)
        begin = int(query.get("continue", 0))
        end = begin + min(int(query.get("limit", 1_000_000)), self.page_objects)
        meta = {"resourceVersion": str(self.shown), "continue": str(end) if end < len(objects) else ""}
        page = {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": objects[begin:end]}
        self._whole(handler, json.dumps(page).encode())

    def _watch(self, handler: BaseHTTPRequestHandler, kind: str, query: Mapping[str, str]) -> None:
        since = int(query["resourceVersion"])
        if since < self.oldest:
            status = {
                "kind": "Status",
                "code": 410,
                "reason": "Expired",
                "message": "too old resource version",
            }
            self._chunks(handler, [json.dumps({"type": "ERROR", "object": status}).encode()])
            return
        changes = self.changes[kind]
        begin = bisect.bisect_right(changes, since, key=lambda each: each.version)
        lines = [
            json.dumps({"type": each.type, "object": each.object}).encode()
            for each in changes[begin:]
            if each.version <= self.shown
        ]
        if kind == "pods" and self.lines is not None:
            lines = self.lines
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.shown)}}
        self._chunks(handler, [*lines, json.dumps({"type": "BOOKMARK", "object": mark}).encode()])

    def _chunks(self, handler: BaseHTTPRequestHandler, lines: Iterable[bytes]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        left = self.cut_bytes
        for line in lines:
            chunk = line + b"\n"
            if left is not None and len(chunk) > left:
                handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk[:left])
                handler.close_connection = True
                return
            left = None if left is None else left - len(chunk)
            handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    def _whole(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _status(self, handler: BaseHTTPRequestHandler, code: int, message: str) -> None:
        body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
        handler.send_response(code)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
