"""Loads the settings once, from `trainfare.toml`, `TRAINFARE_*` variables and files that contain secrets.

It reports every fault, not only the first, each with its setting, value, expectation and origin, and shows no secret.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from streams.config.live import AlertSettings, is_loopback
from streams.config.renamed import BY_FORMER, FormerName
from streams.config.settings import Settings
from streams.errors import FaultsError

ENV_PREFIX = "TRAINFARE_"
CONFIG_VARIABLE = "TRAINFARE_CONFIG"
DEFAULT_FILE = Path("trainfare.toml")
_OTHERS = frozenset({"TRAINFARE_KAFKA_LIBS"})
"""Looks like a setting, but tells the tests where Kafka's jars are."""
_HIDDEN = "***"
_PYDANTIC_WORDS = re.compile(r"^(Input|String) should")
_ORCHESTRATOR = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$")
"""Kubernetes sets such variables for a Service named trainfare-...; they are not ours."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one setting."""

    setting: str
    value: str
    expected: str
    origin: str

    def __str__(self) -> str:
        return f"{self.setting}: got {self.value}, {self.expected} (from {self.origin})"


class SettingsError(FaultsError):
    """The settings are invalid."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults: list[Fault] = faults
        super().__init__("; ".join(str(fault) for fault in faults))


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as written, where, and the former name of its setting if it stands under that."""

    value: object
    origin: str
    former: str | None = None


def groups() -> dict[str, type[BaseModel]]:
    """The settings groups by name, in the order of the documentation."""
    return {name: type(field.default) for name, field in Settings.model_fields.items()}


def variable(group: str, name: str) -> str:
    """The environment variable of a setting."""
    return f"{ENV_PREFIX}{group}_{name}".upper()


def is_secret(field: FieldInfo) -> bool:
    """Whether the value must never be shown."""
    return "SecretStr" in str(field.annotation)


_FIELDS: Final = {
    f"{group}.{name}": field
    for group, model in groups().items()
    for name, field in model.model_fields.items()
}


