"""Fill the settings once, from `trainfare.toml`, `TRAINFARE_*` variables and files that hold secrets.

It must not stop at the first fault: it lists all, each with its setting, value, expectation and origin, and shows no secret.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from streams.config import Settings
from streams.config_live import is_loopback
from streams.errors import WrongUseError

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
    """One thing wrong with one setting."""

    setting: str
    value: str
    expected: str
    origin: str

    def __str__(self) -> str:
        return f"{self.setting}: got {self.value}, {self.expected} (from {self.origin})"


class SettingsError(WrongUseError):
    """The settings cannot be used; `faults` names every reason."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(str(fault) for fault in faults))


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it was written, and where."""

    value: object
    origin: str


def groups() -> dict[str, type[BaseModel]]:
    """Return the settings groups by name, in the order of the documentation."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found[name] = field.annotation
    return found


def variable(group: str, name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{ENV_PREFIX}{group}_{name}".upper()


def is_secret(field: FieldInfo) -> bool:
    """Return whether the value must never be shown."""
    return "SecretStr" in str(field.annotation)


def load_settings(
    env: Mapping[str, str], file: Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings; later ones win: file, environment, `overrides` (`{"clickhouse.data_dir": ...}`)."""
    faults: list[Fault] = []
    given = _from_file(_config_file(env, file), faults)
    given |= _from_environment(env, faults)
    for key, value in (overrides or {}).items():
        if value is not None:
            group, _, name = key.partition(".")
            given[(group, name)] = _Given(value, "the command line")
    settings = _validate(given, faults)
    faults.extend(_cross_checks(settings, given, {fault.setting for fault in faults}))
    if faults:
        raise SettingsError(sorted(faults, key=lambda fault: fault.setting))
    return settings


def load_origins(env: Mapping[str, str], file: Path | None = None) -> dict[tuple[str, str], str]:
    """Return where each setting that was given comes from; what is absent has its default."""
    given = _from_file(_config_file(env, file), []) | _from_environment(env, [])
    return {key: each.origin for key, each in given.items()}


def _config_file(env: Mapping[str, str], file: Path | None) -> Path | None:
    named = file or (Path(env[CONFIG_VARIABLE]) if env.get(CONFIG_VARIABLE) else None)
    if named is not None:
        return named
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def _from_file(path: Path | None, faults: list[Fault]) -> dict[tuple[str, str], _Given]:
    """Read the TOML file, two levels deep."""
    given: dict[tuple[str, str], _Given] = {}
    if path is None:
        return given
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        faults.append(
            Fault("settings file", str(path), f"expected a readable file ({fault.strerror})", "its name")
        )
        return given
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        faults.append(Fault("settings file", str(path), f"expected TOML ({fault})", "its content"))
        return given
    known = groups()
    for group, table in tables.items():
        if group not in known or not isinstance(table, dict):
            faults.append(
                Fault(group, "a table or value", f"expected one of the tables {', '.join(known)}", str(path))
            )
            continue
        for name, value in table.items():
            if name in known[group].model_fields:
                given[(group, name)] = _Given(value, str(path))
            else:
                faults.append(
                    _unknown(
                        f"{group}.{name}",
                        (f"{group}.{each}" for each in known[group].model_fields),
                        str(path),
                    )
                )
    return given


def _from_environment(env: Mapping[str, str], faults: list[Fault]) -> dict[tuple[str, str], _Given]:
    """Read the variables; an empty one counts as not given."""
    given: dict[tuple[str, str], _Given] = {}
    known = {CONFIG_VARIABLE, *_OTHERS}
    for group, name, field in _all_fields():
        plain = variable(group, name)
        known.add(plain)
        if env.get(plain):
            given[(group, name)] = _Given(env[plain], plain)
        if is_secret(field):
            by_file = f"{plain}_FILE"
            known.add(by_file)
            if env.get(by_file):
                _read_secret(group, name, env, by_file, given, faults)
    prefixes = tuple(f"{ENV_PREFIX}{group.upper()}_" for group in groups())
    faults.extend(
        _unknown(name, known, "the environment")
        for name in env
        if name.startswith(prefixes) and name not in known and not _ORCHESTRATOR.search(name)
    )
    return given


def _read_secret(
    group: str,
    name: str,
    env: Mapping[str, str],
    by_file: str,
    given: dict[tuple[str, str], _Given],
    faults: list[Fault],
) -> None:
    """Take a secret from the file that a `..._FILE` variable names."""
    path = Path(env[by_file])
    plain = variable(group, name)
    if env.get(plain):
        faults.append(
            Fault(
                f"{group}.{name}", _HIDDEN, f"expected only one of {plain} and {by_file}", "the environment"
            )
        )
        return
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8"
        faults.append(Fault(f"{group}.{name}", str(path), f"expected a readable file ({reason})", by_file))
        return
    given[(group, name)] = _Given(secret, f"{by_file} ({path})")


def _validate(given: Mapping[tuple[str, str], _Given], faults: list[Fault]) -> Settings:
    """Return the settings with the faulty ones left at their defaults; the faults are appended."""
    tree: dict[str, dict[str, object]] = {}
    for (group, name), each in given.items():
        tree.setdefault(group, {})[name] = each.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            group, name = str(detail["loc"][0]), str(detail["loc"][1])
            if tree[group].pop(name, None) is not None:
                faults.append(_fault_of(group, name, str(detail["msg"]), given[(group, name)]))
    return Settings.model_validate(tree)


def _fault_of(group: str, name: str, message: str, given: _Given) -> Fault:
    """Turn pydantic's words into ours."""
    expected = _PYDANTIC_WORDS.sub("expected it to", message.removeprefix("Value error, "), count=1)
    field = groups()[group].model_fields[name]
    return Fault(
        f"{group}.{name}", _HIDDEN if is_secret(field) else redact(given.value), expected, given.origin
    )


def redact(value: object) -> str:
    """Return the value as text, without what may be a password in an address."""
    text = str(value)
    if "@" in text:
        return f"{_HIDDEN}@{text.rpartition('@')[2]}"
    return text if text else "''"


def _cross_checks(
    settings: Settings, given: Mapping[tuple[str, str], _Given], faulty: set[str]
) -> Iterator[Fault]:
    """Yield what is wrong between settings that are right one by one."""
    for setting, expected in (*_timing_faults(settings), *_access_faults(settings)):
        if setting in faulty:
            continue
        group, _, name = setting.partition(".")
        value = getattr(getattr(settings, group), name)
        origin = given[(group, name)].origin if (group, name) in given else "the default"
        yield Fault(setting, _HIDDEN if isinstance(value, SecretStr) else redact(value), expected, origin)


def _timing_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    kafka, meter = settings.kafka, settings.meter
    if kafka.heartbeat_interval_ms * 3 > kafka.session_timeout_ms:
        yield "kafka.heartbeat_interval_ms", "expected at most a third of kafka.session_timeout_ms"
    if kafka.fetch_max_wait_ms >= kafka.session_timeout_ms:
        yield "kafka.fetch_max_wait_ms", "expected less than kafka.session_timeout_ms"
    if meter.late_horizon_ms > meter.job_horizon_ms:
        yield "meter.late_horizon_ms", "expected at most meter.job_horizon_ms"
    if settings.canary.late_after_ms > settings.canary.interval_ms:
        yield "canary.late_after_ms", "expected at most canary.interval_ms"


def _access_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    kafka, clickhouse, web = settings.kafka, settings.clickhouse, settings.web
    if web.enabled and not web.tokens() and not is_loopback(web.bind):
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
    if clickhouse.cluster is not None:
        yield (
            "clickhouse.cluster",
            "expected none: this version makes no replicated tables; name one server in clickhouse.url, and back it up",
        )


def _all_fields() -> Iterator[tuple[str, str, FieldInfo]]:
    for group, model in groups().items():
        for name, field in model.model_fields.items():
            yield group, name, field


def _unknown(name: str, known: Iterator[str] | set[str], origin: str) -> Fault:
    """Return the fault of a name nobody reads, with the nearest one that somebody does."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "see docs/settings.md"
    return Fault(name, "an unknown setting", f"expected one of the known ({hint})", origin)
