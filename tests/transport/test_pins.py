"""The private names of Faust and aiokafka: still there, and missed when they are not; other versions are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.transport import versions
from streams.transport.meter_app import new_meter_app
from streams.transport.options import FetchOptions
from tests.transport import pins


def test_the_installed_versions_and_names_are_the_pinned_ones() -> None:
    assert versions.others() == []
    assert pins.moved() == []


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.VERSIONS, "aiokafka", "0.0.1")
    with pytest.raises(TrainfareError, match=r"aiokafka is .*, expected 0\.0\.1"):
        versions.refuse_other_versions()


def test_a_package_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.VERSIONS, "no-such-package-of-ours", "1")
    assert versions.others() == ["no-such-package-of-ours is nothing, expected 1"]


def test_a_class_attribute_that_moved_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.CLASS_NAMES, "faust.transport.consumer", ("Consumer._not_there.deeper",))
    assert pins.moved() == ["faust.transport.consumer.Consumer._not_there.deeper is gone"]


def test_an_instance_attribute_that_moved_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.INSTANCE_NAMES, "aiokafka.consumer.consumer", ("self._not_there =",))
    assert pins.moved() == ["aiokafka.consumer.consumer no longer says `self._not_there =`"]


def test_a_worker_that_starts_reads_no_sources_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image may ship without them."""
    read: list[str] = []
    read_text = Path.read_text

    def seen(path: Path, *arguments: Any, **options: Any) -> str:
        read.append(str(path))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", seen)
    new_meter_app(KafkaSettings(), FetchOptions("t.", lambda _: {}))
    assert [path for path in read if path.endswith(".py")] == []