def load_settings(
    env: Mapping[str, str], file: Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings; later sources win: file, environment, `overrides` (`{"clickhouse.data_dir": ...}`).

    Raises:
        SettingsError: One or more settings are invalid; all faults are listed.
    """
    given, faults = _read(env, file)
    for setting, value in (overrides or {}).items():
        if value is not None:
            given[setting] = _Given(value, "the command line")
    settings = _validate(given, faults)
    faulty = {fault.setting for fault in faults}
    for setting, expected in (*_timing_faults(settings), *_access_faults(settings)):
        if setting not in faulty:
            origin = given[setting].origin if setting in given else "the default"
            faults.append(_refused(setting, attrgetter(setting)(settings), expected, origin))
    if faults:
        raise SettingsError(sorted(faults, key=lambda fault: fault.setting))
    return settings


def load_origins(env: Mapping[str, str], file: Path | None = None) -> dict[str, str]:
    """Where each setting that was given comes from; what is absent has its default."""
    return {setting: each.origin for setting, each in _read(env, file)[0].items()}


def former_names(env: Mapping[str, str], file: Path | None = None) -> list[FormerName]:
    """The former names of settings whose values are used."""
    given = _read(env, file)[0].values()
    return [FormerName(BY_FORMER[each.former], each.origin) for each in given if each.former is not None]


# Not pydantic-settings: it has no origins, no `..._FILE` variables and no suggestions of similar names, and treats a
# missing file as empty. What it would replace here is shorter than its adapters.
def _read(env: Mapping[str, str], file: Path | None) -> tuple[dict[str, _Given], list[Fault]]:
    """What the file and the environment contain; append faults."""
    faults: list[Fault] = []
    named = file or env.get(CONFIG_VARIABLE)
    path = Path(named) if named else DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    given = _from_file(path, faults) if path is not None else {}
    return given | _from_environment(env, faults), faults


def _from_file(path: Path, faults: list[Fault]) -> dict[str, _Given]:
    """Read the TOML file, two levels deep."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        expected = f"expected a readable file ({fault.strerror})"
        faults.append(Fault("settings file", str(path), expected, "its name"))
        return {}
    except (ValueError, RecursionError) as fault:
        faults.append(Fault("settings file", str(path), f"expected TOML ({fault})", "its content"))
        return {}
    given: dict[str, _Given] = {}
    for group, table in tables.items():
        if group not in groups() or not isinstance(table, dict):
            expected = f"expected one of the tables {', '.join(groups())}"
            faults.append(Fault(group, "a table or value", expected, str(path)))
            continue
        for name, value in table.items():
            setting = f"{group}.{name}"
            if setting in _FIELDS:
                given[setting] = _Given(value, str(path))
            elif (renamed := BY_FORMER.get(setting)) is None:
                faults.append(_unknown(setting, _FIELDS, str(path)))
            elif renamed.name.partition(".")[2] in table:
                faults.append(_given_twice(setting, renamed.name, str(path)))
            else:
                given[renamed.name] = _Given(value, str(path), setting)
    return given


def _from_environment(env: Mapping[str, str], faults: list[Fault]) -> dict[str, _Given]:
    """Read the variables; an empty one counts as absent."""
    given: dict[str, _Given] = {}
    known = {CONFIG_VARIABLE, *_OTHERS}
    for setting, field in _FIELDS.items():
        plain = variable(*setting.split("."))
        known.add(plain)
        if env.get(plain):
            given[setting] = _Given(env[plain], plain)
        if is_secret(field):
            by_file = f"{plain}_FILE"
            known.add(by_file)
            if env.get(plain) and env.get(by_file):
                expected = f"expected only one of {plain} and {by_file}"
                faults.append(Fault(setting, _HIDDEN, expected, "the environment"))
            elif env.get(by_file):
                _read_secret(setting, Path(env[by_file]), by_file, given, faults)
    for setting, renamed in BY_FORMER.items():
        former = variable(*setting.split("."))
        known.add(former)
        if env.get(former) and renamed.name in given:
            faults.append(_given_twice(former, variable(*renamed.name.split(".")), "the environment"))
        elif env.get(former):
            given[renamed.name] = _Given(env[former], former, setting)
    prefixes = tuple(variable(group, "") for group in groups())
    faults.extend(
        _unknown(name, known, "the environment")
        for name in env
        if name.startswith(prefixes) and name not in known and not _ORCHESTRATOR.search(name)
    )
    return given


def _read_secret(
    setting: str, path: Path, by_file: str, given: dict[str, _Given], faults: list[Fault]
) -> None:
    """Read a secret from the file that a `..._FILE` variable names."""
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
        given[setting] = _Given(secret, f"{by_file} ({path})")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8"
        faults.append(Fault(setting, str(path), f"expected a readable file ({reason})", by_file))


def _validate(given: Mapping[str, _Given], faults: list[Fault]) -> Settings:
    """The settings with the faulty ones left at their defaults; the faults are appended."""
    tree: dict[str, dict[str, object]] = {}
    for setting, each in given.items():
        group, name = setting.split(".")
        tree.setdefault(group, {})[name] = each.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            group, name = str(detail["loc"][0]), str(detail["loc"][1])
            if tree[group].pop(name, None) is not None:
                each = given[f"{group}.{name}"]
                message = detail["msg"].removeprefix("Value error, ")
                expected = _PYDANTIC_WORDS.sub("expected it to", message, count=1)
                faults.append(_refused(f"{group}.{name}", each.value, expected, each.origin))
    return Settings.model_validate(tree)


def _refused(setting: str, value: object, expected: str, origin: str) -> Fault:
    """The fault of a value; a secret is not shown."""
    is_hidden = value is not None and is_secret(_FIELDS[setting])
    return Fault(setting, _HIDDEN if is_hidden else redact(value), expected, origin)


def redact(value: object) -> str:
    """The value as text, without what may be a password in an address."""
    text = str(value)
    if "@" in text:
        return f"{_HIDDEN}@{text.rpartition('@')[2]}"
    return text if text else "''"


def _timing_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield times that are valid one by one and invalid together, and what is expected."""
    kafka, meter = settings.kafka, settings.meter
    if kafka.heartbeat_interval_ms * 3 > kafka.session_timeout_ms:
        yield "kafka.heartbeat_interval_ms", "expected at most a third of kafka.session_timeout_ms"
    if kafka.fetch_max_wait_ms >= kafka.session_timeout_ms:
        yield "kafka.fetch_max_wait_ms", "expected less than kafka.session_timeout_ms"
    if meter.late_horizon_ms > meter.job_horizon_ms:
        yield "meter.late_horizon_ms", "expected at most meter.job_horizon_ms"
    if settings.canary.late_after_ms > settings.canary.interval_ms:
        yield "canary.late_after_ms", "expected at most canary.interval_ms"


def _sign_in_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield what signing in lacks."""
    sign_in, public = settings.sign_in, urlsplit(settings.web.public_url)
    if not sign_in.is_on:
        return
    if sign_in.roles_file is None:
        yield "sign_in.roles_file", "expected a TOML file that says which group has which role"
    if sign_in.ca_location is not None and not sign_in.ca_location.is_file():
        yield "sign_in.ca_location", "expected a readable file"
    if sign_in.issuer and not sign_in.client_id:
        yield "sign_in.client_id", "expected a name with sign_in.issuer"
    is_private = public.scheme == "https" or is_loopback(public.hostname or "")
    if sign_in.issuer and not (public.scheme and is_private):
        yield (
            "web.public_url",
            "expected an https address with sign_in.issuer: people come back to it with a code",
        )


def _access_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield what is missing or excessive in combination with another setting, and what is expected."""
    kafka, clickhouse, web = settings.kafka, settings.clickhouse, settings.web
    if settings.canary.enabled and settings.canary.key is None and clickhouse.data_dir is None:
        yield (
            "canary.key",
            "expected a key with canary.enabled and a ClickHouse server (openssl rand -hex 32)",
        )
    yield from _sign_in_faults(settings)
    if web.enabled and not web.tokens() and not settings.sign_in.is_on and not is_loopback(web.bind):
        yield "web.token", f"expected a token, as others can reach web.bind {web.bind}"
    if (equal := web.equal_token()) is not None:
        yield f"web.{equal}", "expected another value than that of the other tokens of [web]"
    sasl = kafka.security_protocol.startswith("SASL_")
    if sasl and kafka.sasl_mechanism is None:
        yield "kafka.sasl_mechanism", f"expected one with {kafka.security_protocol}"
    if not sasl and kafka.sasl_mechanism is not None:
        yield "kafka.security_protocol", "expected SASL_SSL or SASL_PLAINTEXT with kafka.sasl_mechanism"
    if kafka.sasl_mechanism is not None and kafka.sasl_username is None:
        yield "kafka.sasl_username", "expected a name with kafka.sasl_mechanism"
    if kafka.sasl_mechanism is not None and kafka.sasl_password is None:
        yield "kafka.sasl_password", "expected a password with kafka.sasl_mechanism"
    if kafka.ssl_ca_location is not None and not kafka.ssl_ca_location.is_file():
        yield "kafka.ssl_ca_location", "expected a readable file"
    folder = settings.alerts.owner_secrets_dir
    if folder is not None and not folder.is_dir():
        yield "alerts.owner_secrets_dir", "expected a directory that this user can read"
    yield from _smtp_faults(settings.alerts)
    if clickhouse.cluster is not None and clickhouse.data_dir is not None:
        yield (
            "clickhouse.cluster",
            "expected none with clickhouse.data_dir: the embedded ClickHouse replicates nothing; name one of the servers in clickhouse.url",
        )


def _smtp_faults(alerts: AlertSettings) -> Iterator[tuple[str, str]]:
    if not alerts.smtp_host:
        return
    if not alerts.smtp_from:
        yield "alerts.smtp_from", "expected an address with alerts.smtp_host"
    if alerts.smtp_user and alerts.smtp_password is None:
        yield "alerts.smtp_password", "expected a password with alerts.smtp_user"
    if alerts.smtp_user and alerts.smtp_security == "none":
        yield (
            "alerts.smtp_security",
            "expected starttls or tls with alerts.smtp_user, whose password it would show",
        )
    if alerts.smtp_ca_location is not None and not alerts.smtp_ca_location.is_file():
        yield "alerts.smtp_ca_location", "expected a readable file"


def _given_twice(former: str, name: str, origin: str) -> Fault:
    """The fault of a setting that stands under its former name and its own."""
    return Fault(former, "a value", f"expected only {name}, which is its name now", origin)


def _unknown(name: str, known: Collection[str], origin: str) -> Fault:
    """The fault of an unknown name, with the most similar known one."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see docs/settings.md"
    return Fault(name, "an unknown setting", f"expected one of the known ({hint})", origin)
