"""Writes what of the chart and its page comes from deploy/helm/values.py: `python -m deploy.helm.write` (in `make docs`)."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deploy.helm.values import Placed, Values

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy/helm/trainfare"
_WIDTH: Final = 110
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_VALUES_HEAD: Final = """\
# The values of the chart, with their defaults. Written by `make docs` from deploy/helm/values.py; values.schema.json refuses others.
# A table of them: docs/helm_values.md. Give yours in a file (`--values`); deploy/helm/examples has some.
"""
_PAGE_HEAD: Final = """\
# Values of the Helm chart

What `helm install --values FILE` and `--set` may say, with the defaults; [the chart](kubernetes.md) refuses what is not here, and what cannot be. Lists are
replaced as a whole, tables are merged; a default is taken away by `null`.

This page is generated: `make docs` writes it, and the chart's `values.yaml` and `values.schema.json`, from `deploy/helm/values.py`.
"""


def files() -> Mapping[Path, str]:
    """Each file with its text."""
    return {
        CHART / "values.yaml": _VALUES_HEAD + "\n".join(_lines(Values(), 0)) + "\n",
        CHART / "values.schema.json": json.dumps(schema(), indent=1, ensure_ascii=False) + "\n",
        ROOT / "docs/helm_values.md": page(),
    }


def schema() -> dict[str, Any]:
    """The schema of all values. Helm hands `global` to a chart that is a part of another."""
    found = Values.model_json_schema()
    found["properties"]["global"] = {"type": "object"}
    inner = found["$defs"]
    for tables in (inner["Collectors"]["properties"]["tables"], found["properties"]["settings"]):
        for table in tables["properties"].values():
            inner |= table.pop("$defs", {})
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_for_helm(found)}


def _for_helm(part: Any) -> Any:
    """The schema without what only pydantic's readers want: titles, defaults, and words beside references."""
    if isinstance(part, list):
        return [_for_helm(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: {name: _for_helm(each) for name, each in value.items()}
        if key in ("properties", "patternProperties", "$defs")
        else value
        if key == "enum"
        else _for_helm(value)
        for key, value in part.items()
        if key not in ("title", "default")
    }
    if "patternProperties" in kept:
        kept["additionalProperties"] = False
    if "$ref" in kept and len(kept) > 1:  # in this draft a reference hides what is beside it
        kept = {"$ref": kept["$ref"]}
    return kept


def page() -> str:
    """The page with the table of each group."""
    plain = [each for each in _rows(Values(), "") if "." not in each[0]]
    parts = [_PAGE_HEAD, _table(plain)]
    for name in Values.model_fields:
        value = getattr(Values(), name)
        if isinstance(value, BaseModel):
            about = (type(value).__doc__ or "").strip().splitlines()[0]
            parts.append(f"\n## {name}\n\n{about}\n\n{_table(list(_rows(value, f'{name}.')))}")
    return "\n".join(parts)


def _rows(model: BaseModel, before: str) -> Iterator[tuple[str, str, str]]:
    for name, field in _fields(model):
        value = getattr(model, name)
        if isinstance(value, BaseModel) and not _is_leaf(value):
            if before:
                yield from _rows(value, f"{before}{name}.")
            continue
        yield before + name, json.dumps(_plain(value), ensure_ascii=False), field.description or ""


def _fields(model: BaseModel) -> list[tuple[str, FieldInfo]]:
    """The fields of a table, those that others have too last."""
    return sorted(type(model).model_fields.items(), key=lambda each: each[0] in Placed.model_fields)


def _is_leaf(value: BaseModel) -> bool:
    """Whether a value is set as one: requests and limits, and a key of a Secret."""
    return type(value).__name__ in ("Resources", "KeyOfSecret")


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = ["| value | default | means |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{name}` | {_code(default)} | {about} |" for name, default, about in rows)]
    )


def _code(text: str) -> str:
    return "none" if text in ('""', "[]", "{}") else f"`{text}`"


def _plain(value: object) -> Any:
    """A value as YAML and JSON have it."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_defaults=not _is_leaf(value), exclude_none=True)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _lines(model: BaseModel, depth: int) -> Iterator[str]:
    """The lines of values.yaml: each value after a comment that says what it means."""
    indent = "  " * depth
    for name, field in _fields(model):
        value = getattr(model, name)
        if depth == 0:
            yield ""
        is_table = isinstance(value, BaseModel) and not _is_leaf(value)
        about = ((type(value).__doc__ or "").splitlines()[0] if is_table else field.description) or ""
        about = _LINK.sub(r"\1", about)
        yield from (f"{indent}# {line}" for line in textwrap.wrap(about, _WIDTH - 2 * depth))
        if is_table:
            assert isinstance(value, BaseModel)
            yield f"{indent}{name}:"
            yield from _lines(value, depth + 1)
        else:
            text = yaml.safe_dump({name: _plain(value)}, sort_keys=False, width=_WIDTH, allow_unicode=True)
            yield textwrap.indent(text, indent).rstrip()


def main() -> int:
    """Write the files that differ, and name them."""
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
