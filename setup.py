"""Builds the kernels' machine code into a wheel; all else is in pyproject.toml."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
#: Set to 0 it leaves the machine code out: a wheel for any platform, which needs the extra `jit`.
VARIABLE = "TRAINFARE_MACHINE_CODE"


class _BuildKernels(build_ext):
    def run(self) -> None:
        # A checkout compiles at its first start, anew for each change of a kernel.
        if self.inplace or self.editable_mode:
            self.extensions = []
        super().run()

    def build_extension(self, ext: Extension) -> None:
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
        if shutil.which(compiler.split()[0]) is None:
            sys.exit(
                f"trainfare: no C compiler ({compiler}), which links the kernels' machine code: install it, with the headers "
                "of C and Python (Debian: apt-get install gcc libc6-dev python3-dev); or leave the machine code out by "
                f"{VARIABLE}=0, and install the extra `jit`"
            )
        # In a folder of one name: paths are part of what is compiled.
        folder = Path(self.build_temp).resolve() / "machine_code"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as cache:
            environment = {**compiling(Path(cache)), "NUMBA_CACHE_DIR": cache}
            subprocess.run(
                [sys.executable, "-m", "deploy.machine_code", str(folder)],
                cwd=ROOT,
                env=environment,
                check=True,
            )
        ext.sources = [os.path.relpath(folder / SOURCE)]
        ext.extra_objects = [os.path.relpath(folder / OBJECT)]
        super().build_extension(ext)


KERNELS = Extension(
    "streams.engine.kernels._machine",
    sources=[],
    py_limited_api=True,
    # Without paths and symbols of the build the same sources give the same bytes.
    extra_compile_args=["-g0", "-O2", "-fvisibility=hidden"],
    extra_link_args=["-Wl,--strip-all", "-Wl,--build-id=none", "-Wl,-z,noexecstack"],
)
sys.path.insert(0, str(ROOT))
from deploy.machine_code import OBJECT, PROCESSORS, SOURCE, compiling  # noqa: E402 - found beside this file

is_wanted = os.environ.get(VARIABLE) != "0" and platform.machine() in PROCESSORS
setup(
    ext_modules=[KERNELS] if is_wanted else [],
    cmdclass={"build_ext": _BuildKernels},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if is_wanted else {},
)
