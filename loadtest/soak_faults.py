"""The faults of a soak, one after the other: what is hurt, for how long, and that it is healed again."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from loadtest.soak_world import Member
from streams.config.settings import KafkaSettings
from tests.kafka.broker import KafkaBroker
from tests.store_process import StoreProcess

OF_STORE: Final = ("store_kill", "store_slow", "store_503", "commit_then_reset")
#: In this order, over and over.
IN_TURN: Final = (
    "kill", "store_503", "term", "store_kill", "freeze", "commit_then_reset", "broker_restart", "store_slow",
    "broker_freeze",
)  # fmt: skip
_AWAY_S: Final = 10.0


class Faults:
    """`next` brings about the next fault and returns once it is over; `fired` counts them by kind."""

    def __init__(
        self,
        victims: Sequence[Member],
        store: StoreProcess | None,
        broker: KafkaBroker,
        kafka: KafkaSettings,
        seed: int = 1,
    ) -> None:
        self._victims = victims
        self._store = store
        self._broker = broker
        self._freeze_s = kafka.session_timeout_ms / 1000 + 3
        self._rng = random.Random(seed)
        self._turn = [kind for kind in IN_TURN if store is not None or kind not in OF_STORE]
        self._faults: dict[str, Callable[[], str]] = {
            "kill": self._kill,
            "term": self._term,
            "freeze": self._freeze,
            "store_kill": self._store_kill,
            "store_slow": lambda: self._store_fault("slow", 12, 2.0),
            "store_503": lambda: self._store_fault("unavailable", 20),
            "commit_then_reset": lambda: self._store_fault("reset_after", 12),
            "broker_restart": self._broker_restart,
            "broker_freeze": self._broker_freeze,
        }
        self._count = 0
        self.doing = ""  # the kind that is under way
        self.fired: dict[str, int] = {}

    def next(self) -> str:
        """Hurt and heal; returns what was done."""
        kind = self._turn[self._count % len(self._turn)]
        self._count += 1
        self.doing = kind
        what = self._faults[kind]()
        self.doing = ""
        self.fired[kind] = self.fired.get(kind, 0) + 1
        return what

    def _victim(self) -> Member:
        return self._rng.choice(self._victims)

    def _kill(self) -> str:
        victim = self._victim()
        victim.kill()
        time.sleep(self._rng.uniform(0.0, 5.0))
        victim.start()
        return f"kill -9 {victim.name}"

    def _term(self) -> str:
        victim = self._victim()
        code = victim.stop()
        if code != 0:
            victim.ends.append(f"{victim.name}, life {victim.life}: SIGTERM ended with {code}")
        victim.start()
        return f"SIGTERM {victim.name}"

    def _freeze(self) -> str:
        victim = self._victim()
        victim.signal(signal.SIGSTOP)
        time.sleep(self._freeze_s)
        victim.signal(signal.SIGCONT)
        return f"SIGSTOP {victim.name} for {self._freeze_s:g} s"

    def _store_kill(self) -> str:
        assert self._store is not None
        self._store.kill()
        time.sleep(_AWAY_S)
        self._store.start()
        return f"store killed for {_AWAY_S:g} s"

    def _store_fault(self, kind: str, times: int, delay_s: float = 0.0) -> str:
        assert self._store is not None
        before = self._store.fired().get(kind, 0)
        self._store.fault(kind, times, delay_s=delay_s)  # type: ignore[arg-type]  # the kinds are those of the front
        deadline_s = time.monotonic() + 30
        while (count := self._store.fired().get(kind, 0) - before) < times and time.monotonic() < deadline_s:
            time.sleep(0.2)
        self._store.faultless()
        return f"{count} inserts: {kind}"

    def _broker_restart(self) -> str:
        self._broker.kill()
        time.sleep(2)
        self._broker.start()
        return "broker killed and started again"

    def _broker_freeze(self) -> str:
        self._broker.signal(signal.SIGSTOP)
        time.sleep(_AWAY_S)
        self._broker.signal(signal.SIGCONT)
        return f"broker frozen for {_AWAY_S:g} s"
