"""The private names of Faust and aiokafka: still there, and missed when they are not."""

from __future__ import annotations

import pytest

from streams.errors import TrainfareError
from streams.transport import pins


def test_the_installed_versions_and_names_are_the_pinned_ones() -> None:
    assert pins.moved() == []


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.VERSIONS, "aiokafka", "0.0.1")
    with pytest.raises(TrainfareError, match=r"aiokafka is .*, expected 0\.0\.1"):
        pins.refuse_if_moved()


def test_a_package_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.VERSIONS, "no-such-package-of-ours", "1")
    assert pins.moved() == ["no-such-package-of-ours is nothing, expected 1"]


def test_a_class_attribute_that_moved_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.CLASS_NAMES, "faust.transport.consumer", ("Consumer._not_there.deeper",))
    assert pins.moved() == ["faust.transport.consumer.Consumer._not_there.deeper is gone"]


def test_an_instance_attribute_that_moved_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.INSTANCE_NAMES, "aiokafka.consumer.consumer", ("self._not_there =",))
    assert pins.moved() == ["aiokafka.consumer.consumer no longer says `self._not_there =`"]
