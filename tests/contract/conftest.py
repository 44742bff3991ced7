"""Every store behind one name, empty at the start of each test."""

from collections.abc import Iterator

import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.port import Store
from tests.memory_store import MemoryStore
from tests.simulator.store import Shelf
from tests.sinks.stores import embedded, empty, opened
from tests.store_process import StoreProcess

KINDS = ["memory", "simulated", "chdb", "http"]
IN_MEMORY: dict[str, type[MemoryStore] | type[Shelf]] = {"memory": MemoryStore, "simulated": Shelf}


def kind_of(request: pytest.FixtureRequest) -> str:
    """What this run of a test asks for."""
    return next(kind for kind in KINDS if kind in request.node.callspec.params.values())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("server"), copied=False) as process:
        yield process


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClickHouseStore | None]:
    """A store for the tests of a module; of stores in memory each test has its own."""
    if request.param in IN_MEMORY:
        yield None
    elif request.param == "chdb":
        with embedded(tmp_path_factory.mktemp("engine")) as store:
            yield store
    else:
        process: StoreProcess = request.getfixturevalue("server")
        with opened(process.target()) as store:
            yield store


@pytest.fixture
def store(shared: ClickHouseStore | None, request: pytest.FixtureRequest) -> Store:
    if shared is None:
        return IN_MEMORY[kind_of(request)]()
    empty(shared.target)
    return shared


@pytest.fixture
def another(shared: ClickHouseStore | None, request: pytest.FixtureRequest) -> Store:
    """One more store of the same kind, which the test closes."""
    return IN_MEMORY[kind_of(request)]() if shared is None else ClickHouseStore(shared.target)
