"""Where a ClickHouse is: a server's address, or a directory for the one embedded in this process."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sinks.errors import QueriesOff, SinkError
from sinks.query.wire import ServerAddress, StoreFiles

DATABASE: Final = "trainfare"
_PORTS: Final = {"http": 8123, "https": 8443}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A ClickHouse server, accessed over HTTP. The password is not in its `repr`."""

    url: str
    database: str = DATABASE
    user: str = "default"
    password: str = field(default="", repr=False)
    #: The user that runs users' SQL; without one it is off.
    reader_user: str = ""
    reader_password: str = field(default="", repr=False)
    ca_cert: Path | None = None
    compress: bool = True
    connect_timeout_s: int = 5
    request_timeout_s: int = 60
    retry_for_s: float = 10.0
    #: The cluster whose servers all have the tables; "": this server alone.
    cluster: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise SinkError(f"`{self.url}` is no address of a ClickHouse; expected http(s)://host:port")
        if parts.username or parts.password:
            raise SinkError("the address of the ClickHouse names a user or password; give them apart")

    @property
    def scheme(self) -> str:
        """One of `http` and `https`."""
        return urlsplit(self.url).scheme

    @property
    def host(self) -> str:
        """Its host, without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port, the usual one if the address has none."""
        return urlsplit(self.url).port or _PORTS[self.scheme]

    def __str__(self) -> str:
        return f"ClickHouse at {self.url}{self.cluster and f', cluster {self.cluster}'}"


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A ClickHouse inside this process; one process at a time, and one directory per process."""

    data_dir: Path
    database: str = DATABASE
    retry_for_s: float = 10.0
    #: Where the engine may write and read backups; None: nowhere.
    backup_dir: Path | None = None

    @property
    def engine_dir(self) -> Path:
        """The engine's directory; the rest of the data directory is ours."""
        return self.data_dir.resolve() / "clickhouse"

    def __str__(self) -> str:
        return f"the store in {self.data_dir}"


Target = Server | Embedded


def query_source(target: Target) -> StoreFiles | ServerAddress:
    """Where SQL of users is run.

    Raises:
        QueriesOff: The settings name no read-only user.
    """
    if isinstance(target, Embedded):
        return StoreFiles(str(target.engine_dir), target.database)
    if not target.reader_user:
        raise QueriesOff(
            "SQL of users is off: set clickhouse.reader_user (and clickhouse.reader_password) to a user of ClickHouse that "
            f"has GRANT SELECT ON {target.database}.* and nothing else"
        )
    return ServerAddress(
        target.scheme,
        target.host,
        target.port,
        target.reader_user,
        target.reader_password,
        target.database,
        str(target.ca_cert) if target.ca_cert else None,
    )
