"""Asks for a panel as the API does."""

from __future__ import annotations

import json
import os
from typing import Any

from sinks.query.pool import QueryPool
from sinks.query.wire import Parameter
from streams.panels.panel import step_of
from streams.panels.registry import PANELS


def answered(pool: QueryPool, name: str, from_s: int, to_s: int, job: str) -> dict[str, Any]:
    """Columns, types and rows of a panel."""
    panel = PANELS[name]
    values: dict[str, Parameter] = {
        "from_s": from_s,
        "to_s": to_s,
        "step_s": step_of(from_s, to_s),
        "job": job,
    }
    parameters = {each: values[each] for each in sorted(panel.parameters)}
    answer = pool.new_run().answer(panel.sql, parameters, "json")
    try:
        found: dict[str, Any] = json.loads(os.pread(answer.descriptor, answer.size_bytes, 0))
    finally:
        os.close(answer.descriptor)
    return found
