"""A loop that was busy for some seconds is no error: nobody who replays or backtests is told of one."""

from __future__ import annotations

import logging

import pytest

from streams.transport import consumer


@pytest.mark.parametrize(("level", "logged"), [(logging.INFO, ["INFO"]), (logging.WARNING, [])])
def test_a_late_turn_is_a_note_where_notes_are_logged(
    level: int, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(level, logger=consumer.logger.name):
        consumer.logger.error("[^--ConsumerThread]: " + consumer.LATE_TURN)
    assert [each.levelname for each in caplog.records] == logged


def test_other_errors_are_errors(caplog: pytest.LogCaptureFixture) -> None:
    consumer.logger.error("a broker is gone")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("ERROR", "a broker is gone")]
