"""Counts what a call costs in instructions of Python, so that a test of a cost asks no clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import pytest

from streams.engine.kernels import _jit


def plain(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """Let the kernels of these modules run as the Python that they are compiled from, also with the JIT."""
    if _jit._SHIPPED is not None:
        pytest.skip("machine code has no Python behind it")
    for module in modules:
        for name, value in list(vars(module).items()):
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)


def instructions(call: Callable[..., object], *arguments: object) -> int:
    """How many instructions of Python the call takes; what C and compiled code do in one of them counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call(*arguments)
    finally:
        sys.settrace(earlier)
    return count
