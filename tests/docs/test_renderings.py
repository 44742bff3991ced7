"""docs/webhooks.md shows an alert of a story as each kind of receiver gets it: exactly as it is sent."""

from __future__ import annotations

import re

import msgspec
import pytest

from streams.engine.alerts.alert import Alert
from tests.docs.renderings import KINDS, rendered, story_alert
from tests.docs.sections import DOCS, section

SHOWN = dict(
    re.findall(
        r"### (.+?)\n\n```\w*\n(.*?)```",
        section((DOCS / "webhooks.md").read_text(), "As they arrive"),
        re.DOTALL,
    )
)


@pytest.fixture(scope="module")
def alert() -> Alert:
    return story_alert()


def test_each_kind_is_there() -> None:
    assert tuple(SHOWN) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_is_sent(alert: Alert, kind: str) -> None:
    assert SHOWN[kind] == rendered(alert)[kind], "run python -m tests.docs.renderings"


@pytest.mark.parametrize("kind", KINDS)
def test_another_sentence_would_show(alert: Alert, kind: str) -> None:
    assert SHOWN[kind] != rendered(msgspec.structs.replace(alert, summary="another"))[kind]
