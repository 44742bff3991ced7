"""Names reserved for the meter itself, so that lists of users' jobs can exclude them.

It must not know their use; the views of ClickHouse repeat the prefix (0002_views.sql).
"""

from typing import Final

#: The canary's price SKU, its cloud and the source of its events.
CANARY: Final = "trainfare-canary"
#: Prefix of its job ids.
CANARY_JOB_PREFIX: Final = "trainfare-canary."
