"""Checks that a statement only reads this store: its syntax tree, by an allow list.

It must not inspect the text: the executed statement is generated from the tree, so nothing else can run. It is not the
only guard: the process that runs the statement can open only the store's files, for reading.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, NoReturn

from schemas.escaping import visible
from sinks.query import data_types
from sinks.query.functions import TABLE_FUNCTIONS, is_allowed
from sinks.query.grammar import EXPLAIN_KINDS, EXPLAIN_SETTINGS, IGNORED, KEYS, STATEMENTS
from sinks.query.limits import QueryLimits
from sinks.query.refusal import RefusedQueryError
from sinks.query.settings import integer, taken
from sinks.query.tree import Node

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: A column or alias may have any printable name that is no Windows path.
_COLUMN: Final = re.compile(r"[^\\]{1,256}")
_PARAMETER_TYPE: Final = re.compile(
    r"(?:Array\()?(?:String|Int64|UInt64|Float64|Bool|Date|DateTime|DateTime64\(3\)|Decimal(?:\(\d{1,2}, ?\d{1,2}\))?)\)?"
)
#: The column list of the table function `values`, a string in which the engine also accepts expressions (ALIAS,
#: DEFAULT).
_TYPE: Final = (
    r"(?:(?:Array|Nullable|LowCardinality)\(){0,4}(?:U?Int(?:8|16|32|64|128|256)|Float(?:32|64)|String|Bool|Date|Date32|UUID|DateTime"
    r"|DateTime64\(\d\)|Decimal\(\d{1,2}, ?\d{1,2}\))\){0,4}"
)
_COLUMNS: Final = re.compile(
    rf" *`?\w{{1,64}}`? +{_TYPE} *(?:, *`?\w{{1,64}}`? +{_TYPE} *){{0,100}}", re.ASCII
)
#: Functions whose second argument may name a table.
_IN: Final = frozenset({"in", "notin", "nullin", "notnullin"})
#: Functions that take a type as a string, and the index of that argument.
_TYPED: Final = {
    "cast": 1,
    "accuratecast": 1,
    "accuratecastornull": 1,
    "accuratecastordefault": 1,
    "reinterpret": 1,
    "dynamicelement": 1,
    "variantelement": 1,
    "defaultvalueoftypename": 0,
    "jsonextract": -1,
    "jsonextractcaseinsensitive": -1,
    "jsonextractkeysandvalues": -1,
    "jsonextractkeysandvaluescaseinsensitive": -1,
}
_DEPTH_MAX: Final = 2_000


class JudgedStatement(NamedTuple):
    """A statement that only reads."""

    tree: Node  # without SETTINGS
    settings: dict[str, int]  # its SETTINGS, all allowed and within the limits
    tables: frozenset[str]  # tables and views of this store that it names
    parameters: dict[str, str]  # types by name


def judge(tree: Node, tables: Collection[str], database: str, limits: QueryLimits) -> JudgedStatement:
    """The statement if all of it is allowed; its SETTINGS can lower the limits, and lift none.

    `tables`: the names of the store's tables and views. The tree is changed: its settings are removed.

    Raises:
        RefusedQueryError: The first part that is not allowed.
    """
    kind = tree.get("type")
    if kind not in STATEMENTS:
        _refuse("only reading is allowed: SELECT, WITH, EXPLAIN, DESCRIBE, SHOW TABLES, SHOW COLUMNS")
    _check_output(tree)
    explained = tree.get("query") if kind == "ExplainQuery" else None
    settings = taken(explained if isinstance(explained, dict) else tree, limits)
    judge_ = _Judge(frozenset(tables), database, _common_names(tree))
    for node, parent in nodes_of(tree):
        judge_.check(node, parent)
    return JudgedStatement(tree, settings, frozenset(judge_.named), judge_.parameters)


class _Judge:
    """Checks one node after the other."""

    def __init__(self, tables: frozenset[str], database: str, common: frozenset[str]) -> None:
        self._tables = tables
        self._database = database
        self._common = common
        self.named: set[str] = set()
        self.parameters: dict[str, str] = {}

    def check(self, node: Node, parent: str) -> None:
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in KEYS:
            _refuse(f"this part of SQL is not allowed: {kind}")
        for key, value in node.items():
            if key not in KEYS[kind] and key not in IGNORED and value not in (False, None, ""):
                _refuse(f"this part of SQL is not allowed: {key} of {kind}")
        self._check_names(node)
        check = _CHECKS.get(kind)
        if check is not None:
            check(self, node, parent)

    def _check_names(self, node: Node) -> None:
        for key in ("alias", "name", "column", "window_name", "func_name"):
            name = node.get(key)
            if (
                name is not None
                and name != ""
                and (not isinstance(name, str) or not _COLUMN.fullmatch(name) or visible(name) != name)
            ):
                _refuse(f"the name {str(name)[:80]!r} has characters that names may not have")

    def function(self, node: Node, parent: str) -> None:
        name = str(node.get("name"))
        if parent == "TableExpression":
            if name.lower() not in TABLE_FUNCTIONS:
                _refuse(f"the table function `{name}` is not allowed: a query reads tables of this store")
            if name.lower() == "values":
                _check_columns(node)
        elif not is_allowed(name):
            _refuse(f"the function `{name}` is not allowed")
        if name.lower() in _IN:
            self._check_set(node)
        if name.lower() in _TYPED:
            _check_type(name, node)

    def _check_set(self, node: Node) -> None:
        arguments = (node.get("arguments") or {}).get("children") or []
        if len(arguments) == 2 and arguments[1].get("type") in ("Identifier", "TableIdentifier"):
            self._table(arguments[1])

    def table_identifier(self, node: Node, _: str) -> None:
        self._table(node)

    def _table(self, node: Node) -> None:
        name = str(node.get("name", ""))
        parts = node.get("name_parts") or [name]
        if node.get("children") or not all(_NAME.fullmatch(str(part)) for part in parts):
            _refuse(f"`{name[:80]}` is no table of this store")
        if len(parts) == 1 and parts[0] in self._common:
            # A subquery of WITH may read the table whose name it shadows.
            self.named.update(self._tables.intersection(parts))
            return
        if len(parts) == 2 and parts[0] == self._database:
            parts = parts[1:]
        if len(parts) != 1 or parts[0] not in self._tables:
            _refuse(f"`{name[:80]}` is no table of this store; SHOW TABLES lists them")
        self.named.add(parts[0])

    def identifier(self, node: Node, _: str) -> None:
        if node.get("children"):
            _refuse("a parameter stands for a value, not for a name ({x:Identifier})")

    def transformer(self, node: Node, _: str) -> None:
        name = node.get("func_name")
        if name and not is_allowed(str(name)):
            _refuse(f"the function `{name}` is not allowed")

    def parameter(self, node: Node, _: str) -> None:
        # A type is kept as it is written, with the spaces behind it.
        name, kind = str(node.get("name")), str(node.get("param_type")).strip()
        if not _NAME.fullmatch(name) or not _PARAMETER_TYPE.fullmatch(kind):
            _refuse(
                f"the parameter {{{name[:80]}:{kind[:80]}}}: a type is one of String, Int64, UInt64, Float64, Bool, Date, "
                "DateTime, DateTime64(3), Decimal(P, S), or Array of one of them"
            )
        if self.parameters.setdefault(name, kind) != kind:
            _refuse(f"the parameter {name} has two types")

    def explain(self, node: Node, _: str) -> None:
        query = node.get("query")
        if node.get("kind") not in EXPLAIN_KINDS or not isinstance(query, dict):
            _refuse(f"{node.get('kind')} is not allowed")
        if query.get("type") != "SelectWithUnionQuery":
            _refuse("only a SELECT can be explained")
        _check_output(query)

    def set_query(self, node: Node, parent: str) -> None:
        # Those of the statement itself were removed before; the others are in a subquery.
        if parent != "ExplainQuery":
            _refuse("SETTINGS are allowed at the end of the query only")
        for change in node.get("changes") or []:
            if change.get("name") not in EXPLAIN_SETTINGS or integer(change) not in (0, 1):
                _refuse(f"the setting `{change.get('name')}` of EXPLAIN is not allowed")

    def show_tables(self, node: Node, _: str) -> None:
        source = node.get("from")
        if isinstance(source, dict) and source.get("name") != self._database:
            _refuse("SHOW TABLES lists this store only")

    def show_columns(self, node: Node, _: str) -> None:
        if node.get("database") not in (None, "", self._database) or node.get("table") not in self._tables:
            _refuse("SHOW COLUMNS takes a table of this store")
        self.named.add(str(node.get("table")))


_CHECKS: Final = {
    "Function": _Judge.function,
    "TableIdentifier": _Judge.table_identifier,
    "Identifier": _Judge.identifier,
    "ColumnsApplyTransformer": _Judge.transformer,
    "QueryParameter": _Judge.parameter,
    "ExplainQuery": _Judge.explain,
    "SetQuery": _Judge.set_query,
    "ShowTablesQuery": _Judge.show_tables,
    "ShowColumnsQuery": _Judge.show_columns,
}


def nodes_of(tree: Node) -> Iterator[tuple[Node, str]]:
    """Yield every node of the tree, with the type of its parent."""
    waiting: list[tuple[object, str, int]] = [(tree, "", 0)]
    while waiting:
        value, parent, depth = waiting.pop()
        if depth > _DEPTH_MAX:
            _refuse("the query is nested too deeply")
        if isinstance(value, list):
            waiting.extend((each, parent, depth + 1) for each in value)
        elif isinstance(value, dict):
            if "field_type" in value:  # the value of a literal
                continue
            if "type" in value:
                yield value, parent
                kind = str(value["type"])
                inside = parent if kind == "ExpressionList" else kind
                waiting.extend((each, inside, depth + 1) for key, each in value.items() if key != "changes")
            else:
                _refuse("this part of SQL is not allowed")


def _common_names(tree: Node) -> frozenset[str]:
    """The names that WITH gives to subqueries."""
    names = {str(node.get("name")) for node, _ in nodes_of(tree) if node.get("type") == "WithElement"}
    for name in names:
        if not _NAME.fullmatch(name):
            _refuse(f"`{name[:80]}` is no name for a subquery")
    return frozenset(names)


def _check_type(name: str, node: Node) -> None:
    """Refuse a type that contains a function, and one that is not a literal."""
    arguments = (node.get("arguments") or {}).get("children") or []
    at = _TYPED[name.lower()]
    literal = arguments[at].get("value") if -len(arguments) <= at < len(arguments) else None
    text = (
        literal.get("value") if isinstance(literal, dict) and literal.get("field_type") == "String" else None
    )
    if not isinstance(text, str) or not data_types.is_allowed(text):
        _refuse(
            f"the function `{name}` takes a type of values as a text, such as 'Decimal(9, 2)'; {str(text)[:80]!r} is none"
        )


def _check_columns(values: Node) -> None:
    """Refuse columns of `values` with more than names and types, or that are no literals."""
    first = ((values.get("arguments") or {}).get("children") or [{}])[0]
    literal = first.get("value") if first.get("type") == "Literal" else None
    if isinstance(literal, dict):
        if literal.get("field_type") != "String" or _COLUMNS.fullmatch(str(literal.get("value"))):
            return
    elif first.get("type") == "Function" and first.get("name") in ("tuple", "array"):
        return
    _refuse("values() takes its columns as a text of names and types, such as 'name String, n UInt64'")


def _check_output(node: Node) -> None:
    """Refuse clauses that send the result elsewhere."""
    if node.get("out_file") is not None or node.get("is_outfile_append") or node.get("is_outfile_truncate"):
        _refuse("INTO OUTFILE is not allowed: reading and writing files is not")
    if node.get("format_ast") is not None:
        _refuse("leave FORMAT out of the query; the form of the answer is chosen outside of it")


def _refuse(message: str) -> NoReturn:
    raise RefusedQueryError(message)
