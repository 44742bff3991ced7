"""What holds for every test: no way out of this machine, and no silent skip of what CI demands."""

from __future__ import annotations

import gc
import os
import socket
import tempfile
import traceback
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import long_tests, new_store
from tests.property.profile import EXAMPLES
from tests.query import priority

REQUIRE_KAFKA = "TRAINFARE_REQUIRE_KAFKA"
_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")

# No test may fail because the machine is slow.
settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=min(100, 2 * EXAMPLES),  # those of tests/property are not bounded
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # The same properties run compiled, with more examples; here a core is ten times slower.
    settings.register_profile("plain", settings.get_profile("untimed"), max_examples=min(30, EXAMPLES))
    settings.load_profile("plain")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test against a real broker into a failure where CI demands one."""
    report = yield
    demanded = os.environ.get(REQUIRE_KAFKA) == "1" and item.get_closest_marker("kafka") is not None
    if demanded and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{REQUIRE_KAFKA}=1, but this was skipped: {report.longrepr}"
    return report


@pytest.hookimpl(tryfirst=True)  # before those marked long are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of `long_tests.txt`: where each stands, one look shows what the short suite leaves out."""
    if any("::" in each for each in config.args):
        return  # who names a test wants it run
    if stale := long_tests.mark(items):
        raise pytest.UsageError(f"{long_tests.LIST.name} names tests that do not exist: {', '.join(stale)}")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is loaded to no later collection of garbage, which would look through thousands of tests each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _as_urgent_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that lowers its priority would lower that of all tests after it in this process."""
    monkeypatch.setattr(os, "nice", lambda _by: 0)


@pytest.fixture(autouse=True)
def _no_way_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that connects beyond this machine, even if its code swallows the error."""
    tried: list[str] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any, /) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            tried.append(f"{address}\n{''.join(traceback.format_stack(limit=8))}")
            raise PermissionError(f"tests do not connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield
    if tried:
        pytest.fail(f"the test connected beyond this machine: {tried[0]}")


@pytest.fixture(autouse=True, scope="session")
def _queries_keep_their_priority() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        priority.keep(patch)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_meter_of_the_developer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A demo that somebody has open must not answer a test: meters note themselves in the directory of temporary files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _new_stores_are_copies(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    new_store.keep_in(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of somebody's shell must not decide a test."""
    for name in list(os.environ):
        if name.startswith("TRAINFARE_") and name not in (REQUIRE_KAFKA, "TRAINFARE_KAFKA_LIBS"):
            monkeypatch.delenv(name)
