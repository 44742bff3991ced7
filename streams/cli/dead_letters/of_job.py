"""Finds the dead letters of one job, and says of them what `trainfare job` and `explain` show.

It loads no engine, as `trainfare job` does without. What a record says is matched, and shown nowhere.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Final

from schemas.escaping import visible
from sinks.errors import QueryFailed
from streams.cli.output import Grid
from streams.cli.reading import Reader
from streams.errors import TrainfareError

#: In a record that is no JSON, such as one that was cut off, the first job that it names counts.
_UNPARSED: Final = r'"job_id"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)"'
#: The condition on `raw`: the event itself, the event in a CloudEvent, or the event of a line of a file.
OF_JOB: Final = f"""
  AND if(isValidJSON(raw),
         {{job:String}} IN (
             JSONExtractString(raw, 'job_id'), JSONExtractRaw(raw, 'job_id'),
             JSONExtractString(raw, 'data', 'job_id'), JSONExtractString(raw, 'value', 'job_id'),
             JSONExtractString(raw, 'value', 'data', 'job_id'),
             JSONExtractString(tryBase64Decode(JSONExtractString(raw, 'data_base64')), 'job_id')),
         extract(raw, '{_UNPARSED}') IN {{job_texts:Array(String)}})
"""
_REFUSED: Final = f"""
SELECT topic, reason, toInt64(count()) AS records, min(time) AS first, max(time) AS last
FROM (SELECT topic, reason, time, raw FROM dead_letters FINAL) AS d WHERE 1 {OF_JOB}
GROUP BY topic, reason ORDER BY records DESC, topic, reason
"""  # noqa: S608 - of constants, values bound


def job_parameters(job_id: str) -> dict[str, object]:
    """The values of `OF_JOB`: the id, and how it may stand in JSON."""
    written = [json.dumps(job_id, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
    return {"job": job_id, "job_texts": written}


def refused_of(store: Reader, job_id: str) -> Grid:
    """How many dead letters of the job the store has, by topic and reason.

    Raises:
        TrainfareError: The store cannot tell.
    """
    try:
        answer = store.ask(_REFUSED, **job_parameters(job_id))
    except QueryFailed as fault:
        raise TrainfareError(
            f"the dead letters of job {visible(job_id)} cannot be searched: {fault}"
        ) from fault
    return Grid(answer.names, list(answer.rows()))


def command_for(job_id: str, data: Path | None) -> str:
    """The command that shows them."""
    words = ["trainfare", "dead-letters", "list", "--each", "--job", job_id]
    if data is not None:
        words += ["--data", str(data)]
    return visible(shlex.join(words))


def refused_in_words(refused: Grid, job_id: str, data: Path | None) -> str:
    """How many there are, why, and what shows them; empty if there are none."""
    reasons: Counter[str] = Counter()
    for _topic, reason, records, *_ in refused.rows:
        reasons[str(reason)] += int(str(records))
    if not reasons:
        return ""
    listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    records = "1 record that names" if reasons.total() == 1 else f"{reasons.total():,} records that name"
    return (
        f"the meter refused {records} this job ({listed}); `{command_for(job_id, data)}` shows "
        f"{'it' if reasons.total() == 1 else 'them'}"
    )
