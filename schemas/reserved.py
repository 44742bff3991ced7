"""Names reserved for the meter itself, so that lists of users' jobs can exclude them.

It must not know their use; the views of ClickHouse repeat the prefix (0002_views.sql).
"""

from typing import Final

#: The canary's price SKU, its cloud and the source of its events.
CANARY: Final = "trainfare-canary"
#: Prefix of its job ids.
CANARY_JOB_PREFIX: Final = "trainfare-canary."
#: Shards from this number on are those of backfills: no partition of Kafka has such a number, and no worker owns them.
FIRST_BACKFILL_SHARD: Final = 32_768
