"""Asks the meter what a job costs, as attributes for a span of OpenTelemetry or fields of a log line."""

from __future__ import annotations

import json
import math
import os
from urllib.parse import quote

from trainfare.endpoint import Endpoint

#: Fields of the meter's answer -> attributes.
_ATTRIBUTES = {
    "cost_usd": "trainfare.cost.usd",
    "usd_per_hour_now": "trainfare.cost.usd_per_hour",
    "lost_cost_usd": "trainfare.cost.lost_usd",
}


def cost_attributes(
    job_id: str, *, url: str = "", token: str = "", within_s: float = 5.0
) -> dict[str, float]:
    """What a job costs so far, in dollars; nothing where the meter does not know it or does not answer in time.

    `url` and `token` are else those of TRAINFARE_URL and TRAINFARE_READ_TOKEN; the token must have the scope to read.
    """
    try:
        endpoint = Endpoint(
            url or os.environ.get("TRAINFARE_URL", ""),
            token or os.environ.get("TRAINFARE_READ_TOKEN", ""),
            within_s,
        )
        status, body = endpoint.get("/api/v1/jobs/" + quote(job_id, safe=""))
        job = json.loads(body)["job"] if status == 200 else {}
        found = {name: float(job[field]) for field, name in _ATTRIBUTES.items() if job.get(field) is not None}
        return {name: value for name, value in found.items() if math.isfinite(value)}
    except Exception:  # whatever a network or an answer does
        return {}
