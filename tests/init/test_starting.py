"""Processes of a meter: started once, told from those of others, and ended where they are ours."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from streams.errors import TrainfareError
from streams.init.files import InitState
from streams.init.plan import Service, SetupPlan, Site
from streams.init.starting import is_held, log_file, our_process, start, stop_if_ours, until_ready
from tests.collect.ray.world import Dashboard

#: Holds the lock of the file in its first word until it is ended.
_HOLDER: Final = (
    "import fcntl, sys, time\nfile = open(sys.argv[1], 'w')\nfcntl.flock(file, fcntl.LOCK_EX)\n"
    "print('held', flush=True)\ntime.sleep(600)\n"
)


class Machine:
    """A directory with one service in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock_file = directory / "lock"
        self.state = InitState()
        self.service = Service("meter", "the meter", (str(self.lock_file),), {}, self.lock_file)

    def start(self, code: str = _HOLDER) -> None:
        start(self.service, (sys.executable, "-c", code), self.directory, {}, self.state, "digest")

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(log_file(self.directory, self.service).read_text())

    def pid(self) -> int | None:
        return our_process(self.service, self.directory, self.state)

    def stop(self) -> bool:
        return stop_if_ours(self.service, self.directory, self.state, time.sleep)

    def site(self) -> Site:
        return Site(self.directory, {}, "ada", (), "", {}, 0)

    def plan(self, url: str = "http://127.0.0.1:9") -> SetupPlan:
        return SetupPlan((), (self.service,), url)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_what_holds_its_lock_runs_and_is_ended_where_it_is_ours(machine: Machine) -> None:
    assert not is_held(machine.lock_file)
    machine.start()
    machine.until(lambda: is_held(machine.lock_file))
    assert machine.state.started["meter"][1] == "digest"
    assert log_file(machine.directory, machine.service).stat().st_mode & 0o777 == 0o600
    assert machine.pid() == machine.state.started["meter"][0]
    assert machine.stop()
    assert not is_held(machine.lock_file)
    machine.until(lambda: machine.pid() is None)


def test_a_number_that_another_process_has_now_is_not_ended(machine: Machine) -> None:
    machine.start()
    machine.until(lambda: is_held(machine.lock_file))
    stranger = Machine(machine.directory / "elsewhere")
    stranger.state.started["meter"] = machine.state.started["meter"]
    assert stranger.pid() is None
    assert not stranger.stop()
    assert is_held(machine.lock_file)


def test_a_lock_that_is_a_link_is_not_opened(machine: Machine, tmp_path: Path) -> None:
    machine.start()
    machine.until(lambda: is_held(machine.lock_file))
    (tmp_path / "link").symlink_to(machine.lock_file)
    assert not is_held(tmp_path / "link")


def test_a_meter_that_ends_at_its_start_is_told_with_the_end_of_its_log(machine: Machine) -> None:
    machine.start("import sys; print('a first line'); sys.exit('port 8787 is in use \\x1b[31m')")
    with pytest.raises(TrainfareError, match=r"the meter has ended: .*port 8787 is in use \\x1b\[31m"):
        until_ready(machine.plan(), machine.site(), machine.state, time.sleep)


def test_of_a_meter_that_ends_with_a_sentence_the_log_before_is_left_out(machine: Machine) -> None:
    machine.start("import sys; print('{}'); sys.exit('trainfare: web.port is taken')")
    with pytest.raises(TrainfareError) as told:
        until_ready(machine.plan(), machine.site(), machine.state, time.sleep)
    assert str(told.value) == "the meter has ended: trainfare: web.port is taken"


def test_another_meter_at_the_port_is_not_taken_for_this_one(machine: Machine) -> None:
    other = Dashboard({"/readyz": {"ready": True}})
    try:
        machine.start()
        machine.until(lambda: is_held(machine.lock_file))
        with pytest.raises(TrainfareError, match="is not ready at"):
            until_ready(machine.plan(other.address), machine.site(), machine.state, lambda _: None, tries=3)
        (machine.directory / "api.json").write_text(f'{{"url": "{other.address}", "pid": 1}}')
        (machine.directory / "api.json").chmod(0o600)
        until_ready(machine.plan(other.address), machine.site(), machine.state, lambda _: None, tries=3)
    finally:
        other.close()


def test_a_program_that_is_not_there_is_told(machine: Machine) -> None:
    with pytest.raises(TrainfareError, match="/nowhere: No such file"):
        start(machine.service, ("/nowhere",), machine.directory, {}, machine.state, "")
