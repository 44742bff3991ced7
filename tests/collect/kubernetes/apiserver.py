"""A real kube-apiserver on a real etcd, on this machine: what the recording was made of, and the long tests run on.

No controller, scheduler or kubelet runs: who uses it makes pods, binds them and reports their state as these would.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3

from tests.go_tools import go, kube_apiserver

ADMIN: Final = "admin-token"
COLLECTOR: Final = "collector-token"
COLLECTOR_USER: Final = "system:serviceaccount:trainfare:trainfare-collector"
_TRIES: Final = 600  # of 0.1 s


def missing() -> list[str]:
    """Return what is not installed of what it needs."""
    server = os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver") or go()
    found = {"etcd": shutil.which("etcd"), "kube-apiserver, nor go to build it": server}
    return [name for name, path in found.items() if path is None]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ApiServerProcess:
    """An API server, which may be killed and started again, and requests of its administrator."""

    def __init__(self, directory: Path, port: int, etcd_port: int, command: list[str]) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.directory = directory
        self.ca_file = directory / "certs/apiserver.crt"
        self.token_file = directory / "collector.token"
        self._etcd = f"http://127.0.0.1:{etcd_port}"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._pool: urllib3.PoolManager | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = _started(self._command, self.directory / "apiserver.log")
        for _ in range(_TRIES):
            if self.is_ready():
                return
            time.sleep(0.1)
        raise AssertionError((self.directory / "apiserver.log").read_text()[-2_000:])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def forget_history(self) -> None:
        """Let etcd forget all versions before the present one, as it does each five minutes, and start anew."""
        version = self.send("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
        self.kill()
        body = json.dumps({"revision": version, "physical": True})
        answer = urllib3.request("POST", f"{self._etcd}/v3/kv/compaction", body=body)
        assert answer.status == 200, answer.data
        self.start()

    def send(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """Return the answer to a request of the administrator."""
        return json.loads(self._answer(method, path, body, kind))

    def _answer(self, method: str, path: str, body: object, kind: str) -> bytes:
        if self._pool is None:
            self._pool = urllib3.PoolManager(ca_certs=str(self.ca_file), maxsize=8, retries=False)
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        answer = self._pool.request(
            method, self.url + path, headers=headers, body=None if body is None else json.dumps(body)
        )
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.data[:500]!r}")
        return answer.data

    def merge(self, path: str, body: object) -> Any:
        """Change some fields of an object."""
        return self.send("PATCH", path, body, "application/strategic-merge-patch+json")

    def until(self, path: str) -> None:
        """Wait until the server serves a path: that of a kind which was defined a moment ago."""
        for _ in range(_TRIES):
            try:
                self.send("GET", path)
            except AssertionError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"{path} is not served")

    def is_ready(self) -> bool:
        try:
            return self.ca_file.exists() and self._answer("GET", "/readyz", None, "text/plain") == b"ok"
        except (AssertionError, urllib3.exceptions.HTTPError):
            return False


@contextmanager
def running(directory: Path) -> Iterator[ApiServerProcess]:
    """Yield a fresh API server."""
    etcd_port, peer_port, port = _free_ports(3)
    directory.mkdir(parents=True, exist_ok=True)
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{ADMIN},admin,1,system:masters\n{COLLECTOR},{COLLECTOR_USER},2\n")
    key = directory / "sa.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    etcd = [
        "etcd",
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
    ]
    command = [
        str(kube_apiserver()),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory / 'certs'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]
    server = ApiServerProcess(directory, port, etcd_port, command)
    server.token_file.write_text(COLLECTOR)
    store = _started(etcd, directory / "etcd.log")
    try:
        server.start()
        yield server
    finally:
        server.kill()
        store.kill()
        store.wait()


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent)
