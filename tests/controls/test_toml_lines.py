"""Lines of tables and keys: as many as a parser finds, each where it stands, whatever strings and comments look like."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.controls.toml_lines import located

TEXT = '''\
# [[rule]]
title = "[[rule]]"  # [[rule]]
[[rule]]
name = "a # not"
match = { team = "v", "label.x" = "]" }
list = [
  1, # ]
  "}",
  """
[[rule]]
""", ]
more = """
[[rule]]
a = 1 \\""" x""""
[rule.thresholds]
"long ratio" = 3
[[ rule ]] # second
name = 'b'
match."label.stage" = "x"
[rule.match.deep]
z=1
[other]
k = 1
'''


def test_what_only_looks_like_a_table_is_none() -> None:
    found = located(TEXT)
    assert len(tomllib.loads(TEXT)["rule"]) == 2
    first, second = found.tables["rule"]
    assert (first.line, second.line) == (3, 17)
    assert first.fields == {
        "name": 4, "match": 5, "list": 6, "more": 12, "thresholds": 15, "thresholds.long ratio": 16
    }  # fmt: skip
    assert second.fields == {
        "name": 18, "match": 19, "match.label.stage": 19, "match.deep": 20, "match.deep.z": 21
    }  # fmt: skip
    assert found.others == {"title": 2, "other": 22, "other.k": 23}


def test_a_field_inside_another_has_the_line_of_that_one() -> None:
    (table, _) = located(TEXT).tables["rule"]
    assert table.line_of("match.team") == 5
    assert table.line_of("thresholds.long ratio") == 16
    assert table.line_of("nowhere") == table.line_of("") == 3


def test_tables_that_are_written_inline_have_the_line_of_their_array() -> None:
    found = located('\nsilence = [{ name = "s" },\n{ name = "t" }]\n')
    assert [found.of("silence", place).line for place in (0, 1)] == [2, 2]


def test_a_text_that_is_no_toml_ends_the_search() -> None:
    assert located("= 1\n[[a]]\n").tables == {}


_KEYS = st.sampled_from(["name", "team", '"a b"', "'c.d'", "x-1", "until"])
_STRINGS = st.text(st.sampled_from("[]{}#=a\"'\n\\ "), max_size=8)


def _basic(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""' if "\n" in text else f'"{escaped}"'


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[ # ]\n" + ",\n".join(map(_value, value)) + "\n]"
    return _basic(value) if isinstance(value, str) else str(value)


_VALUES = st.recursive(_STRINGS | st.integers(0, 9), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
_TABLES = st.lists(st.dictionaries(_KEYS, _VALUES, max_size=4), max_size=4)


@given(_TABLES, st.lists(_STRINGS.filter(lambda text: "\n" not in text), max_size=3))
def test_every_table_and_key_of_a_parser_is_found_on_its_line(
    tables: list[dict[str, Any]], comments: list[str]
) -> None:
    text = "".join(f"#{comment}\n" for comment in comments)
    expected = []
    for table in tables:
        begins = text.count("\n") + 1
        text += "[[rule]]  # c\n"
        lines = {}
        for key, value in table.items():
            lines[key] = text.count("\n") + 1
            text += f"{key} = {_value(value)}\n"
        expected.append((begins, [lines[key] for key in table]))
    parsed = tomllib.loads(text).get("rule", [])
    found = located(text).tables.get("rule", [])
    assert [(each.line, list(each.fields.values())) for each in found] == expected
    assert [list(each.fields) for each in found] == [list(each) for each in parsed]
