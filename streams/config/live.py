"""The settings of alerts, web server and canary; part of `streams.config.settings`."""

from __future__ import annotations

import base64
import ipaddress
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from schemas.canary_proof import KEY_MIN_CHARS

_ADDRESS = re.compile(r"^[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,189}$")
_LINK_BASE = re.compile(
    r"^https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/%-]*)?$"
)
_HOST = re.compile(r"^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?$")
_RUNNER_GPUS = re.compile(r"(?P<name>[^=]{1,256})=\s*(?P<count>[0-9]{1,6})(?:x(?P<type>[^=\s]{1,256}))?\Z")

#: As `streams.notify.groups` has them.
_GROUP_LABELS = (
    "alertname",
    "rule",
    "severity",
    "owner",
    "team",
    "project",
    "subject_kind",
    "subject_name",
    "...",
)
_JOB_LABEL = "label."
SmtpSecurity = Literal["starttls", "tls", "none"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name other than `localhost` may resolve to anything."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def signing_secrets(text: str) -> tuple[str, ...]:
    """The one or two secrets of a text, which are separated by white space; with two, both sign.

    Raises:
        ValueError: They are not what Standard Webhooks asks for; the message shows none.
    """
    secrets = tuple(text.split())
    for secret in secrets:
        try:
            size = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
        except ValueError:
            size = 0
        if not secret.startswith("whsec_") or not 24 <= size <= 64:
            raise ValueError("expected whsec_ and the base64 of 24 to 64 random bytes")
    if not 1 <= len(secrets) <= 2:
        raise ValueError("expected one secret, or two while receivers change to the second")
    return secrets


def link_base(text: str) -> str:
    """The address that links begin with, without a slash at its end; empty stays empty.

    Raises:
        ValueError: It is no plain http or https address.
    """
    base = text.strip().rstrip("/")
    if base and not _LINK_BASE.match(base):
        raise ValueError(
            "expected an address like https://trainfare.example.com, without user, query or fragment"
        )
    return base


class Group(BaseModel):
    """One table of `trainfare.toml`: frozen, and an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AlertSettings(Group):
    """Where alerts go; addresses of owners come through the topic `controls`."""

    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Signs webhooks of owners without a secret of their own (Standard Webhooks: `whsec_` and base64 of 24 "
        "to 64 bytes; two, separated by a space, both sign). With neither this nor another setting of a receiver, alerts "
        "are judged and stored, and nothing is sent.",
    )
    owner_secrets_dir: Path | None = Field(
        default=None,
        description="A directory with the secret of an owner's webhooks in the file of the owner's name (as in a URL: `ada%40example.com`); "
        "two lines are two secrets, which both sign. Others must not be able to read the files. Read again within a minute.",
    )
    default_webhook: SecretStr | None = Field(
        default=None,
        description="Where the alert of an owner without an address goes: an https address, e.g. the platform's on-call.",
    )
    allow_hosts: str = Field(
        default="",
        description="Hosts, or `host:port`, separated by commas, that webhooks may reach although they are private "
        "or speak plain http, e.g. a relay inside the cluster.",
    )
    alertmanager_urls: str = Field(
        default="",
        description="Addresses of all peers of an Alertmanager, separated by commas, e.g. http://am-1:9093,http://am-2:9093; "
        "they get every alert that is not silenced, whoever owns it.",
    )
    alertmanager_token: SecretStr | None = Field(
        default=None, description="Shown to them as `Authorization: Bearer ...`."
    )
    alertmanager_resend_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=240_000,
        description="How often they get again what fires; without, they take it for resolved after five times that.",
    )
    smtp_host: str = Field(
        default="",
        description="The server that takes e-mail for owners' `email` addresses: `host`, or `host:port` (otherwise 587, with `tls` 465, "
        "with `none` 25).",
    )
    smtp_security: SmtpSecurity = Field(
        default="starttls",
        description="`starttls` and `tls` demand a valid certificate; `none` shows no password.",
    )
    smtp_user: str = Field(default="", max_length=256, description="User of that server, if it asks for one.")
    smtp_password: SecretStr | None = Field(default=None, description="Its password.")
    smtp_from: str = Field(
        default="", description="The address that e-mail is from; needed with `smtp_host`."
    )
    smtp_ca_location: Path | None = Field(
        default=None,
        description="File with the certificates of the server's authority (PEM), if it is your own.",
    )
    email_domains: str = Field(
        default="",
        description="Domains that e-mail may go to, separated by commas; without it any. Whoever may write to `controls` names the addresses.",
    )
    incident_wait_ms: int = Field(
        default=10_000,
        ge=0,
        le=30_000,
        description="How long an alert that may share its cause waits for others with it: from three jobs on one message tells of all.",
    )
    group_by: str = Field(
        default="owner,project",
        description="Labels, separated by commas: alerts that have the same share a message to people (Slack, e-mail). Of alertname (or "
        "rule), severity, owner, team, project, subject_kind, subject_name, or `label.NAME`, a label of the job; `...`: each alert alone; empty: all of a receiver.",
    )
    group_wait_ms: int = Field(
        default=10_000,
        ge=0,
        le=300_000,
        description="How long the first message to people (Slack, e-mail) of a group waits for others of them.",
    )
    group_interval_ms: int = Field(
        default=300_000,
        ge=0,
        le=3_600_000,
        description="Between two such messages; a new page waits a minute at most.",
    )
    repeat_interval_ms: int = Field(
        default=14_400_000,
        ge=0,
        le=604_800_000,
        description="After how long without a message they get again what still fires; 0: never.",
    )
    docs_url: str = Field(
        default="",
        description="Where people read the folder of this documentation, e.g. that of the repository; messages, and the pages of an alert and of the meter, link into it.",
    )
    max_attempts: int = Field(
        default=8, ge=1, le=20, description="How often a message is tried before it counts as failed."
    )
    timeout_ms: int = Field(
        default=15_000, ge=100, le=60_000, description="How long a receiver may take to answer."
    )

    @property
    def smtp_host_port(self) -> tuple[str, int]:
        """The server's host, without brackets, and its port."""
        host, separator, port = self.smtp_host.rpartition(":")
        if not separator or self.smtp_host.endswith("]"):
            return self.smtp_host.strip("[]"), {"starttls": 587, "tls": 465, "none": 25}[self.smtp_security]
        return host.strip("[]"), int(port)

    @field_validator("webhook_secret")
    @classmethod
    def _standard_webhooks(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None:
            signing_secrets(secret.get_secret_value())
        return secret

    @field_validator("smtp_host")
    @classmethod
    def _one_host(cls, text: str) -> str:
        if text and not _HOST.match(text):
            raise ValueError("expected host or host:port")
        return text

    @field_validator("smtp_from")
    @classmethod
    def _from(cls, text: str) -> str:
        if text and not _ADDRESS.match(text):
            raise ValueError("expected one plain address, like trainfare@example.com")
        return text

    @field_validator("alertmanager_urls")
    @classmethod
    def _peers(cls, text: str) -> str:
        return ",".join(link_base(part) for part in text.split(",") if part.strip())

    @field_validator("group_by")
    @classmethod
    def _labels(cls, text: str) -> str:
        names = [part.strip() for part in text.split(",") if part.strip()]
        for name in names:
            of_job = name.startswith(_JOB_LABEL) and len(name) > len(_JOB_LABEL)
            if name not in _GROUP_LABELS and not of_job:
                allowed = ", ".join((*_GROUP_LABELS, f"{_JOB_LABEL}NAME"))
                raise ValueError(f"{name}: no label of alerts, expected some of {allowed}")
        if len(set(names)) < len(names):
            raise ValueError("a label is in it twice")
        return ",".join(names)

    @field_validator("docs_url")
    @classmethod
    def _docs(cls, text: str) -> str:
        return link_base(text)

    @field_validator("allow_hosts")
    @classmethod
    def _hosts(cls, text: str) -> str:
        hosts = [part.strip() for part in text.split(",") if part.strip()]
        for host in hosts:
            if not _HOST.match(host):
                raise ValueError("expected host or host:port, several separated by commas")
        return ",".join(hosts)


class ActionSettings(Group):
    """What budgets ask for: a receiver of yours acts on jobs."""

    mode: Literal["dry_run", "live"] = Field(
        default="dry_run",
        description="`dry_run`: what would be asked for is stored in `actions`, and nothing is sent. `live`: it is sent.",
    )
    webhook: SecretStr | None = Field(
        default=None,
        description="Address of the receiver that acts, of budgets that name none; as for alerts, "
        "`alerts.allow_hosts` lists those that may be private.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Signs requests (as `alerts.webhook_secret`, which signs them if this is absent).",
    )
    grace_ms: int = Field(
        default=300_000,
        ge=0,
        le=7 * 86_400_000,
        description="From one escalation step of a budget to the next, of budgets that do not say `grace_s`.",
    )

    @field_validator("webhook_secret")
    @classmethod
    def _signing(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None:
            signing_secrets(secret.get_secret_value())
        return secret


class WebSettings(Group):
    """The API and the live page."""

    enabled: bool = Field(default=True, description="Whether a worker serves them at all.")
    bind: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address to listen on; any but a loopback address needs a token.",
    )
    port: int = Field(
        default=8787, ge=0, le=65_535, description="Port to listen on; 0 takes any that is free."
    )
    public_url: str = Field(
        default="",
        description="The address by which people open the page, e.g. https://trainfare.example.com; messages link to it. "
        "Without it they have no such links.",
    )
    token: SecretStr | None = Field(
        default=None,
        description="Has all scopes; shown as `Authorization: Bearer ...`. As soon as any token is set, only /healthz, "
        "/readyz and the page without its figures are open.",
    )
    metrics_token: SecretStr | None = Field(
        default=None, description="Has the scope `metrics` alone: /metrics, for Prometheus."
    )
    require_token: bool = Field(
        default=False,
        description="Every request needs a token, of these settings or of `trainfare tokens create`, from a loopback address too; "
        "`bind` may then be any address without a token here.",
    )
    tokens_file: Path | None = Field(
        default=None,
        description="A file of issued tokens (`trainfare tokens create --file`), read at start beside those of the log: for the first "
        "one. Without it a worker with a data directory reads its `tokens.jsonl`.",
    )
    read_token: SecretStr | None = Field(
        default=None, description="Has the scope `read` alone: the page, its figures and the stream."
    )
    query_token: SecretStr | None = Field(default=None, description="Has the scope `query` alone: SQL.")
    write_token: SecretStr | None = Field(
        default=None,
        description="Has the scopes `ingest`, `act` and `limit`: sending events, acting on alerts, budgets, bills. "
        "Not for a company: `trainfare tokens create` issues one to each sender.",
    )
    act_link_key: SecretStr | None = Field(
        default=None,
        description="Signs the links of messages by which an alert is acknowledged, silenced for up to a day or planned without a "
        "token, for seven days: at least 32 characters, the same in all workers. Without it such links ask for `write_token`. "
        "Another key ends all links that were sent.",
    )
    closing_key: SecretStr | None = Field(
        default=None,
        description="Signs the manifests of closed months (`trainfare close`), at least 32 characters, the same wherever months are "
        "closed and verified. Without it the data directory has a key of its own, in its file `closing_key`; a ClickHouse server needs it.",
    )
    session_ms: int = Field(
        default=43_200_000,
        ge=60_000,
        le=2_592_000_000,
        description="How long a browser is let in after it showed a token; then the page asks for one again.",
    )
    trusted_proxies: str = Field(
        default="",
        description="Addresses and networks of reverse proxies, separated by commas, whose `X-Forwarded-Proto` is believed: behind TLS "
        "the page's cookie is `Secure`. It is so, too, at the host of an https `public_url`.",
    )
    max_connections: int = Field(
        default=512,
        ge=16,
        le=65_536,
        description="Connections at a time; less where the limit of open files leaves fewer than 256 for the rest. "
        "One too many takes the place of the one that has been idle longest.",
    )
    max_connections_per_address: int = Field(
        default=128,
        ge=4,
        le=65_536,
        description="Of them, from one address (IPv6: from one /64). A reverse proxy is one address.",
    )
    max_streams_per_client: int = Field(
        default=8,
        ge=1,
        le=64,
        description="Listeners of /api/v1/stream with one token and from one address; 64 in all. Raise it behind a "
        "reverse proxy, which is one address.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, text: str) -> str:
        for part in text.split(","):
            try:
                if part.strip():
                    ipaddress.ip_network(part.strip())
            except ValueError:
                raise ValueError("expected addresses or networks, e.g. 10.0.0.7,10.1.0.0/16") from None
        return text

    @field_validator("public_url")
    @classmethod
    def _public(cls, text: str) -> str:
        return link_base(text)

    @field_validator("token", "metrics_token", "read_token", "query_token", "write_token")
    @classmethod
    def _long_enough(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < 16:
            raise ValueError("expected at least 16 characters")
        return token

    @field_validator("act_link_key", "closing_key")
    @classmethod
    def _hard_to_guess(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < 32:
            raise ValueError("expected at least 32 characters, e.g. of `openssl rand -hex 32`")
        return key

    def tokens(self) -> dict[str, SecretStr]:
        """The configured tokens by the names of their settings."""
        names = ("token", "metrics_token", "read_token", "query_token", "write_token")
        return {name: token for name in names if (token := getattr(self, name)) is not None}

    def equal_token(self) -> str | None:
        """The name of a token that equals an earlier one: its scopes would depend on the order."""
        seen: set[str] = set()
        for name, token in self.tokens().items():
            text = token.get_secret_value()
            if text in seen:
                return name
            seen.add(text)
        return None


class CiSettings(Group):
    """Webhooks of CI systems, which become jobs; each is open only where its secret is set."""

    github_secret: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Secret of GitHub's webhook for `workflow_job`, to `/api/v1/hooks/github`.",
    )
    gitlab_token: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Secret token of GitLab's webhook for job events, to `/api/v1/hooks/gitlab`.",
    )
    runner_gpus: str = Field(
        default="",
        max_length=65_536,
        description="GPUs of runners, by a label (GitLab: tag) or by the name of a job: `NAME=COUNT` or `NAME=COUNTxTYPE`, "
        "separated by commas, e.g. `gpu-h100=8xH100, eval=1xL4`. Jobs of other runners are not metered; `NAME=0` says of a name "
        "that looks like a GPU's that it stands for none.",
    )

    @field_validator("runner_gpus")
    @classmethod
    def _are_gpus(cls, text: str) -> str:
        gpus_by_name(text)
        return text


def gpus_by_name(text: str) -> dict[str, tuple[int, str]]:
    """Count and type of the GPUs that a text such as `gpu-h100=8xH100, eval=1` gives each name.

    Raises:
        ValueError: The text is not such a list.
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _RUNNER_GPUS.match(part)
        if match is None or int(match["count"]) > 100_000:
            raise ValueError(
                "expected NAME=COUNT or NAME=COUNTxTYPE, separated by commas, e.g. gpu-h100=8xH100"
            )
        found[match["name"].strip()] = (int(match["count"]), match["type"] or "")
    return found


class CanarySettings(Group):
    """A synthetic job of known cost that runs through the whole meter at an interval."""

    enabled: bool = Field(
        default=False,
        description="Whether it runs. It writes its events and its price into your topics, on every partition in turn: "
        "events older than `meter.job_horizon_ms` are then `too_late` on all of them.",
    )
    key: SecretStr | None = Field(
        default=None,
        description="Signs the canary's records, so that nobody else's pass for them: the same on all workers, and known to nobody "
        "else. Needed with a ClickHouse server (`openssl rand -hex 32`); in a data directory the worker makes a file `canary_key`.",
    )
    interval_ms: int = Field(
        default=60_000, ge=1_000, le=3_600_000, description="How often; the worker with shard 0 runs it."
    )
    late_after_ms: int = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="From Kafka's acknowledgement of its last event to its stored cost; longer is late, which pages.",
    )
    tolerance_ratio: float = Field(
        default=0.001,
        ge=0,
        le=1,
        description="By how much of the known cost the stored one may differ; more is wrong, which pages.",
    )

    @field_validator("key")
    @classmethod
    def _long_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < KEY_MIN_CHARS:
            raise ValueError(f"expected at least {KEY_MIN_CHARS} characters")
        return key
