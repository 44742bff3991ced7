"""How many examples a property gets: 500, or TRAINFARE_EXAMPLES for a quick run.

Must be the only place that reads that variable.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("TRAINFARE_EXAMPLES", "500"))

# Logs are large and machines are slow; a failing example is printed so that it can be pinned as a case.
PROFILE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
