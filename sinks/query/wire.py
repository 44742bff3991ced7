"""The messages between the worker and a query process, as JSON in frames over a socket."""

import socket
import struct
from typing import Final, Literal

import msgspec

from sinks.query.limits import QueryLimits

Form = Literal["json", "arrow", "msgpack"]
Parameter = str | int | float | bool | list[str | int | float | bool]
Outcome = Literal["answered", "refused", "failed", "off"]

_LENGTH: Final = struct.Struct(">I")
FRAME_MAX_BYTES: Final = 4 * 2**20


class StoreFiles(msgspec.Struct, frozen=True, tag=True):
    """The embedded store, read from its files: `engine_dir` is absolute and without links."""

    engine_dir: str
    database: str


class ServerAddress(msgspec.Struct, frozen=True, tag=True):
    """A ClickHouse server and the user who may only read it."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    database: str
    ca_cert: str | None = None

    def __repr__(self) -> str:
        return f"ServerAddress({self.scheme}://{self.host}:{self.port}, user={self.user})"


class KnownTables(msgspec.Struct, frozen=True, tag=True):
    """No store: tables and views by name, whether it is a view, and what makes them. Statements can be checked by them, and not run."""

    tables: dict[str, bool]
    database: str
    create: list[str]


Source = StoreFiles | ServerAddress | KnownTables


class Setup(msgspec.Struct, frozen=True):
    """The first frame: where the tables are, and the limits of every query."""

    source: Source
    limits: QueryLimits
    scratch_dir: str


class Ready(msgspec.Struct, frozen=True):
    """The process accepts queries; or queries are off, and why."""

    off: str = ""
    left_open: list[str] = []  # what the kernel could not restrict: "files", "tcp", "network"


class Request(msgspec.Struct, frozen=True):
    """One query, or one statement that is only to be checked: its result is the types of its columns by name, as JSON.

    The file for the result is passed with the frame.
    """

    sql: str
    parameters: dict[str, Parameter]
    form: Form
    is_check: bool = False
    teams: list[str] | None = None  # whose rows alone are read; None: all


class Reply(msgspec.Struct, frozen=True):
    """The outcome; `message` is for the user."""

    outcome: Outcome
    message: str = ""
    rows: int = 0
    rows_read: int | None = None  # from tables; None: nothing says so
    bytes_read: int | None = None
    reusable: bool = True  # whether the process may run another query


def send(channel: socket.socket, message: msgspec.Struct, descriptors: tuple[int, ...] = ()) -> None:
    """Write one frame, with its file descriptors."""
    data = msgspec.json.encode(message)
    frame = _LENGTH.pack(len(data)) + data
    sent = socket.send_fds(channel, [frame], list(descriptors)) if descriptors else channel.send(frame)
    channel.sendall(frame[sent:])


def receive(channel: socket.socket, descriptors: int = 0) -> tuple[bytes, list[int]] | None:
    """Read one frame and up to `descriptors` file descriptors; None at the end of the channel.

    Raises:
        ConnectionError: The frame is too large, or the channel ended within it.
    """
    head, found, _, _ = socket.recv_fds(channel, _LENGTH.size, descriptors)
    if not head:
        return None
    head += _exactly(channel, _LENGTH.size - len(head))
    (size,) = _LENGTH.unpack(head)
    if size > FRAME_MAX_BYTES:
        raise ConnectionError(f"a frame of {size} bytes")
    return _exactly(channel, size), found


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise ConnectionError("the channel ended within a frame")
        data += piece
    return bytes(data)
