"""Every setting of trainfare, as frozen models that are loaded once and passed on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.calendar import UTC_ZONE, WEEKDAYS, Calendar
from streams.config.live import (
    ActionSettings,
    AlertSettings,
    CanarySettings,
    CiSettings,
    Group,
    WebSettings,
)
from streams.config.serving import AtRestSettings, SecondPersonSettings, ServeSettings, SignInSettings

MIB_BYTES = 2**20

_HOST_PORT = re.compile(r"^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$")
_TOPIC_PREFIX = re.compile(r"^[A-Za-z0-9._-]{0,100}$")
_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,100}$")

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaSettings(Group):
    """Where the events come from, and how the group of workers behaves."""

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        description="Brokers to begin with: `host:port`, several separated by commas.",
    )
    group_id: str = Field(
        default="trainfare",
        min_length=1,
        max_length=200,
        description="Consumer group; all workers of one meter share it.",
    )
    topic_prefix: str = Field(default="trainfare.", description="Put before every topic name.")
    partitions: int = Field(
        default=8,
        ge=1,
        le=4096,
        description="Partitions of `jobs`, `gpu`, `network`, `storage` and `nodes`; at most so many workers share "
        "the load. It cannot be changed once events are in the log.",
    )
    replication_factor: int = Field(
        default=1, ge=1, le=15, description="Copies of each partition that `topics create` asks for."
    )
    session_timeout_ms: int = Field(
        default=10_000,
        ge=1_000,
        le=90_000,
        description="A worker silent for so long loses its partitions to the others.",
    )
    heartbeat_interval_ms: int = Field(
        default=500,
        ge=50,
        le=30_000,
        description="How often a worker says that it lives; at most a third of the session timeout.",
    )
    fetch_min_bytes: int = Field(
        default=262_144,
        ge=1,
        le=64 * MIB_BYTES,
        description="A broker waits for so much before it answers a fetch (or for `fetch_max_wait_ms`). "
        "Small values burn a core at a thousand records a second.",
    )
    fetch_max_wait_ms: int = Field(
        default=250,
        ge=1,
        le=10_000,
        description="The longest such wait, five times that if it ends before the next checkpoint, and up to 2 s where "
        "nothing comes: then the first record ends it. Fewer, larger fetches cost less to meter.",
    )
    raw_batches: bool = Field(
        default=True,
        description="Read fetches as whole blocks of bytes. `false`: a record at a time, by aiokafka; slower, same results.",
    )
    group_instance_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A name of this worker that survives restarts (static membership): nothing is revoked when it "
        "comes back within the session timeout.",
    )
    security_protocol: SecurityProtocol = Field(default="PLAINTEXT", description="How brokers are spoken to.")
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="Needed with a `SASL_...` security protocol."
    )
    sasl_username: str | None = Field(default=None, min_length=1, description="Needed with a SASL mechanism.")
    sasl_password: SecretStr | None = Field(default=None, description="Needed with a SASL mechanism.")
    ssl_ca_location: Path | None = Field(
        default=None, description="File with the certificates of the brokers' authority (PEM)."
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _host_ports(cls, text: str) -> str:
        """Refuse credentials in the address: addresses are logged and shown."""
        if "@" in text or "://" in text:
            raise ValueError(
                "expected host:port[,host:port...] without scheme or user:password "
                "(give kafka.sasl_username and kafka.sasl_password)"
            )
        servers = [part.strip() for part in text.split(",")]
        for server in servers:
            match = _HOST_PORT.match(server)
            if match is None or not 1 <= int(match.group(1)) <= 65_535:
                raise ValueError("expected host:port[,host:port...], e.g. kafka-1:9092,kafka-2:9092")
        return ",".join(servers)

    @field_validator("topic_prefix")
    @classmethod
    def _prefix(cls, text: str) -> str:
        if not _TOPIC_PREFIX.match(text):
            raise ValueError("expected at most 100 letters, digits, dots, dashes or underscores")
        return text


class ClickHouseSettings(Group):
    """Where the ledger is kept: a server, or the same engine embedded in the process."""

    url: str = Field(
        default="http://127.0.0.1:8123", description="The server's HTTP address; not used with `data_dir`."
    )
    user: str = Field(default="default", min_length=1, description="User of the server.")
    password: SecretStr = Field(default=SecretStr(""), description="Its password.")
    reader_user: str = Field(
        default="",
        max_length=256,
        description="User of the server that runs users' SQL (`/api/v1/query`, `trainfare sql`). It must have SELECT on our "
        "database and nothing else; without it that SQL is off.",
    )
    reader_password: SecretStr = Field(default=SecretStr(""), description="Its password.")
    database: str = Field(
        default="trainfare", description="Database of all tables and views; made if it is missing."
    )
    data_dir: Path | None = Field(
        default=None,
        description="A directory for the embedded ClickHouse (`--data`); one worker or replay at a time, `trainfare sql` beside it.",
    )
    cluster: str | None = Field(
        default=None,
        description="The name that the servers give their cluster (`remote_servers`): tables are replicated and spread over it. With the first "
        "start only; see docs/clickhouse_cluster.md.",
    )

    @field_validator("url")
    @classmethod
    def _http(cls, text: str) -> str:
        if "@" in text:
            raise ValueError("expected no user:password in it (give clickhouse.user and clickhouse.password)")
        scheme, separator, rest = text.partition("://")
        host_port = rest.rstrip("/")
        if not separator or scheme not in ("http", "https") or not host_port or "/" in host_port:
            raise ValueError("expected http://host:port or https://host:port")
        if ":" in host_port and not _HOST_PORT.match(host_port):
            raise ValueError("expected http://host:port or https://host:port")
        return f"{scheme}://{host_port}"

    @field_validator("database", "cluster")
    @classmethod
    def _identifier(cls, text: str | None) -> str | None:
        if text is not None and not _IDENTIFIER.match(text):
            raise ValueError("expected a plain name: letters, digits, underscores, no digit first")
        return text


class MeterSettings(Group):
    """The horizons within which the result does not depend on order, and the pace of the checkpoints."""

    job_horizon_ms: int = Field(
        default=DAY_MS,
        ge=MINUTE_MS,
        le=30 * DAY_MS,
        description="An event so much older than the newest one before it in its partition is `too_late`.",
    )
    late_horizon_ms: int = Field(
        default=10 * MINUTE_MS,
        ge=10_000,
        le=HOUR_MS,
        description="A GPU sample so much older than the newest second of its GPU is `too_late`; memory grows with it.",
    )
    dedupe_horizon_ms: int = Field(
        default=HOUR_MS,
        ge=MINUTE_MS,
        le=7 * DAY_MS,
        description="How long the identity of a network or storage amount is remembered, in log time.",
    )
    checkpoint_interval_ms: int = Field(
        default=1_200,
        ge=100,
        le=60_000,
        description="How often rows are written and offsets committed; five sixths of it where more than 1 MiB/s is read, "
        "five thirds far behind the log's end.",
    )
    max_backlog_bytes: int = Field(
        default=256 * MIB_BYTES,
        ge=MIB_BYTES,
        le=64 * 1024 * MIB_BYTES,
        description="What may wait for a ClickHouse that does not answer, as it weighs in memory, before reading pauses; "
        "from half of it on a checkpoint does not wait for its time.",
    )
    dead_letters_per_minute: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Dead letters kept whole per shard, topic, reason and minute of log time (16 MiB of them at most); "
        "of more, every 100th with 1 KiB of its record. All are counted. `replay` keeps every one.",
    )
    max_idle_gpus: int = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="GPUs without a job of which a shard keeps minutes at a time, about 3 KB each; samples of more are counted "
        "`unattributed` and not kept (`trainfare_fallbacks_total`, `gpu_not_kept`).",
    )
    stall_not_ready_ms: int = Field(
        default=60_000,
        ge=5_000,
        le=HOUR_MS,
        description="`/readyz` turns red when a shard that is behind the log has folded nothing for so long.",
    )
    stall_restart_ms: int = Field(
        default=300_000,
        ge=10_000,
        le=DAY_MS,
        description="`/healthz` turns 503, so that a liveness probe starts the worker anew, when it has stood still for so "
        "long or left the group, and Kafka and ClickHouse answered all the while.",
    )
    minutes_retention_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Whole months of `job_minutes`, `job_usage_minutes` and `unattributed_minutes` are dropped once they ended so many days before "
        "the newest event; `job_hours` stays. `0`: never. `replay` drops nothing.",
    )
    as_of_ms: int | None = Field(
        default=None,
        ge=0,
        description="Pay unfinished jobs up to this instant (ms since 1970 UTC) instead of the clock.",
    )


class QuerySettings(Group):
    """What SQL of users may take; it runs in processes of its own."""

    enabled: bool = Field(default=True, description="Whether `/api/v1/query` runs SQL at all.")
    max_concurrent: int = Field(
        default=2,
        ge=1,
        le=16,
        description="Queries at a time, one fewer for one token and address; more wait, for ten seconds at most.",
    )
    max_execution_time_ms: int = Field(
        default=30_000, ge=1_000, le=30_000, description="How long one may run; then it is ended."
    )
    max_memory_bytes: int = Field(
        default=128 * MIB_BYTES,
        ge=32 * MIB_BYTES,
        le=1024 * MIB_BYTES,
        description="Memory that one may take; its process takes up to 512 MiB more.",
    )


class CalendarSettings(Group):
    """Where days, weeks and months of costs begin: the usual one of commands and the API. Budgets name their own."""

    time_zone: str = Field(
        default=UTC_ZONE, description="A name of the IANA time zone database; `--tz` and `tz` name another."
    )
    week_start: str = Field(default=WEEKDAYS[0], description="The day on which weeks begin, e.g. `sunday`.")
    year_start: str = Field(
        default="01-01",
        description="Month and day on which a fiscal year begins, e.g. `04-06`, the day 28 at most. Fiscal months begin on that day of each month.",
    )
    months: Literal["calendar", "4-4-5", "4-5-4", "5-4-4"] = Field(
        default="calendar",
        description="`4-4-5` and the like: fiscal months are so many weeks; the year begins with the week whose start is nearest to `year_start`.",
    )

    @model_validator(mode="after")
    def _is_calendar(self) -> CalendarSettings:
        self.calendar()
        return self

    def calendar(self) -> Calendar:
        """The calendar."""
        return Calendar(self.time_zone, self.week_start, self.year_start, self.months)


class LogSettings(Group):
    """What the process says about itself, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe line that is shown."
    )
    format: Literal["auto", "console", "json"] = Field(
        default="auto",
        description="`json`: one object a line; `console`: for people; `auto`: console on a terminal, else json.",
    )


class Settings(Group):
    """All settings, resolved."""

    kafka: KafkaSettings = KafkaSettings()
    clickhouse: ClickHouseSettings = ClickHouseSettings()
    meter: MeterSettings = MeterSettings()
    alerts: AlertSettings = AlertSettings()
    actions: ActionSettings = ActionSettings()
    web: WebSettings = WebSettings()
    sign_in: SignInSettings = SignInSettings()
    at_rest: AtRestSettings = AtRestSettings()
    second_person: SecondPersonSettings = SecondPersonSettings()
    query: QuerySettings = QuerySettings()
    calendar: CalendarSettings = CalendarSettings()
    ci: CiSettings = CiSettings()
    canary: CanarySettings = CanarySettings()
    serve: ServeSettings = ServeSettings()
    log: LogSettings = LogSettings()
