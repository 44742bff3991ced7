"""A real ZooKeeper for tests: a process on a free loopback port, from jars that Maven fetches once."""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import time
from pathlib import Path

VERSION = "3.9.3"
_POM = Path(__file__).parent / "pom.xml"
_COMPLETE = ".complete"
_START_TIMEOUT_S = 60.0
_SETTINGS = """\
tickTime=500
dataDir={data}
clientPortAddress=127.0.0.1
clientPort={port}
admin.enableServer=false
4lw.commands.whitelist=ruok
"""


def why_not() -> str | None:
    """Say what is missing for a ZooKeeper, or None."""
    if shutil.which("java") is None:
        return "no `java` on the PATH for a real ZooKeeper"
    if not (_cache() / _COMPLETE).exists() and shutil.which("mvn") is None:
        return "no `mvn` on the PATH to fetch ZooKeeper's jars"
    return None


class ZooKeeper:
    """One server with a directory of its own; it can be killed and started again on the same port and data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        directory.mkdir()
        self._settings = directory / "zoo.cfg"
        self._settings.write_text(_SETTINGS.format(data=directory / "data", port=self.port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it answers."""
        with (self._directory / "zookeeper.log").open("ab") as log:
            command = [
                "java",
                "-Xmx200m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                f"{_jars()}/*",
            ]
            command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                raise RuntimeError(f"ZooKeeper ended at start, see {self._directory / 'zookeeper.log'}")
            if self._is_ok():
                return
        self.kill()
        raise RuntimeError(f"ZooKeeper did not answer within {_START_TIMEOUT_S:g} s, see {self._directory}")

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def _is_ok(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as asked:
                asked.sendall(b"ruok")
                return asked.recv(4) == b"imok"
        except OSError:
            return False


def _cache() -> Path:
    return Path.home() / ".cache" / "trainfare" / f"zookeeper-{VERSION}"


def _jars() -> Path:
    target = _cache()
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / _COMPLETE).exists():
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
            subprocess.run(
                ["mvn", "-q", "-B", "-f", str(_POM), *goal], timeout=600, check=True, capture_output=True
            )
            (target / _COMPLETE).touch()
    return target
