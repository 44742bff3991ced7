"""Compiles all kernels for a wheel: `python -m deploy.machine_code FOLDER` writes an object file and C source around it.

`setup.py` calls it and links both into the extension module `streams.engine.kernels._machine`, so that whoever installs
the wheel needs no Numba and waits for no compiler. The code is for any processor of its kind (see `PROCESSORS`).
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: By machine: LLVM's name of the oldest processor that the code runs on. Of x86: with SSE 4.2, so since 2009.
PROCESSORS: Final[Mapping[str, str]] = {"x86_64": "x86-64-v2", "aarch64": "generic"}
OBJECT, SOURCE = "kernels.o", "_machine.c"


@dataclass(frozen=True, slots=True)
class Export:
    """One kernel for one set of types: `symbol` is its name in the object file, `kernel` that in Python."""

    kernel: str
    symbol: str
    arguments: tuple[Any, ...]
    returned: Any


def compiling(folder: Path) -> dict[str, str]:
    """The environment in which the compiler makes the same code on each machine: set before Numba is loaded."""
    return {
        **os.environ,
        "NUMBA_CPU_NAME": PROCESSORS[platform.machine()],
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONHASHSEED": "0",
    }


def main(folder: Path) -> None:
    """Write both files into the folder."""
    from streams.engine.kernels import _jit, _shipped
    from streams.engine.kernels.warm import GROUPS

    if _jit._SHIPPED is not None:  # noqa: SLF001 - this builds what that is
        sys.exit("machine_code: machine code is installed beside these sources; remove it first")
    steps = [*GROUPS, _warm_metrics]
    for number, step in enumerate(steps, 1):
        step()
        sys.stderr.write(f"compiling the kernels: {number} of {len(steps)}\n")
    modules = _modules()
    called = _called(modules, steps)
    exports = list(_exports(modules, called))
    left_out = set(_kernels(modules)) - {each.kernel for each in exports}
    if left_out:
        sys.exit(
            f"machine_code: streams.engine.kernels.warm calls nothing that uses {', '.join(sorted(left_out))}"
        )
    (folder / OBJECT).write_bytes(_object_code(modules, exports))
    from deploy.machine_code_c import source

    (folder / SOURCE).write_text(source(exports, _shipped.digest_of_all()), encoding="utf-8")


def _warm_metrics() -> None:
    """The kernel of the collector of GPU metrics, as `streams.collect.dcgm.text` calls it."""
    import numpy as np

    from streams.collect.dcgm.lines import Names, scan_metrics

    text = np.frombuffer(b"a", np.uint8)
    names = Names(text, np.ones(1, np.int64), np.zeros(1, np.int64))
    values, ranks = np.zeros((1, 1)), np.zeros((1, 1), np.int64)
    scan_metrics(text, names, names, np.ones(1), 1.0, np.zeros((1, 4), np.int64), values, ranks)


def _modules() -> list[ModuleType]:
    import streams.engine.kernels as package

    names = sorted(
        each.name for each in pkgutil.iter_modules(package.__path__) if not each.name.startswith("_")
    )
    found = [importlib.import_module(f"{package.__name__}.{name}") for name in names if name != "warm"]
    return [*found, importlib.import_module("streams.collect.dcgm.lines")]


def _kernels(modules: list[ModuleType]) -> dict[str, Any]:
    """The dispatchers of functions marked as kernels, by full name; helpers are parts of them."""
    found = {}
    for module in modules:
        for value in vars(module).values():
            own = hasattr(value, "py_func") and value.py_func.__module__ == module.__name__
            if own and not value.targetoptions.get("forceinline"):
                found[f"{module.__name__}.{value.py_func.__qualname__}"] = value
    return found


def _called(modules: list[ModuleType], steps: list[Callable[[], None]]) -> dict[str, list[tuple[Any, ...]]]:
    """With which types Python calls each kernel: other types occur only inside of other kernels."""
    kernels = _kernels(modules)
    names = {id(dispatcher): name for name, dispatcher in kernels.items()}
    found: dict[str, list[tuple[Any, ...]]] = {}

    def recorded(name: str, dispatcher: Any) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            types = tuple(dispatcher.typeof_pyval(each) for each in given)
            if types not in found.setdefault(name, []):
                found[name].append(types)
            return dispatcher(*given)

        return call

    holders = [*modules, inspect.getmodule(steps[0])]
    with _replaced([each for each in (*holders, sys.modules[__name__]) if each], names, kernels, recorded):
        for step in steps:
            step()
    return found


@contextmanager
def _replaced(
    holders: list[ModuleType],
    names: Mapping[int, str],
    kernels: Mapping[str, Any],
    by: Callable[[str, Any], Callable[..., Any]],
) -> Iterator[None]:
    kept = []
    for holder in holders:
        for name, value in list(vars(holder).items()):
            if id(value) in names:
                kept.append((holder, name, value))
                setattr(holder, name, by(names[id(value)], kernels[names[id(value)]]))
    try:
        yield
    finally:
        for holder, name, value in kept:
            setattr(holder, name, value)


def _exports(modules: list[ModuleType], called: Mapping[str, list[tuple[Any, ...]]]) -> Iterator[Export]:
    number = 0
    for name, dispatcher in sorted(_kernels(modules).items()):
        # One that Python calls nowhere but in tests: as the others call it.
        for arguments in called.get(name) or _plain(dispatcher):
            dispatcher.compile(arguments)
            returned = dispatcher.overloads[arguments].signature.return_type
            yield Export(name, f"trainfare_kernel_{number}", arguments, returned)
            number += 1


def _plain(dispatcher: Any) -> list[tuple[Any, ...]]:
    return [each.args for each in dispatcher.nopython_signatures]


def _object_code(modules: list[ModuleType], exports: list[Export]) -> bytes:
    """All exported functions as one object file, position-independent, without wrappers for Python."""
    # Of these parts Numba states no types, or others than they have.
    linkage: Any = importlib.import_module("llvmlite.binding").Linkage
    compiler: Any = importlib.import_module("numba.core.compiler")
    cpu_target: Any = importlib.import_module("numba.core.registry").cpu_target
    lock: Any = importlib.import_module("numba.core.compiler_lock").global_compiler_lock

    kernels = _kernels(modules)
    context = cpu_target.target_context.with_aot_codegen("machine", cpu_name=PROCESSORS[platform.machine()])
    library = context.codegen().create_library("machine")
    with lock:
        for export in exports:
            dispatcher = kernels[export.kernel]
            flags = compiler.Flags()
            options = {**dispatcher.targetoptions, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            dispatcher.targetdescr.options.parse_as_flags(flags, options)
            flags.no_compile = True
            compiled = compiler.compile_extra(
                cpu_target.typing_context, context, dispatcher.py_func, export.arguments, export.returned, flags, {},
                library=library,
            )  # fmt: skip
            library.get_function(compiled.fndesc.llvm_func_name).name = export.symbol
        library.finalize()
    wanted = {each.symbol for each in exports}
    for function in library.get_defined_functions():
        if function.name not in wanted:
            inner = function.linkage in {linkage.private, linkage.internal}
            function.visibility = "default" if inner else "hidden"
    return bytes(library.emit_native_object())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
