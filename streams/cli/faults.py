"""Converts every fault to a line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import typer

from schemas.escaping import is_utf8, visible
from sinks.errors import QueryRefused, SinkError, StoreMismatch
from streams.errors import FaultsError, SqlSyntaxError, TrainfareError, WrongUseError

DONE, FAILED, WRONG_USE, DIFFERENT, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG_VARIABLE = "TRAINFARE_DEBUG"


def guarded(command: Callable[[], int | None]) -> int:
    """Run the command and return its exit code; report any exception in one line."""
    try:
        return command() or DONE
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("stopped")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has ended; nobody would read a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as fault:  # noqa: BLE001 - the outermost handler: anything else would be a traceback
        if os.environ.get(DEBUG_VARIABLE) == "1":
            sys.stderr.write(visible(traceback.format_exc(), lines=True))
        code, lines = described(fault)
        for line in lines:
            _say(line)
        if isinstance(fault, SqlSyntaxError):
            sys.stderr.write("".join(f"{visible(line)}\n" for line in fault.pointed))
        return code


def described(fault: Exception) -> tuple[int, list[str]]:
    """The exit code of a fault, and the lines to print."""
    if isinstance(fault, FaultsError):
        return WRONG_USE, [str(each) for each in fault.faults]
    if isinstance(fault, (WrongUseError, StoreMismatch, QueryRefused)):
        return WRONG_USE, [str(fault)]
    if isinstance(fault, (TrainfareError, SinkError)):
        return FAILED, [str(fault)]
    if isinstance(fault, typer.TyperException):
        return _of_typer(fault)
    if isinstance(fault, FileNotFoundError) and not _is_somewhere():
        return FAILED, [
            "the current directory was removed; change to one that exists, and run the same command again"
        ]
    if isinstance(fault, OSError) and fault.filename is not None:
        return FAILED, [f"{fault.filename}: {fault.strerror}"]
    if (wrong := next((each for each in sys.argv[1:] if not is_utf8(each)), None)) is not None:
        return WRONG_USE, [f"{wrong}: this argument is no text in UTF-8"]
    return FAILED, [f"internal fault: {type(fault).__name__}: {fault}; {DEBUG_VARIABLE}=1 shows where"]


def _is_somewhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _of_typer(fault: typer.TyperException) -> tuple[int, list[str]]:
    """The same for unknown commands, options and invalid values."""
    context = getattr(fault, "ctx", None)
    path = context.command_path if context is not None else "trainfare"
    message = str(getattr(fault, "format_message", fault.__str__)())
    code = getattr(fault, "exit_code", WRONG_USE)
    verbs = getattr(getattr(context, "command", None), "commands", {})
    if verbs and context is not None and context.parent is not None:
        return code, [
            f"{message.rstrip('.')}: `{path}` takes {', '.join(verbs)}, and options after it; see `{path} --help`"
        ]
    return code, [f"{message.rstrip('.')}; see `{path} --help`"]


def _say(line: str) -> None:
    one_line = " ".join(line.split())
    sys.stderr.write(f"trainfare: {visible(one_line)}\n")
