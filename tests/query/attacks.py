"""What an attack on the query process consists of, and what it is aimed at."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sinks.query.wire import Parameter

#: Stand for the file to read, the place to write to, and the port where somebody waits for a connection.
READ, WRITE, PORT = "@READ@", "@WRITE@", "@PORT@"


class Attack(NamedTuple):
    """A statement that must not be answered, or whose answer must be without effect."""

    kind: str
    sql: str
    parameters: dict[str, Parameter] = {}  # noqa: RUF012  # never changed
    may_answer: bool = False  # it means less than it seems to


@dataclass
class Canary:
    """Files that must not be read, made or changed, and a listener that must hear nothing, over TCP and UDP."""

    folder: Path
    watched: list[Path]
    secret: str
    tcp: socket.socket
    udp: socket.socket

    @classmethod
    def made(cls, folder: Path, secret: str, watched: list[Path]) -> Canary:
        """Place the files and listen."""
        folder.mkdir()
        for name in ("secret.csv", "secret.txt", "secret.jsonl"):
            (folder / name).write_text(f'{{"a": "{secret}"}}\n', encoding="ascii")
        tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(tcp.getsockname())
        tcp.setblocking(False)
        udp.setblocking(False)
        return cls(folder, [folder, *watched], secret, tcp, udp)

    def aimed(self, attack: Attack) -> Attack:
        """The attack with our paths and our port in it."""

        def at(text: str) -> str:
            port = str(self.tcp.getsockname()[1])
            text = text.replace(READ, str(self.folder / "secret.csv")).replace(
                WRITE, str(self.folder / "made.csv")
            )
            return text.replace(PORT, port)

        values = {
            name: at(value) if isinstance(value, str) else value for name, value in attack.parameters.items()
        }
        return attack._replace(sql=at(attack.sql), parameters=values)

    def seen(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of each file and folder that is watched."""
        paths = [path for root in self.watched for path in (root, *root.rglob("*"))]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}

    def heard(self) -> bool:
        """Whether anybody has connected or sent anything."""
        try:
            self.tcp.accept()
        except BlockingIOError:
            try:
                self.udp.recv(1)
            except BlockingIOError:
                return False
        return True

    def close(self) -> None:
        """Listen no more."""
        self.tcp.close()
        self.udp.close()
