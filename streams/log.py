"""Sets up structured logging: structlog for our own lines, and the libraries' lines in the same format.

Our modules log an event in a few plain words and pass values as `extra`; each becomes a field of the line. The field
`runbook` links what the operator should do.

It renders on stderr, limits floods of one line, and shows the libraries' own lifecycle only at `debug`.
Content of lines is escaped for people; JSON has its own escapes.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

import structlog

from schemas.escaping import visible
from streams.clock import Clock, SystemClock

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

    from streams.config.settings import LogSettings

FLOOD_WINDOW_MS = 10_000
_FLOODING_LOGGERS = ("aiokafka", "faust", "mode", "streams.worker.storing.checkpointer")
"""While a broker is unavailable, aiokafka writes some fifty equal lines a second, and every checkpoint fails again."""
_ECHOES = ("clickhouse_connect", "urllib3")
"""They log every failed request with its traceback before they raise it, and our own line reports it; `debug` only."""
_SERVICES = ("aiokafka", "faust", "mode")
"""Their services log their own lifecycle at `info`, a hundred lines in a quiet minute; `debug` only."""
_OF_SEVERAL_LINES = ("exception", "stack")
"""Tracebacks: they keep their lines, but are indented, as the text of an exception is untrusted."""


class RepeatFilter(logging.Filter):
    """Passes one line of a kind per `FLOOD_WINDOW_MS`, with the number of lines suppressed before."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is shown."""
        key = (record.name, record.lineno, str(record.msg))
        now_ms = self._clock.monotonic_ms()
        since_ms, held = self._seen.get(key, (-FLOOD_WINDOW_MS, 0))
        if now_ms - since_ms < FLOOD_WINDOW_MS:
            self._seen[key] = (since_ms, held + 1)
            return False
        self._seen[key] = (now_ms, 0)
        if held:
            record.held_back = held
        return True


def _demote(record: logging.LogRecord) -> bool:
    """Lower the lines of the libraries' own lifecycle to `debug`; warnings and errors keep their level.

    mode writes such a line as `[^Name]: ...`, also by the loggers of our subclasses of its services.
    """
    from_service = _is_of(record, _SERVICES) or str(record.msg).startswith("[^")
    if record.levelno == logging.INFO and from_service:
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return record.levelno >= logging.getLogger().level


def _is_of(record: logging.LogRecord, loggers: tuple[str, ...]) -> bool:
    return any(record.name == name or record.name.startswith(f"{name}.") for name in loggers)


def configure_logging(
    settings: LogSettings, stream: TextIO | None = None, clock: Clock | None = None
) -> None:
    """Render every line of the process according to the settings, by default to stderr."""
    out = sys.stderr if stream is None else stream
    as_json = settings.format == "json" or (settings.format == "auto" and not out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [
            structlog.processors.format_exc_info,
            _for_people,
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    flood = RepeatFilter(SystemClock() if clock is None else clock)
    handler.addFilter(_demote)
    handler.addFilter(lambda record: not _is_of(record, _FLOODING_LOGGERS) or flood.filter(record))
    if settings.level != "debug":
        # Not by their levels: clickhouse-connect sets urllib3's level on import, which may be later.
        handler.addFilter(lambda record: not _is_of(record, _ECHOES))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _for_people(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Escape fields: nothing in a line may control a terminal, or look like another line."""
    return {name: _shown(name, value) for name, value in line.items()}


def _shown(name: str, value: object) -> object:
    if isinstance(value, (int, float, type(None))):
        return value
    if name in _OF_SEVERAL_LINES:
        return "\n".join(f"    {each}" for each in visible(str(value), lines=True).split("\n"))
    return _Field(visible(value if isinstance(value, str) else repr(value)))


class _Field(str):
    """Escaped text: the renderer quotes text with spaces by `repr`, which must not escape it again."""

    __slots__ = ()

    def __repr__(self) -> str:
        quoted = self.replace('"', '\\"')
        return f'"{quoted}"'
