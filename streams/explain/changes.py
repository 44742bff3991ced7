"""Statements about the audit trail: pages of it, the newest first, each change with what stood before it."""

from __future__ import annotations

from typing import Final

#: Of one page, and of one file.
LIMIT_MAX: Final = 10_000
_SHOWN: Final = """offset < {before:Int64} AND ({kind:String} = '' OR kind = {kind:String}) AND ({by:String} = '' OR by = {by:String})
    AND ({name:String} = '' OR name = {name:String})"""
#: What stood before is looked for among the changes of what is shown alone.
PAGE: Final = f"""SELECT offset, toUnixTimestamp64Milli(time) AS time_ms, by, proof, address, kind, name, removed, before, after, comment
FROM (
    SELECT *, lagInFrame(after) OVER (PARTITION BY kind, name ORDER BY offset) AS before FROM changes FINAL
    WHERE (kind, name) IN (SELECT kind, name FROM changes WHERE {_SHOWN} ORDER BY offset DESC LIMIT {{limit:UInt64}})
)
WHERE {_SHOWN} ORDER BY offset DESC LIMIT {{limit:UInt64}}"""  # noqa: S608 - of constants
#: After all that there are.
NEWEST: Final[dict[str, object]] = {"before": 2**62, "kind": "", "by": "", "name": ""}
