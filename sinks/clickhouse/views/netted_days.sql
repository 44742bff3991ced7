-- Days (UTC), from that of the first minute on, that [`balance_hours`](tables.md#balance_hours) does not have as their
-- minutes say now: `node_hour_balance` nets them.

SELECT toDate(arrayJoin(range(toUInt16(toDate((SELECT max(kept_from) FROM balance_days))), toUInt16(65535)))) AS day
WHERE day NOT IN (SELECT day FROM balance_days WHERE is_kept)
