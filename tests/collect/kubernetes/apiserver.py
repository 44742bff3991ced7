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

ADMIN: Final = "admin-token"
COLLECTOR: Final = "collector-token"
_TRIES: Final = 600  # of 0.1 s


def missing() -> list[str]:
    """Return what is not installed of what it needs."""
    found = {"etcd": shutil.which("etcd"), "kube-apiserver": _binary()}
    return [name for name, path in found.items() if path is None]


def _binary() -> str | None:
    return os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ApiServerProcess:
    """The address and files of a running API server, and requests of its administrator."""

    def __init__(self, directory: Path, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.directory = directory
        self.ca_file = directory / "certs/apiserver.crt"
        self.token_file = directory / "collector.token"
        self._pool: urllib3.PoolManager | None = None

    def send(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """Return the answer to a request of the administrator."""
        if self._pool is None:
            self._pool = urllib3.PoolManager(ca_certs=str(self.ca_file))
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        answer = self._pool.request(
            method, self.url + path, headers=headers, body=None if body is None else json.dumps(body)
        )
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.data[:500]!r}")
        return json.loads(answer.data)

    def merge(self, path: str, body: object) -> Any:
        """Change some fields of an object."""
        return self.send("PATCH", path, body, "application/strategic-merge-patch+json")

    def is_ready(self) -> bool:
        try:
            return self.ca_file.exists() and bool(self.send("GET", "/api/v1/namespaces/default"))
        except (AssertionError, urllib3.exceptions.HTTPError):
            return False


@contextmanager
def running(directory: Path, *flags: str) -> Iterator[ApiServerProcess]:
    """Yield a fresh API server; `flags` are further ones of kube-apiserver."""
    etcd_port, peer_port, port = _free_ports(3)
    directory.mkdir(parents=True, exist_ok=True)
    tokens = directory / "tokens.csv"
    tokens.write_text(
        f"{ADMIN},admin,1,system:masters\n{COLLECTOR},system:serviceaccount:trainfare:trainfare,2\n"
    )
    server = ApiServerProcess(directory, port)
    server.token_file.write_text(COLLECTOR)
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
    api = [
        _binary() or "kube-apiserver",
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
        *flags,
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in (("etcd", etcd), ("apiserver", api)):
            log = (directory / f"{name}.log").open("wb")
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=directory))
            log.close()
        for _ in range(_TRIES):
            if server.is_ready():
                break
            time.sleep(0.1)
        else:
            raise AssertionError((directory / "apiserver.log").read_text()[-2_000:])
        yield server
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
