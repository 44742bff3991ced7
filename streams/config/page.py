"""Writes docs/settings.md and docs/settings_access.md from the settings models, so that they always agree with the code."""

from __future__ import annotations

import re
import sys
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from streams.config.load import groups, is_secret, variable
from streams.config.renamed import RENAMED

_HEAD = """# Settings

Every setting has one name in `trainfare.toml` and one environment variable. What is given later wins:

1. the defaults below;
2. `trainfare.toml` in the working directory, or the file that `TRAINFARE_CONFIG` names;
3. `TRAINFARE_*` variables (an empty one counts as not given); a secret may instead stand in a file that its `..._FILE` variable names;
4. options of the command, such as `--data`.

`trainfare config check` lists every fault at once: the setting, its value (secrets as `***`), what is expected, where it came from.

```toml
# trainfare.toml
[kafka]
bootstrap_servers = "kafka-1:9092,kafka-2:9092"
partitions = 32

[clickhouse]
url = "https://clickhouse.example:8443"
user = "trainfare"
```

Commands also read `TRAINFARE_CONFIG` (above) and `TRAINFARE_DEBUG=1` (show tracebacks).

This page is generated: `python -m streams.config.page > docs/settings.md`.
"""

#: Groups that stand on a page of their own.
ACCESS: Final = ("sign_in", "at_rest", "second_person")
_ACCESS_HEAD: Final = """# Settings of access

Signing in, what is sealed at rest, and who gets what waits for a second person. How settings are given is on [their first page](settings.md). This page is generated: `python -m streams.config.page access > docs/settings_access.md`.
"""

_FORMER = """
## Former names

A setting that was renamed is read under its former name, in the file and as a variable, by the minor version that renamed it, with a warning; the next one refuses it.
Under both names at once it is refused. `trainfare config check` and [`trainfare upgrade check`](upgrade.md) list those that you use.

| former name | name | renamed in |
|---|---|---|
"""


def render() -> str:
    """The first page, which has all groups but those of access."""
    parts = [_HEAD]
    for group in groups():
        if group in ACCESS:
            parts.append(f"\n## [{group}]\n\n{_summary(group)} [Its settings](settings_access.md#{group})\n")
        else:
            parts.append(_section(group))
    parts.append(_FORMER)
    parts.extend(f"| `{each.former}` | `{each.name}` | {each.since} |\n" for each in RENAMED)
    return "".join(parts)


def render_access() -> str:
    """The page of access."""
    return "".join((_ACCESS_HEAD, *map(_section, ACCESS)))


def _summary(group: str) -> str:
    return (groups()[group].__doc__ or "").strip().splitlines()[0]


def _section(group: str) -> str:
    head = f"\n## [{group}]\n\n{_summary(group)}\n\n| setting | variable | default | allowed | meaning |\n|---|---|---|---|---|\n"
    rows = (_row(group, name, field) for name, field in groups()[group].model_fields.items())
    return f"{head}{''.join(rows)}"


def _row(group: str, name: str, field: FieldInfo) -> str:
    plain = variable(group, name)
    names = f"`{plain}`, `{plain}_FILE`" if is_secret(field) else f"`{plain}`"
    return f"| `{name}` | {names} | {_default(field)} | {_allowed(field)} | {field.description} |\n"


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value == "":
        return "none"
    return f"`{value}`"


def _allowed(field: FieldInfo) -> str:
    """The bounds or the choices of a setting in words."""
    annotation = str(field.annotation)
    choices = re.findall(r"'([^']+)'", annotation) if "Literal" in annotation else []
    if choices:
        return ", ".join(f"`{each}`" for each in choices)
    kind = "integer" if "int" in annotation else "text"
    low = high = None
    for constraint in field.metadata:
        low = getattr(constraint, "ge", low)
        high = getattr(constraint, "le", high)
    if "Path" in annotation:
        return "path"
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"{kind} from {low}" if low is not None else kind


if __name__ == "__main__":
    sys.stdout.write(render_access() if sys.argv[1:] == ["access"] else render())
