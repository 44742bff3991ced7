"""What happens to the whole process while runs go on: its end, SIGTERM, a fork.

It must not take a signal that somebody else handles, change the status a process exits with, or run in a child of a fork.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from typing import Any, Protocol


class Live(Protocol):
    """A run that goes on."""

    def process_ends(self, fault: BaseException | None) -> None:
        """End, the interpreter exits; with the exception that nobody caught."""

    def process_is_terminated(self, *, is_last: bool) -> None:
        """Send what waits; `is_last`: the process ends after this."""

    def process_is_forked(self) -> None:
        """Let go of everything, this is the child."""


_live: weakref.WeakSet[Live] = weakref.WeakSet()
_is_hooked = False


def join(run: Live, *, handles_sigterm: bool) -> None:
    """Tell a run what happens to the process, until `leave`."""
    global _is_hooked
    _live.add(run)
    if not _is_hooked:
        _is_hooked = True
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)
    is_main_thread = threading.current_thread() is threading.main_thread()
    if handles_sigterm and is_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def leave(run: Live) -> None:
    """Tell it nothing any more."""
    _live.discard(run)
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not _live and is_main_thread and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at_exit() -> None:
    # Python keeps the exception that ended the script here; none if it ran to its end.
    fault = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_live):
        run.process_ends(fault)


def _on_sigterm(_number: int, _frame: Any) -> None:
    # Where another handler calls this one it has its own way of ending; and no signal ends process 1 by default.
    is_last = signal.getsignal(signal.SIGTERM) is _on_sigterm and os.getpid() != 1
    for run in list(_live):
        run.process_is_terminated(is_last=is_last)
    if is_last:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _in_child() -> None:
    try:
        for run in list(_live):
            run.process_is_forked()
        _live.clear()
        if signal.getsignal(signal.SIGTERM) is _on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except Exception:
        return
