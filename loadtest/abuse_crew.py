"""Clients in a process of their own: `python -m loadtest.abuse_crew` takes a plan on its stdin, and goes on until that ends.

It ends with the process that started it. On stdout it writes a line when it begins, and at its end what it saw, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from loadtest import abuse_attack
from loadtest.abuse_attack import Met
from loadtest.abuse_honest import Honest
from loadtest.abuse_senders import Senders
from loadtest.abuse_silent import Silent, silent_events, silent_hook, silent_log, stopping_hook
from loadtest.abuse_wire import Target
from loadtest.latency_world import ROOT, WorldError

_NICE: Final = 19
_END_WITHIN_S: Final = 90.0
_BEGUN: Final = b"begun\n"


@dataclass(frozen=True)
class Plan:
    """Who is in a crew."""

    target: Target
    idle: int = 0
    slow: int = 0
    deaf: int = 0
    bombers: int = 0
    guessers: int = 0
    honest: bool = False
    silent: Silent = field(default_factory=Silent)
    senders: str = ""  # the secret of their webhooks; empty: there are none

    def tasks(self, met: Met) -> list[Coroutine[Any, Any, None]]:
        """What every attacker does."""
        attack, target = abuse_attack, self.target
        return [
            *(attack.idle(target, number, met) for number in range(self.idle)),
            *(attack.slow(target, number, met) for number in range(self.slow)),
            *(attack.deaf(target, number, met) for number in range(self.deaf)),
            *(attack.bomber(target, number, self.bombers, met) for number in range(self.bombers)),
            *(attack.guesser(target, number, met) for number in range(self.guessers)),
            *(silent_hook(target, number, met) for number in range(self.silent.hooks)),
            *(silent_events(target, number, met) for number in range(self.silent.events)),
            *(stopping_hook(target, number, met) for number in range(self.silent.stopping)),
            *(silent_log(target, number, self.silent.log_port, met) for number in range(self.silent.log)),
        ]


class Crew:
    """One process with a plan; `end` it."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadtest.abuse_crew"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        # By stdin, for the token is in it, and arguments can be seen by everybody.
        self._process.stdin.write(json.dumps(asdict(plan)).encode() + b"\n")
        self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def wait_begun(self) -> None:
        """Wait until its clients begin, or it has ended: how long a process takes to start is no figure of the worker."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> dict[str, Any]:
        """What it saw; raises WorldError if it ended by itself."""
        try:
            said, _ = self._process.communicate(timeout=_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise WorldError(f"the clients `{self.name}` did not end") from None
        if self._process.returncode != 0:
            raise WorldError(f"the clients `{self.name}` ended with {self._process.returncode}")
        found: dict[str, Any] = json.loads(said.removeprefix(_BEGUN))
        return found

    def kill(self) -> None:
        """End it at once, if it is there."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()


async def _until_told(plan: Plan) -> dict[str, Any]:
    met = Met()
    honest: Senders | Honest = Senders(plan.target, plan.senders) if plan.senders else Honest(plan.target)
    tasks = [asyncio.ensure_future(each) for each in plan.tasks(met)]
    if plan.honest or plan.senders:
        tasks.append(asyncio.ensure_future(honest.go()))
    sys.stdout.buffer.write(_BEGUN)
    sys.stdout.buffer.flush()
    told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.buffer.read))
    done, _ = await asyncio.wait((told, *tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for task in done - {told}:
        task.result()  # a fault of ours is no result
    await asyncio.gather(*tasks, return_exceptions=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "counts": met.counts,
        "longest_s": met.longest_s,
        "said": met.said,
        "seen": honest.seen,
        "cpu_s": used.ru_utime + used.ru_stime,
    }


def _step_back() -> None:
    """Let everything else run first: attackers stand for other machines, whose cores are not ours."""
    os.nice(_NICE)
    with suppress(OSError):
        # Where each session is scheduled as one group, nice counts only within it; the group has one of its own.
        Path("/proc/self/autogroup").write_text(str(_NICE), encoding="ascii")


def main() -> None:
    """Read the plan, attack until stdin ends, say what was seen."""
    body: Mapping[str, Any] = json.loads(sys.stdin.buffer.readline())
    plan = Plan(**{**body, "target": Target(**body["target"]), "silent": Silent(**body["silent"])})
    if not (plan.honest or plan.senders):
        _step_back()
    found = asyncio.run(_until_told(plan))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
