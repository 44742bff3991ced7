"""What the callbacks share: a run between the first and the last hook, and a base class where the trainer has one."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trainfare.api import run
from trainfare.runs import Run, milliseconds_since

_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def quiet(hook: _Hook) -> _Hook:
    """Decorate a hook: whatever a trainer passes, nothing is raised."""

    @functools.wraps(hook)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return hook(*args, **named)
        except Exception:
            return None

    return called  # type: ignore[return-value]  # it takes and returns the same


class MeteredCallback:
    """A callback. Its options are those of `trainfare.run`."""

    #: Where a trainer keeps the class that its callbacks must have, by module and name; the first that is loaded counts.
    BASES: tuple[tuple[str, str], ...] = ()

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """An instance that is one of the trainer's callbacks too, if the trainer is loaded."""
        for module, name in cls.BASES:
            base = getattr(sys.modules.get(module), name, None)
            if isinstance(base, type) and not issubclass(cls, base):
                return object.__new__(
                    type(cls.__name__, (cls, base), {"__module__": cls.__module__, "_is_made": True})
                )
        return object.__new__(cls)

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self.run: Run | None = None  #: while the training goes on, and after
        self._hook_ns = 0  #: when the last hook was called that a save can follow

    def __reduce__(self) -> Any:
        """Copies and other processes get a callback without a run."""
        cls = type(self)
        return _made, (cls.__mro__[1] if "_is_made" in vars(cls) else cls, self._copied())

    def _copied(self) -> dict[str, Any]:
        """The options of a copy."""
        return dict(self._options)

    def __getattr__(self, name: str) -> Any:
        """A hook that does nothing for each that is not written out, where no base class has them.

        Lightning refuses callbacks that have hooks of old versions, so with a base class there are no others.
        """
        if name.startswith("on_") and "_is_made" not in vars(type(self)):
            return _nothing
        raise AttributeError(name)

    def _begin(self, *, is_main_process: bool | None = None) -> None:
        """Begin a run; `is_main_process`: whether the trainer says that this process is the first, None where it does not."""
        # A training that was left without a hook has failed.
        if self.run is not None:
            self.run.end("failed", "unknown")
        self.run = run(**{"is_main_process": is_main_process, **self._options}).start()

    def _end(self) -> None:
        if self.run is not None:
            self.run.end()

    def _progress(self, quality: Mapping[str, Any] | None = None, **values: Any) -> None:
        if self.run is not None:
            self.run.progress(quality=quality, **values)

    def _mark_hook(self) -> None:
        """Note when this hook is called: a save that follows begins here, where the trainer has no hook for that."""
        self._hook_ns = time.monotonic_ns()

    def _checkpoint(self, **values: Any) -> None:
        """Record a checkpoint that was written since the last hook."""
        if self.run is not None:
            took_ms = milliseconds_since(self._hook_ns) if self._hook_ns else None
            self.run.checkpoint(duration_ms=took_ms, **values)


def _made(cls: type[MeteredCallback], options: dict[str, Any]) -> MeteredCallback:
    return cls(**options)


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""
