"""What budgets ask for: the escalation steps over a sweep with the example receiver, dry runs, and receivers that misbehave."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from standardwebhooks import Webhook

from schemas.budget_tables import ACTIONS
from sinks.clickhouse import ClickHouseStore
from streams.address_keys import AddressKeys, address_keys
from streams.clock import ManualClock, SystemClock
from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.sender import Sender
from streams.notify.webhooks.signing import Signer
from streams.worker.ledger_judges.action_requester import ActionOptions
from tests.notify.scripted_sender import BUSY, SECRET, ScriptedSender, run
from tests.sinks.stores import empty
from tests.worker.ledger_lab import MINUTE_MS, T0, Ledger, Life, at, opened

ROOT = Path(__file__).parents[2]
HOOK = "https://act.example.com/hook"
STEPS = [{"do": "checkpoint", "at": 0.98}, {"do": "stop", "at": 1}]
SWEEP = ("budget", "sweep", {"experiment": "lr", "usd": 100, "actions": STEPS, "grace_s": 60})
LIVE = ActionOptions("live", HOOK, (SECRET,))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("actions"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def asked(store: ClickHouseStore, *names: str) -> list[tuple[Any, ...]]:
    rows = sorted(
        store.select(ACTIONS).to_pylist(), key=lambda row: (row["time"], row["job_id"], row["attempt"])
    )
    return [tuple(row[name] for name in names) for row in rows]


class Fleet:
    """Trials of an experiment that spend evenly; the ledger is stored each minute."""

    def __init__(
        self, store: ClickHouseStore, trials: int, cents: int, sku: str = "x", **fields: Any
    ) -> None:
        self.ledger = Ledger(store)
        self.live = [str(1000 + number) for number in range(trials)]
        self.cents = cents
        self.sku = sku
        self.minute = 0
        self.spent = 0
        with self.ledger.together():
            for job_id in self.live:
                self.ledger.job(job_id, experiment="lr", cluster="c1", **fields)

    def spend(self, minutes: int = 1) -> int:
        """Spend so many minutes; return the instant at which they are stored."""
        with self.ledger.together():
            for job_id in self.live:
                begin_ms = T0 + self.minute * MINUTE_MS
                self.ledger.minutes(job_id, begin_ms, [self.cents] * minutes, sku=self.sku)
        self.minute += minutes
        self.spent += minutes * self.cents * len(self.live)
        now_ms = T0 + self.minute * MINUTE_MS
        self.ledger.books(now_ms)
        return now_ms

    def stop(self, job_ids: set[str]) -> None:
        """The scheduler has stopped them."""
        for job_id in job_ids & set(self.live):
            ended = at(T0 + self.minute * MINUTE_MS)
            self.ledger.job(job_id, experiment="lr", state="cancelled", ended=ended)
        self.live = [job_id for job_id in self.live if job_id not in job_ids]


async def play(life: Life, fleet: Fleet, minutes: int, first: int = 1) -> None:
    for number in range(minutes):
        now_ms = fleet.spend(first if number == 0 else 1)
        life.clock.advance(now_ms + 5_000 - life.clock.now_ms())
        await life.step()


# -- the example receiver --------------------------------------------------------------------------------------


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("actions_receiver", ROOT / "examples/actions/receiver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def receiver_process(system: str, state: Path) -> Iterator[int]:
    """The example as its README starts it: a process of its own, on a free port, with the commands on its PATH."""
    words: list[str | Path] = [
        sys.executable,
        ROOT / "examples/actions/receiver.py",
        system,
        "--port",
        "0",
        "--state",
        state,
    ]
    env = {"ACTIONS_SECRET": SECRET, "PATH": os.environ["PATH"]}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("listening on 127.0.0.1:"), said
            yield int(said.rpartition(":")[2])
        finally:
            process.terminate()


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Binaries of Slurm and Kubernetes that only write down how they were called."""
    calls, folder = tmp_path / "calls", tmp_path / "bin"
    folder.mkdir()
    calls.write_text("")
    for name in ("scancel", "scontrol", "kubectl"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return calls


def called(commands: Path) -> list[str]:
    return commands.read_text().splitlines()


def test_a_sweep_stops_within_a_percent_of_its_budget_and_the_grace(
    store: ClickHouseStore, commands: Path, tmp_path: Path
) -> None:
    """40 trials of 5 cents a minute: $2 a minute, and $100 after 50."""

    async def scenario(port: int) -> None:
        options = ActionOptions("live", f"http://127.0.0.1:{port}/", (SECRET,))
        sender = Sender(ReceiverGuard(f"127.0.0.1:{port}"), timeout_ms=5_000)
        fleet = Fleet(store, 40, 5)
        life = Life(store, ManualClock(T0), SWEEP, actions=options, sender=sender, signed_by=SystemClock())
        await play(life, fleet, 1, first=48)
        for _ in range(5):
            await play(life, fleet, 1)
            for _ in range(3):  # 16 requests at a time
                assert life.owner is not None
                assert life.rules.requester is not None
                await life.rules.requester.send_due(life.owner)
            stopped = {line.split()[-1] for line in called(commands) if "--signal" not in line}
            if stopped and fleet.live:
                # The minute in which they were asked to stop is paid as well.
                await play(life, fleet, 1)
                fleet.stop(stopped)
        assert fleet.live == []
        grace_usd = 2
        assert 100 <= fleet.spent / 100 <= 101 + grace_usd
        lines = called(commands)
        assert sorted(line for line in lines if "--signal" in line) == [
            f"scancel --signal=USR1 --batch {job}" for job in range(1000, 1040)
        ]
        assert sorted(line for line in lines if "--signal" not in line) == [
            f"scancel {job}" for job in range(1000, 1040)
        ]
        states = asked(store, "rung", "mode", "state")
        assert len(states) == 160
        assert set(states) == {
            (rung, "live", state)
            for rung in ("checkpoint", "stop")
            for state in ("requested", "acknowledged")
        }

    with receiver_process("slurm", tmp_path / "handled") as port:
        run(scenario(port))
    assert len((tmp_path / "handled").read_text().splitlines()) == 80


def message(job_id: str, action: str = "stop", key: str = "act_" + "0" * 24) -> tuple[dict[str, str], bytes]:
    body = json.dumps(
        {
            "type": "action.requested",
            "data": {"idempotency_key": key, "action": action, "job": {"job_id": job_id}},
        }
    ).encode()
    return Signer(SECRET).headers(key, body, SystemClock().now_ms()), body


def test_the_example_runs_only_what_is_in_its_list_and_once(commands: Path, tmp_path: Path) -> None:
    module, webhook = example(), Webhook(SECRET)
    handled = module.Handled(tmp_path / "handled")

    def answer(job_id: str, action: str = "stop", key: str = "act_" + "0" * 24, system: str = "slurm") -> int:
        headers, body = message(job_id, action, key)
        status: int = module.handle(system, webhook, handled, headers, body)[0]
        return status

    assert answer("slurm/main/4711_3") == 200
    assert answer("slurm/main/4711_3") == 200  # again under the same key
    for hostile in ("1; rm -rf /", "$(id)", "--user=root", "", "٣"):
        assert answer(hostile, key="act_" + "1" * 24) == 422
    assert answer("1", "explode", key="act_" + "2" * 24) == 422
    assert answer("sweep-7", "suspend", "act_" + "3" * 24, "kubernetes") == 200
    assert answer("sweep-7", "notify", "act_" + "4" * 24, "kubernetes") == 200
    assert called(commands) == [
        "scancel 4711_3",
        'kubectl patch job sweep-7 --type=merge --patch {"spec":{"suspend":true}}',
    ]
    assert module.Handled(tmp_path / "handled")._keys == handled._keys
    with pytest.raises(FileNotFoundError):
        module.Handled(tmp_path / "missing" / "handled")
    headers, body = message("1", key="act_" + "5" * 24)
    assert module.handle("slurm", webhook, handled, headers, body + b" ")[0] == 401


# -- modes and faults ------------------------------------------------------------------------------------------


def test_a_dry_run_stores_what_it_would_ask_for_and_asks_nothing(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        sender = ScriptedSender()
        fleet = Fleet(store, 2, 100)
        options = ActionOptions("dry_run", HOOK, (SECRET,))
        life = Life(store, ManualClock(T0), SWEEP, actions=options, sender=sender)
        await play(life, fleet, 4, first=49)
        assert sender.sent == []
        assert asked(store, "job_id", "rung", "mode", "state") == [
            (job, rung, "dry_run", "planned") for rung in ("checkpoint", "stop") for job in ("1000", "1001")
        ]

    run(scenario())


def test_rungs_wait_for_their_grace_and_the_message_fits_its_schema(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        sender = ScriptedSender()
        fleet = Fleet(store, 1, 100)
        steps = (
            "budget",
            "b",
            {"experiment": "lr", "usd": 10, "actions": ["checkpoint", "suspend", "stop"], "grace_s": 180},
        )
        life = Life(store, ManualClock(T0), steps, actions=LIVE, sender=sender)
        await play(life, fleet, 10, first=9)
        assert [sent.body["data"]["action"] for sent in sender.sent] == ["checkpoint", "suspend", "stop"]
        assert [row[0] for row in asked(store, "time", "state") if row[1] == "requested"] == [
            at(T0 + minute * MINUTE_MS) for minute in (10, 13, 16)
        ]
        schema = json.loads((ROOT / "schemas/messages/action.requested.json").read_text())
        for sent in sender.sent:
            Draft202012Validator(schema).validate(sent.body)
            assert sent.url == HOOK
            assert (
                sent.headers["webhook-id"]
                == sent.headers["idempotency-key"]
                == sent.body["data"]["idempotency_key"]
            )
        data = sender.sent[0].body["data"]
        assert data["reason"] == "experiment lr: budget b for all time is 100.0 % used, $10.00 spent"
        assert (data["next_action"], data["grace_s"], data["job"]["cluster"]) == ("suspend", 180, "c1")

    run(scenario())


def test_nothing_is_asked_of_a_job_without_a_price(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        sender = ScriptedSender()
        fleet = Fleet(store, 1, 1000, sku="")
        life = Life(store, ManualClock(T0), SWEEP, actions=LIVE, sender=sender)
        await play(life, fleet, 12)
        assert sender.sent == []
        assert asked(store, "rung", "state", "attempt") == [("checkpoint", "refused", 0)]

    run(scenario())


def test_an_override_suspends_the_ladder_until_it_ends(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        sender = ScriptedSender()
        fleet = Fleet(store, 1, 1000)
        until_ms = T0 + 14 * MINUTE_MS
        override = ("override", "o", {"budget": "sweep", "until_ms": until_ms, "reason": "the paper is due"})
        life = Life(store, ManualClock(T0), SWEEP, override, actions=LIVE, sender=sender)
        await play(life, fleet, 12)
        assert sender.sent == []
        assert asked(store, "state", "detail") == [("overridden", "override o: the paper is due")]
        await play(life, fleet, 3)
        assert [sent.body["data"]["action"] for sent in sender.sent] == ["checkpoint", "stop"]

    run(scenario())


def test_a_restart_asks_again_under_the_same_key_and_two_workers_ask_once(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        fleet = Fleet(store, 1, 1000)
        clock = ManualClock(T0)
        first, second = ScriptedSender(), ScriptedSender()
        one = Life(store, clock, SWEEP, actions=LIVE, sender=first)
        two = Life(store, clock, SWEEP, actions=LIVE, sender=second, generation=2)
        clock.advance(fleet.spend(10) + 5_000 - clock.now_ms())
        await one.rules.step()  # it stores the request and dies before it sends
        await two.step()
        assert [sent.body["data"]["action"] for sent in second.sent] == ["checkpoint"]
        await one.step()  # it was not dead
        assert one.rules.requester is not None
        assert one.owner is not None
        await one.rules.requester.send_due(one.owner)
        keys = {sent.headers["idempotency-key"] for sent in first.sent + second.sent}
        assert len(keys) == 1

    run(scenario())


def test_a_dry_run_sends_no_request_that_a_live_owner_left(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        fleet = Fleet(store, 1, 1000)
        clock = ManualClock(T0)
        sender = ScriptedSender()
        live = Life(store, clock, SWEEP, actions=LIVE, sender=ScriptedSender())
        options = ActionOptions("dry_run", HOOK, (SECRET,))
        dry = Life(store, clock, SWEEP, actions=options, sender=sender, generation=2)
        clock.advance(fleet.spend(10) + 5_000 - clock.now_ms())
        await live.rules.step()  # it stores the request and is replaced by a worker in a dry run
        await play(dry, fleet, 3)
        assert sender.sent == []
        states = asked(store, "mode", "state")
        assert ("live", "requested") in states
        assert ("dry_run", "planned") in states

    run(scenario())


def test_a_request_of_an_owner_that_died_expires_once_if_its_job_is_over(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        fleet = Fleet(store, 1, 1000)
        clock, sender = ManualClock(T0), ScriptedSender()
        clock.advance(fleet.spend(10) + 5_000 - clock.now_ms())
        await Life(store, clock, SWEEP, actions=LIVE, sender=sender).rules.step()  # and dies before it sends
        fleet.stop({"1000"})
        for generation in (2, 3):
            await play(
                Life(store, clock, SWEEP, actions=LIVE, sender=sender, generation=generation), fleet, 2
            )
        assert sender.sent == []
        assert asked(store, "rung", "state", "attempt") == [
            ("checkpoint", "requested", 0),
            ("checkpoint", "expired", 1),
        ]

    run(scenario())


class Misbehaving(BaseHTTPRequestHandler):
    """Answers as the path says."""

    hang = threading.Event()
    posts: list[str] = []  # noqa: RUF012 - shared by the instances of one server

    def do_POST(self) -> None:
        self.posts.append(self.path)
        if self.path == "/hang":
            self.hang.wait(5)
        self.send_response({"/moved": 302, "/broken": 500}.get(self.path, 404))
        self.send_header("location", "/stolen")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("path", "state", "words"),
    [
        ("moved", "refused", "redirects are not followed"),
        ("gone", "refused", "answered 404"),
        ("broken", "expired", "given up after 2 attempts"),
        ("hang", "expired", "no answer within 200 ms"),
    ],
)
def test_a_receiver_that_misbehaves_is_given_up_and_the_ladder_goes_on(
    store: ClickHouseStore, path: str, state: str, words: str
) -> None:
    async def scenario(port: int) -> None:
        fleet = Fleet(store, 1, 1000)
        sender = Sender(ReceiverGuard(f"127.0.0.1:{port}"), timeout_ms=200)
        options = ActionOptions("live", f"http://127.0.0.1:{port}/{path}", (SECRET,), max_attempts=2)
        life = Life(store, ManualClock(T0), SWEEP, actions=options, sender=sender)
        await play(life, fleet, 3, first=10)
        found = asked(store, "rung", "state", "detail")
        ended = [each for each in found if each[1] == state]
        assert [each[0] for each in ended][:1] == ["checkpoint"]
        assert words in ended[0][2]
        assert f"/{path}" not in ended[0][2]
        assert "stop" in {each[0] for each in found if each[1] == "requested"}
        assert "/stolen" not in Misbehaving.posts

    Misbehaving.hang.clear()
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving)) as port:
        try:
            run(scenario(port))
        finally:
            Misbehaving.hang.set()


def test_an_address_that_may_not_be_reached_is_refused(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        fleet = Fleet(store, 1, 1000)
        mine = ("budget", "sweep", {**SWEEP[2], "webhook": "http://169.254.169.254/latest/meta-data"})
        sender = Sender(ReceiverGuard(""), timeout_ms=200)
        life = Life(store, ManualClock(T0), mine, actions=LIVE, sender=sender)
        await play(life, fleet, 1, first=10)
        (refused,) = [each for each in asked(store, "state", "detail") if each[0] == "refused"]
        assert "meta-data" not in refused[1]

    run(scenario())


@pytest.mark.parametrize(
    ("key", "state"), [("k" * 32, "acknowledged"), ("j" * 32, "refused"), (None, "refused")]
)
def test_a_sealed_address_of_a_budget_is_opened_or_nothing_is_sent(
    store: ClickHouseStore, key: str | None, state: str
) -> None:
    own = "https://own.example.com/hook"
    sealed = AddressKeys("k" * 32).sealed("webhook", own)

    async def scenario() -> None:
        fleet, sender = Fleet(store, 1, 1000), ScriptedSender({})
        options = ActionOptions("live", HOOK, (SECRET,), address_keys=address_keys(key))
        mine = ("budget", "sweep", {**SWEEP[2], "webhook": sealed})
        life = Life(store, ManualClock(T0), mine, actions=options, sender=sender)
        await play(life, fleet, 1, first=10)
        assert {each.url for each in sender.sent} == ({own} if state == "acknowledged" else set())
        ended = [each for each in asked(store, "state", "detail") if each[0] != "requested"]
        assert {each[0] for each in ended} == {state}
        assert ("which at_rest.key does not have" in ended[0][1]) == (state == "refused")

    run(scenario())


def test_what_nothing_needs_any_more_expires(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        fleet = Fleet(store, 1, 1000)
        life = Life(store, ManualClock(T0), SWEEP, actions=LIVE, sender=ScriptedSender({HOOK: [BUSY]}))
        await play(life, fleet, 1, first=10)
        fleet.stop({"1000"})
        await play(life, fleet, 2)
        assert asked(store, "rung", "state") == [
            ("checkpoint", "requested"),
            ("checkpoint", "expired"),
        ]

    run(scenario())
