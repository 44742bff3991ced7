"""The stages of an alert on the pages are those of the one function that shows them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable

from streams.explain.why.messages import _WORDS
from streams.notify.history import FINAL, FINAL_FOR_ALL, USUAL, WAITING
from streams.notify.notifier import Notifier
from tests.docs.sections import DOCS, rows, section


def stages_of(function: Callable[..., object]) -> list[str]:
    """The names of its own steps that it calls, in the order of their lines."""
    calls = [
        (node.lineno, node.col_offset, node.func.attr.removeprefix("_"))
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
    ]
    return [name for _, _, name in sorted(calls)]


STAGES = stages_of(Notifier.run_once)
WORDS_JS = (DOCS.parent / "streams/web/static/words.js").read_text()
TABLE = rows(section((DOCS / "messages.md").read_text(), "From rule to receiver"))


def test_the_table_of_stages_is_the_function() -> None:
    assert [row[0].strip("`") for row in TABLE] == STAGES
    assert len(STAGES) > 8


def test_the_life_of_a_record_names_the_same() -> None:
    said = re.search(r"in one function: ([\w,\s]+)\.", (DOCS / "life_of_a_record.md").read_text())
    assert said is not None
    assert re.split(r",\s+", said[1]) == STAGES


def test_each_outcome_is_that_of_a_stage() -> None:
    told = [outcome for row in TABLE for outcome in re.findall(r"`(\w+)`", row[2])]
    outcomes = FINAL | FINAL_FOR_ALL | {"retrying", "inhibited", USUAL, WAITING}
    assert set(told) == outcomes
    assert sorted(told) == sorted([*outcomes, WAITING]), "one waits for its cause, and for its group"


def test_each_outcome_has_words_wherever_somebody_asks_why() -> None:
    outcomes = FINAL | FINAL_FOR_ALL | {"retrying", "inhibited", USUAL, WAITING}
    assert set(_WORDS) == outcomes
    of_page = re.search(r"OUTCOMES = \{(.*?)\};", WORDS_JS, re.DOTALL)
    assert of_page is not None
    assert set(re.findall(r"^  (\w+):", of_page[1], re.MULTILINE)) == outcomes


def test_another_order_would_show() -> None:
    class Other:
        def run(self) -> None:
            self.send()
            self.take()

        def send(self) -> None: ...

        def take(self) -> None: ...

    assert stages_of(Other.run) == ["send", "take"]
