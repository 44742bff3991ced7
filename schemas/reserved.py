"""Names that belong to the meter itself, so that whoever shows users' jobs can leave them out.

It must not know what is done under these names; the views of ClickHouse spell the prefix out (0002_views.sql).
"""

from typing import Final

#: The canary's price SKU, its cloud and the source of its events.
CANARY: Final = "trainfare-canary"
#: Ids of its jobs begin so.
CANARY_JOB_PREFIX: Final = "trainfare-canary."
