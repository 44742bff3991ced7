"""Writes the files of a configuration as texts: TOML, systemd's units, and what Kubernetes takes.

What comes from outside is escaped by the rules of each form: no name can add a line, a key or a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from streams.collect.registry import COLLECTORS
from streams.config.load import groups
from streams.errors import WrongUseError

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE_IN_UNIT: Final = re.compile(r"[^ -~]")
_COLLECT_HEAD: Final = (
    "# What `trainfare collect` reads: a table for each collector. Written by `trainfare init`, which leaves it alone\n"
    "# once you have changed it. `trainfare collect NAME --dry-run` shows what a change does.\n"
)
#: Of collectors in a cluster.
TOKEN_SECRET: Final = "trainfare-collector"  # noqa: S105 - the name of a Secret
_NOT_ASCII: Final = re.compile(r"[^ -~]")
_COMMENT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")


def toml_value(value: object) -> str:
    """A value as TOML.

    Raises:
        TypeError: TOML has no such value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (int, float, date)):
        return str(value)
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"{type(value).__name__} has no form in TOML")


def collect_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The file of collectors: the options that were chosen, and all others as comments with their defaults."""
    parts = [_COLLECT_HEAD]
    for name, chosen in tables.items():
        fields = options_model(name).model_fields
        lines = [f"\n[{_key(name)}]"]
        for option, value in chosen.items():
            about = fields[option].description if option in fields else "There is no such option."
            lines += [f"# {_comment(about)}", f"{_key(option)} = {toml_value(value)}"]
        lines.append("\n# All other options, with their defaults.")
        lines += [_as_comment(option, field) for option, field in fields.items() if option not in chosen]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def options_model(collector: str) -> type[BaseModel]:
    """The model of a collector's table."""
    model: type[BaseModel] = import_module(f"streams.collect.{COLLECTORS[collector].package}.options").Options
    return model


def trainfare_toml(settings: Mapping[str, object]) -> str:
    """The file of settings; those of one table together, each with its meaning."""
    lines = [
        "# The settings of the meter. Written by `trainfare init`, which leaves it alone once you have changed it.",
        "# All settings with their defaults: docs/settings.md; `trainfare config check` says what is wrong.",
    ]
    for group, model in groups().items():
        own = {name: settings[key] for name in model.model_fields if (key := f"{group}.{name}") in settings}
        if own:
            lines += ["", f"[{group}]"]
        for name, value in own.items():
            lines += [f"# {_comment(model.model_fields[name].description)}", f"{name} = {toml_value(value)}"]
    return "\n".join(lines) + "\n"


def unit(
    about: str, command: Sequence[str], environment: Mapping[str, str], directory: Path, user: str
) -> str:
    """A unit of systemd for one process, which runs as `user`.

    Raises:
        WrongUseError: A path has characters that a unit cannot have.
    """
    return "\n".join(
        (
            "# Written by `trainfare init`. To use it: sudo systemctl enable --now, with the path of this file.",
            "[Unit]",
            f"Description={about}",
            "After=network-online.target",
            "Wants=network-online.target",
            "",
            "[Service]",
            f"User={_in_unit(user)}",
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
            f"WorkingDirectory={_in_unit(str(directory))}",
            "ExecStart=" + " ".join(_quoted(word).replace("$", "$$") for word in command),
            "# Its files are for this user alone.",
            "UMask=0077",
            "ProtectSystem=full",
            f"ReadWritePaths={_quoted(str(directory))}",
            "NoNewPrivileges=yes",
            "Restart=always",
            "RestartSec=5",
            "# A meter stores what it has metered before it ends.",
            "TimeoutStopSec=60",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        )
    )


def chart_values(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The values of the Helm chart (deploy/helm/trainfare) that are this cluster's own."""
    lines = [
        "# This cluster's values of the Helm chart: helm install trainfare deploy/helm/trainfare --values FILE. docs/kubernetes.md",
        "# Written by `trainfare init`, which leaves it alone once you have changed it.",
        "collectors:",
        "  # The Secret of collector-token.yaml. The workers' web_write_token is to be the same.",
        f"  token: {{name: {TOKEN_SECRET}, key: token}}",
        "  tables:",
    ]
    for name, table in tables.items():
        lines.append(f"    {_in_yaml(name)}:" if table else f"    {_in_yaml(name)}: {{}}")
        lines += [f"      {_in_yaml(option)}: {_in_yaml(value)}" for option, value in table.items()]
    return "\n".join(lines) + "\n"


def secret_manifest(token: str) -> str:
    """The Secret with the token of the worker, which `chart_values` names."""
    return f"""# The token that collectors show to the worker. Written once by `trainfare init`; keep it out of repositories.
apiVersion: v1
kind: Secret
metadata:
  name: {TOKEN_SECRET}
  namespace: trainfare
type: Opaque
stringData:
  token: {_in_yaml(token)}
"""


def _in_yaml(value: object) -> str:
    """A value as JSON, which is YAML, but for characters that need two escapes there and one here."""
    if isinstance(value, (date, Path)):
        value = value.isoformat().replace("+00:00", "Z") if isinstance(value, date) else str(value)
    return _NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", json.dumps(value, ensure_ascii=False))


def _as_comment(name: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True) if not field.is_required() else None
    value = "..." if default is None else toml_value(default)
    return f"# {name} = {value}  # {_comment(field.description)}"


def _comment(text: str | None) -> str:
    """One line."""
    return _COMMENT.sub(" ", text or "")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def _quoted(text: str) -> str:
    """A word of a unit, in which systemd puts nothing in."""
    escaped = _in_unit(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _in_unit(text: str) -> str:
    if _UNSAFE_IN_UNIT.search(text):
        raise WrongUseError(f"{text!a}: systemd's units take printable ASCII; name another --dir")
    return text.replace("%", "%%")
