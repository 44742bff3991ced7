"""Where a statement does not parse, of what ClickHouse says of it, without all that could stand there instead."""

import re
from typing import Final, NamedTuple

_SYNTAX: Final = re.compile(r"Syntax error: failed at position (?P<position>[0-9]+) ")
_UNMATCHED: Final = re.compile(r"Unmatched parentheses: .+?(?= \(SYNTAX|$)|\w+ quoted string is not closed")


class SyntaxFault(NamedTuple):
    """A place in a statement: line and column in characters, from 1."""

    line: int
    column: int
    why: str  # beyond that it does not parse; may be empty

    def words(self, sql: str) -> str:
        """The fault in one line."""
        where = f"line {self.line}, column {self.column}" if "\n" in sql else f"column {self.column}"
        return f"the SQL has a syntax error at {where}{f': {self.why}' if self.why else ''}"


def syntax_fault(sql: str, said: str) -> SyntaxFault | None:
    """The place of a syntax error; None for any other fault."""
    found = _SYNTAX.search(said)
    if found is None:
        return None
    before = sql.encode("utf-8", "replace")[: int(found["position"]) - 1].decode("utf-8", "ignore")
    unmatched = _UNMATCHED.search(said)
    column = len(before) - (before.rfind("\n") + 1)
    return SyntaxFault(before.count("\n") + 1, column + 1, unmatched[0] if unmatched else "")
