"""How an attempt ends: the type of its last event, and why.

It must not send the text of an exception, which may hold anything; only the name of its class.
"""

from __future__ import annotations

from typing import Any

#: What `reason` may be, see the events' page.
REASONS = ("spot_reclaim", "preemption", "out_of_memory", "node_failure", "user_error", "timeout", "unknown")
ENDS = ("completed", "failed", "cancelled", "preempted")
#: What a run that was told to stop raises.
_TERMINATED = ("SIGTERMException", "CancelledError")
#: Classes of which the script is not the cause.
_CAUSES = {
    "MemoryError": "out_of_memory",
    "OutOfMemoryError": "out_of_memory",
    "AcceleratorError": "unknown",  # a kernel's index, or the memory of the GPU: its class does not tell
    "DistBackendError": "unknown",
    "DistNetworkError": "unknown",
    "DistStoreError": "unknown",
}


def end_of(fault: BaseException | None) -> tuple[str, dict[str, Any]]:
    """The type of the event that ends an attempt, and its fields."""
    if fault is None or (isinstance(fault, SystemExit) and fault.code in (None, 0)):
        name = type(fault).__name__ if fault is not None else ""
        return ("preempted", {"reason": "unknown"}) if name in _TERMINATED else ("completed", {})
    kind = type(fault)
    if isinstance(fault, KeyboardInterrupt):
        return "cancelled", {}
    if kind.__name__ in _TERMINATED:
        return "preempted", {"reason": "unknown"}
    reasons = (_CAUSES[base.__name__] for base in kind.__mro__ if base.__name__ in _CAUSES)
    return "failed", {"reason": next(reasons, "user_error"), "exception": class_name(kind)}


def class_name(kind: type[BaseException]) -> str:
    """The full name of a class, that of a built-in one without its module."""
    module = kind.__module__
    return (kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}")[:200]
