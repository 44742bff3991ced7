"""Starts the meter that `trainfare init` has configured, with its price list and its collectors."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from schemas.escaping import visible
from sinks.private_files import read_private
from streams.broker.broker import ACCESS_FILE
from streams.cli.init_jobs import show_first_jobs
from streams.clock import SystemClock
from streams.errors import TrainfareError
from streams.init.files import InitState, text_in, write_state
from streams.init.plan import COLLECT_FILE, PRICES_FILE, SETTINGS_FILE, Service, SetupPlan, Site
from streams.init.price_file import prices_in
from streams.init.starting import digest_of, is_held, log_file, our_process, start, stop_if_ours, until_ready
from streams.init.surroundings import Surroundings

_COMMAND_S: Final = 120
_ACCESS_BYTES: Final = 65_536


def start_all(
    plan: SetupPlan,
    site: Site,
    state: InitState,
    found: Surroundings,
    wait_s: int,
    until_compiled: Callable[[], None],
) -> None:
    """Start what does not run yet, publish the prices, and show the first jobs.

    Raises:
        TrainfareError: The meter does not start, or takes no prices.
        Exit: A job has GPU-time without a price, or costs something else than the scheduler says; with 1.
    """
    meter, *collectors = plan.services
    if not is_held(meter.lock_file):
        until_compiled()
    if site.uses_kafka:
        _say(_answer_of(site, meter, {}, "topics", "create"))
    _start(meter, site, state, SETTINGS_FILE)
    until_ready(plan, site, state, time.sleep)
    text = text_in(site.directory, PRICES_FILE) or ""
    prices = prices_in(PRICES_FILE, text, SystemClock().now_ms())
    if prices:
        log = {} if site.uses_kafka else _access(site.directory / "log" / ACCESS_FILE)
        _say(_answer_of(site, meter, log, "prices", "load", str(site.directory / PRICES_FILE)))
    for each in collectors:
        _start(each, site, state, SETTINGS_FILE, COLLECT_FILE)
    _say(f"page: {plan.url}, which asks for the token in {site.directory / 'token'}")
    _say(f"in a shell: trainfare jobs --data {shlex.quote(str(site.directory))}")
    pids = [our_process(each, site.directory, state) for each in plan.services]
    if any(pids):
        _say(f"to stop: kill {' '.join(str(pid) for pid in pids if pid is not None)}")
    units = " ".join(shlex.quote(f"{site.directory}/systemd/{each.name}.service") for each in plan.services)
    _say(f"to start it at each boot instead: stop it, then sudo systemctl enable --now {units}")
    show_first_jobs(found, site.directory, prices, wait_s, time.sleep)


def _start(service: Service, site: Site, state: InitState, *files: str) -> None:
    """Start a service, or start it anew if its files have changed since."""
    digest = digest_of([text_in(site.directory, name) for name in files])
    if is_held(service.lock_file):
        if state.started.get(service.name, (0, ""))[1] == digest:
            _say(f"{service.name}: runs")
            return
        if not stop_if_ours(service, site.directory, state, time.sleep):
            _say(f"{service.name}: runs, and not from here: start it anew where its files have changed")
            return
    start(service, site.program, site.directory, os.environ, state, digest)
    write_state(site.directory, state)
    log = log_file(site.directory, service)
    _say(f"{service.name}: started, process {state.started[service.name][0]}; its log is {log}")


def _answer_of(site: Site, meter: Service, variables: Mapping[str, str], *words: str) -> str:
    """What a command of ours says.

    Raises:
        TrainfareError: It fails; the message is its own.
    """
    environment = {**os.environ, **meter.environment, **variables}
    command = [*site.program, *words]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise TrainfareError(f"trainfare {words[0]} {words[1]}: {type(fault).__name__}") from None
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise TrainfareError(f"trainfare {words[0]} {words[1]}: {said.strip()[-500:]}")
    sys.stderr.write(visible(said, lines=True))
    return visible(done.stdout.decode("utf-8", "replace").strip(), lines=True)


def _access(path: Path) -> dict[str, str]:
    """The variables by which commands reach the log of `serve`."""
    text = (read_private(path, _ACCESS_BYTES) or b"").decode()
    words = [word for line in text.splitlines() for word in shlex.split(line) if "=" in word]
    return dict(word.split("=", 1) for word in words)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
