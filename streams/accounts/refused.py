"""Dead letters by reason, and what to do about each: for the terminal and the page alike."""

from __future__ import annotations

from typing import Final

from schemas.reasons import Reason

_PRODUCER: Final = "a wrong producer writes to the topic: find it by the record, and stop or mend it"
_COLLECTOR: Final = (
    "the collector is at fault: mend it and publish the event again with the same id; if trainfare was at fault, "
    "replay after the upgrade"
)
ADVICE: Final[dict[str, str]] = {
    Reason.malformed_json: _PRODUCER,
    Reason.not_an_object: _PRODUCER,
    Reason.bad_envelope: "the CloudEvents envelope lacks what it needs: mend the producer and publish again",
    Reason.unknown_topic: "the line names a topic that there is not: mend the file",
    Reason.unknown_type: _COLLECTOR,
    Reason.unknown_value: _COLLECTOR,
    Reason.missing_field: _COLLECTOR,
    Reason.wrong_type: _COLLECTOR,
    Reason.out_of_range: _COLLECTOR,
    Reason.too_long: (
        "a name, id or label is longer than 256 bytes, or an object has more than 64: shorten it in the collector, and "
        "publish the event again with the same id"
    ),
    Reason.nul_byte: _COLLECTOR,
    Reason.reserved_name: (
        "a name of the meter's own (docs/names.md, Reserved names): find who sends it, and let them take another. Records of the canary "
        "that another key signed, or an earlier version, are harmless"
    ),
    Reason.beyond_token: (
        "its sender's token may not name what it names: send it with a token for that team, source, topic or prefix of ids "
        "(docs/company.md, Tokens)"
    ),
    Reason.not_finite: _COLLECTOR,
    Reason.unequal_lengths: _COLLECTOR,
    Reason.inconsistent: _COLLECTOR,
    Reason.oversize: "the record is larger than the meter takes: let the collector send smaller ones",
    Reason.future: (
        "a clock was wrong by more than 5 min: mend it; replay when the event's time has come, if that time is right"
    ),
    Reason.unread_batch: (
        "one compressed batch held more than 64 MiB or a million records, as an attack does; none was read. Find its producer by the "
        "offset; events that were meant must be published again, in smaller batches"
    ),
    Reason.wrong_partition: (
        "the producer puts keys elsewhere than Kafka's default partitioner, or takes another key: set its partitioner to murmur2 "
        "(docs/events.md, Keys and partitioners); then replay, which sends each record to the partition of its key"
    ),
    Reason.too_late: (
        "it came after meter.job_horizon_ms (or, a sample, meter.late_horizon_ms): raise the horizon on all workers, "
        "restart them, replay; or accept the gap"
    ),
}
OF_FILES: Final = (
    "the log of this store is files given to `trainfare replay`, not Kafka: mend the lines and replay all files into a "
    "new directory, or put the mended lines into a file of their own and `trainfare replay FILE --append`"
)
#: The log in the metadata of a store that was built from files.
LOG_OF_FILES: Final = "replayed files"
WHERE: Final = """
WHERE ({topic:String} = '' OR topic = {topic:String})
  AND ({reason:String} = '' OR reason = {reason:String})
  AND toUnixTimestamp64Milli(time) >= {since:Int64} AND toUnixTimestamp64Milli(time) < {until:Int64}
  AND (empty({places:Array(String)})
       OR concat(topic, '/', toString(partition), '/', toString(offset)) IN {places:Array(String)})
/* of a job */
"""
WITH_REPLAYS: Final = """
LEFT ANY JOIN (
    SELECT topic, partition, offset, version, time AS replayed_at, to_partition, to_offset FROM dead_letter_replays FINAL
) AS r USING (topic, partition, offset)
"""
GROUPS: Final = f"""
SELECT topic, reason, greatest(stored, counted) AS records, stored, replayed, first, last, example
FROM (
    SELECT topic, reason, toInt64(count()) AS stored, countIf(version > 0) AS replayed, min(time) AS first,
           max(time) AS last, argMax(detail, (time, offset)) AS example
    FROM (SELECT topic, partition, offset, time, reason, detail FROM dead_letters FINAL {WHERE}) AS d {WITH_REPLAYS}
    GROUP BY topic, reason
) AS g
LEFT ANY JOIN (
    SELECT topic, reason, sum(n.records) AS counted FROM (SELECT * FROM dead_letter_counts FINAL) AS n GROUP BY topic, reason
) AS c USING (topic, reason)
ORDER BY records DESC, topic, reason
LIMIT {{limit:UInt64}}
"""  # noqa: S608 - of constants, values bound


def advice_of(reason: str, log: str) -> str:
    """What to do about a reason; `log`: of the store's metadata. Empty for a reason of a newer version."""
    return OF_FILES if log == LOG_OF_FILES else ADVICE.get(reason, "")
