"""Lines of ours and of libraries come out in one form, and a flood is held back."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from schemas.escaping import visible
from streams.clock import ManualClock
from streams.config.settings import LogSettings
from streams.log import FLOOD_WINDOW_MS, configure_logging


class Terminal(io.StringIO):
    """A stream on which somebody looks."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    """Give the process its own logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    for name in ("urllib3", "clickhouse_connect"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    structlog.reset_defaults()


def test_json_lines_of_ours_and_of_libraries() -> None:
    """Every line is one object with level, logger and time."""
    out = io.StringIO()
    configure_logging(LogSettings(format="json"), out)
    structlog.get_logger("ours").info("checkpoint", rows=3)
    logging.getLogger("theirs").warning("lost %s", "broker")
    ours, theirs = (json.loads(line) for line in out.getvalue().splitlines())
    assert (ours["event"], ours["rows"], ours["level"], ours["logger"]) == ("checkpoint", 3, "info", "ours")
    assert (theirs["event"], theirs["level"]) == ("lost broker", "warning")
    assert ours["timestamp"].endswith("Z")


def test_level_holds() -> None:
    """Lines below the level do not show."""
    out = io.StringIO()
    configure_logging(LogSettings(level="warning", format="console"), out)
    structlog.get_logger("ours").info("quiet")
    structlog.get_logger("ours").warning("loud")
    assert "quiet" not in out.getvalue()
    assert "loud" in out.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "faust.transport.consumer",
        "mode.services",
        "streams.transport.consumer",
        "aiokafka.consumer.group_coordinator",
    ],
)
def test_the_life_of_libraries_shows_at_debug_only_and_their_warnings_always(name: str) -> None:
    quiet, full = io.StringIO(), io.StringIO()
    for level, out in (("info", quiet), ("debug", full)):
        configure_logging(LogSettings(level=level, format="console"), out)  # type: ignore[arg-type]  # two of its levels
        logging.getLogger(name).info("[^--Recovery]: Resuming flow...")
        logging.getLogger(name).warning("heartbeat failed")
    assert "Resuming flow" not in quiet.getvalue()
    assert "Resuming flow" in full.getvalue()
    assert "heartbeat failed" in quiet.getvalue()


@pytest.mark.parametrize("name", ["aiokafka.conn", "streams.worker.storing.checkpointer"])
def test_a_flood_is_held_back_and_counted(name: str) -> None:
    """A broker that is away must not fill the disk."""
    out, clock = io.StringIO(), ManualClock()
    configure_logging(LogSettings(format="json"), out, clock)

    def complain() -> None:
        logging.getLogger(name).error("Unable connect to %s", "kafka:9092")

    for _ in range(100):
        complain()
        clock.advance(20)
    assert len(out.getvalue().splitlines()) == 1
    clock.advance(FLOOD_WINDOW_MS)
    complain()
    complain()
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[-1])["held_back"] == 99


HOSTILE = "ada\x1b]52;c;x\x07\r\n2026-11-23T00:00:00Z [error    ] forged\u202e\x9b\u2028"


@pytest.mark.parametrize("tty", [False, True])
def test_no_field_of_a_console_line_can_steer_a_terminal_or_forge_a_line(tty: bool) -> None:
    out = Terminal() if tty else io.StringIO()
    configure_logging(LogSettings(format="console"), out)
    structlog.get_logger("ours").warning(
        HOSTILE, owner=HOSTILE, labels={HOSTILE: [HOSTILE]}, fault=ValueError(HOSTILE)
    )
    logging.getLogger("theirs").warning("control %s has no effect: %s", HOSTILE, HOSTILE)
    logging.getLogger("theirs").warning(HOSTILE, stack_info=True)
    for name in ("ours", "theirs"):
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            (structlog.get_logger if name == "ours" else logging.getLogger)(name).exception("failed")
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert text.count("x1b]52;c;x") == 10
    assert visible(text, lines=True) == text
    stamped = [line for line in text.splitlines() if line[:1].isdigit()]
    assert len(stamped) == 5, "one line each; tracebacks stand indented"
    assert not any(line.startswith("2026-11-23T00:00:00Z") for line in stamped)
    assert all(line.startswith("    ") for line in text.splitlines() if line not in stamped)


def test_json_lines_are_exact() -> None:
    out = io.StringIO()
    configure_logging(LogSettings(format="json"), out)
    structlog.get_logger("ours").warning(HOSTILE)
    assert json.loads(out.getvalue())["event"] == HOSTILE
    assert out.getvalue().isascii()


@pytest.mark.parametrize(("level", "shown"), [("info", 0), ("debug", 2)])
def test_what_the_drivers_say_of_a_fault_that_they_raise_is_shown_for_debugging_only(
    level: Literal["info", "debug"], shown: int
) -> None:
    out = io.StringIO()
    configure_logging(LogSettings(level=level, format="json"), out)
    logging.getLogger("urllib3").setLevel(logging.WARNING)  # as clickhouse-connect does when it is imported
    logging.getLogger("urllib3.connectionpool").warning("Retrying")
    logging.getLogger("clickhouse_connect.driver._backend.http_sync").warning("Unexpected")
    assert len(out.getvalue().splitlines()) == shown


@pytest.mark.parametrize(
    ("level", "shown"), [("info", ["warning", "error"]), ("debug", ["debug", "warning", "error"])]
)
@pytest.mark.parametrize(
    "name", ["mode.services", "faust.app.base", "aiokafka", "streams.transport.meter_app"]
)
def test_the_services_own_life_is_for_debugging_and_their_warnings_stay(
    name: str, level: Literal["info", "debug"], shown: list[str]
) -> None:
    out = io.StringIO()
    configure_logging(LogSettings(level=level, format="json"), out)
    logger = logging.getLogger(name)
    logger.info("[^---Conductor]: Starting...")
    logger.warning("[^---Fetcher]: slow")
    logger.error("[^---Consumer]: crashed")
    assert [json.loads(line)["level"] for line in out.getvalue().splitlines()] == shown


@pytest.mark.parametrize("form", ["json", "console"])
def test_extra_values_are_fields(form: Literal["json", "console"]) -> None:
    out = io.StringIO()
    configure_logging(LogSettings(format=form), out)
    logging.getLogger("ours").warning(
        "reading pauses", extra={"waiting_bytes": 7, "reason": 'it said "a\x1b"'}
    )
    logging.getLogger("modest").info("a name that begins as a library's")
    first, second = out.getvalue().splitlines()
    if form == "json":
        assert json.loads(first)["waiting_bytes"] == 7
    else:
        assert "waiting_bytes=7" in first
        assert 'reason="it said \\"a\\x1b\\""' in first, "escaped once"
    assert "modest" in second
