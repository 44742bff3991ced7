"""An embedded store for each module, empty at the start of each test."""

from tests.sinks.conftest import shared as shared
from tests.sinks.conftest import store as store
