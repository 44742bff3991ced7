"""`trainfare gameday NAME`: plays a story into a running meter, says who got a message of it and who did not, and takes it back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemas.counting import how_many
from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, check_one_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, usd, write
from streams.cli.reading import Reader, reader, reader_at
from streams.clock import Clock, SystemClock
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.demo.gameday import Game, GameStory
    from streams.demo.records import DemoRecord
    from streams.transport.producer import LogProducer

_EVERY_MS: Final = 2_000
#: What an alert that is due may take to be sent: rules across jobs are judged once a minute, and an incident is waited for.
_PATIENCE_MS: Final = 3 * MINUTE_MS
#: An alert that has not ended by itself by then is sent again.
_QUIET_MS: Final = 3 * HOUR_MS
_SLACK: Final = "https://hooks.slack.com/"
_FOUND: Final = """
SELECT alert_id, rule, severity, toUnixTimestamp64Milli(started) AS started_ms, silenced, summary FROM alerts FINAL
WHERE subject_kind = 'job' AND subject_name IN {jobs:Array(String)} ORDER BY started, alert_id LIMIT 100"""
_LEFT: Final = "SELECT sum(cost_usd) AS cost_usd FROM job_costs WHERE job_id IN {jobs:Array(String)}"


def gameday(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A story, or `list`.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="ADDRESS",
            help="Who gets its messages: the address of a webhook or of Slack, or an owner's name.",
        ),
    ] = "",
    minutes: Annotated[
        int, typer.Option("--minutes", min=0, max=60, help="How long before its alert the story is joined.")
    ] = 1,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would be done and send nothing; --format json: the events as `trainfare publish` takes them.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Play a story into a running meter by Kafka, and say who got a message of it; its jobs and dollars are taken back."""
    from streams.demo.gameday import GAMES, game

    if name == "list":
        rows = [(each, of.rule, of.severity, of.about) for each, of in GAMES.items()]
        write(Grid(("story", "should give", "as a", "what happens"), rows), OutputFormat.table)
        return
    if name not in GAMES:
        raise WrongUseError(f"{visible(name[:60])}: expected `list` or one of {', '.join(GAMES)}")
    check_one_of(data, url)
    clock = SystemClock()
    is_address = to.startswith(("https://", "http://"))
    played = game(name, clock.now_ms(), minutes * MINUTE_MS, "" if is_address else to)
    whom = "the address of --to" if is_address else to
    if dry_run:
        _plan(played, GAMES[name], whom or "whom --to names", clock.now_ms(), form)
        return
    if not to:
        raise WrongUseError(
            "--to: name who gets the messages, the address of a webhook (https://...) or an owner; without it they would go to "
            "alerts.default_webhook, and page people"
        )
    settings = settings_for(data)
    _agree(played, GAMES[name], whom, yes)
    from streams.transport.producer import LogProducer  # loads Kafka clients

    with (
        reader(settings) if url is None else reader_at(url, settings) as store,
        LogProducer(settings.kafka) as producer,
    ):
        kind = "slack" if to.startswith(_SLACK) else "webhook"
        run = GameRun(played, GAMES[name], store, producer, clock, lambda ms: time.sleep(ms / 1000))
        run.play((kind, to) if is_address else None)


def _agree(played: Game, story: GameStory, whom: str, yes: bool) -> None:
    """Say what will be done, and ask once.

    Raises:
        TrainfareError: It is not wanted.
    """
    sys.stdout.write(_said(played, story, whom))
    if not yes and (not sys.stdin.isatty() or not typer.confirm("Go on?")):
        raise TrainfareError("nothing was sent; say --yes where nobody can be asked")


def _said(played: Game, story: GameStory, whom: str) -> str:
    said = (
        f"plays {how_many(len(played.records), 'event')} as team {played.run}: {story.about}.\n"
        f"{story.rule} should open as a {story.severity}; its messages go to {whom}, and to the receivers of all alerts (Alertmanager), if there are any.\n"
        "Then its jobs are ended, their prices set to 0 and its team silenced for 3 h. Other people's jobs are not touched.\n"
    )
    return visible(said, lines=True)


def _plan(played: Game, story: GameStory, whom: str, now_ms: int, form: OutputFormat) -> None:
    """Write what would be done: for people, or the events themselves."""
    from streams.engine.rules.formatting import instant  # loads the engine

    if form is OutputFormat.json:
        sys.stdout.writelines(_line(each) for each in played.records)
        return
    by_topic: dict[str, list[int]] = {}
    for each in played.records:
        by_topic.setdefault(each.topic, []).append(each.time_ms)
    rows = [
        (topic, len(times), sum(at_ms > now_ms for at_ms in times), instant(min(times)), instant(max(times)))
        for topic, times in by_topic.items()
    ]
    if form is OutputFormat.table:
        sys.stdout.write(
            f"{_said(played, story, whom)}Its alert is due at {instant(played.due_ms)}.\n\nEvents\n"
        )
    write(Grid(("topic", "events", "of them still to come", "first", "last"), rows), form)
    if form is OutputFormat.table:
        sys.stdout.write(f"\nJobs: {', '.join(played.jobs)}\nnothing was sent\n")


def _line(record: DemoRecord) -> str:
    return f'{{"topic":"{record.topic}","value":{record.value.decode()}}}\n'


def _tell(what: str) -> None:
    """Say on stderr what goes on: a game day takes minutes."""
    sys.stderr.write(f"trainfare: {what}\n")
    sys.stderr.flush()


class GameRun:
    """One game day: `play` it once."""

    def __init__(
        self,
        played: Game,
        story: GameStory,
        store: Reader,
        producer: LogProducer,
        clock: Clock,
        rest: Callable[[int], None],
    ) -> None:
        self._game = played
        self._story = story
        self._store = store
        self._producer = producer
        self._clock = clock
        self._rest = rest

    def play(self, address: tuple[str, str] | None) -> None:
        """Send the story, wait for its alert and its messages, say what became of them, and take it all back.

        Raises:
            TrainfareError: Its rule opened no alert, or something could not be taken back.
        """
        from streams.engine.rules.formatting import instant

        left = list(self._game.records)
        due = instant(self._game.due_ms)
        patience = self._patience_ms() // MINUTE_MS
        _tell(
            f"sending {how_many(len(left), 'event')}; {self._story.rule} is due at {due}, and its messages up to {patience} minutes later"
        )
        if address is not None:
            self._send([self._game.receiver(self._clock.now_ms(), *address)])
        try:
            opened, deliveries = self._until_sent(left)
            is_opened = any(row["rule"] == self._story.rule for row in opened)
            _tell(
                "taking it back"
                if is_opened
                else f"{self._story.rule} opened nothing: asking why, and taking it back"
            )
            # Asked while it still pays: once it is taken back, its dollars are no condition any more.
            because = "" if is_opened else self._why_not()
        finally:
            self._take_back()
        # The record of its owner stays: the end of an alert without one would go to everybody's receiver.
        self._show(opened, deliveries)
        self._wait_for_nothing()
        if because:
            raise TrainfareError(because)

    def _until_sent(self, left: list[DemoRecord]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        from streams.explain.why.sql import DELIVERIES

        due_ms = self._clock.now_ms() + self._patience_ms() + self._live_ms()
        said = ""
        while True:
            now_ms = self._clock.now_ms()
            self._send([each for each in left if each.time_ms <= now_ms])
            left[:] = [each for each in left if each.time_ms > now_ms]
            opened = self._store.records(_FOUND, jobs=list(self._game.jobs))
            ids = [row["alert_id"] for row in opened if row["rule"] == self._story.rule]
            deliveries = self._store.records(DELIVERIES, alerts=ids) if ids else []
            news = f"{self._story.rule} has opened; waiting for its messages" if ids else ""
            if news != said:
                _tell(news)
                said = news
            is_settled = deliveries and deliveries[-1]["outcome"] not in ("retrying", "waiting")
            if is_settled or now_ms >= due_ms:
                return opened, deliveries
            self._rest(_EVERY_MS)

    def _patience_ms(self) -> int:
        """How long its alert may take to be sent once it is due."""
        from streams.notify.incident_hold import wait_for_cluster
        from streams.notify.options import NotifierOptions

        # The worker's own settings are not known here.
        usual_ms = NotifierOptions().incident_wait_ms
        waits_ms = wait_for_cluster(self._story.rule, self._story.severity, usual_ms)
        return _PATIENCE_MS + self._story.every_minutes * MINUTE_MS + waits_ms

    def _live_ms(self) -> int:
        """How long until its alert is due."""
        return max(0, self._game.due_ms - self._clock.now_ms())

    def _send(self, records: Iterable[DemoRecord]) -> None:
        from streams.keys import key_of

        for each in records:
            self._producer.send(each.topic, key_of(each.topic, each.value), each.value)
        self._producer.flush()

    def _take_back(self) -> None:
        """Silence its team, then end its jobs and set its prices to nothing."""
        now_ms = self._clock.now_ms()
        self._send([self._game.silence(now_ms, now_ms + _QUIET_MS)])
        self._rest(_EVERY_MS)
        self._send([*self._game.endings(now_ms), *self._game.prices_of_nothing(now_ms)])

    def _show(self, opened: list[dict[str, Any]], deliveries: list[dict[str, Any]]) -> None:
        from streams.engine.rules.formatting import instant
        from streams.explain.why.messages import said

        sent = [(row, *said(row)) for row in deliveries]
        rows = [
            (row["alert_id"], instant(int(row["time_ms"])), row["receiver"], words, because)
            for row, words, because in sent
        ]
        sys.stdout.write("\nAlerts\n")
        write(
            Grid(
                ("alert", "rule", "severity", "opened", "what it says"),
                [
                    (
                        row["alert_id"],
                        row["rule"],
                        row["severity"],
                        instant(row["started_ms"]),
                        row["summary"],
                    )
                    for row in opened
                ],
            ),
            OutputFormat.table,
        )
        sys.stdout.write("\nWho got a message, and who did not\n")
        write(Grid(("alert", "when", "by", "message", "because"), rows), OutputFormat.table)
        if opened and not rows:
            sys.stdout.write("nobody: `trainfare alerts why ID` says why\n")

    def _wait_for_nothing(self) -> None:
        """Wait until its jobs cost nothing.

        Raises:
            TrainfareError: They still do.
        """
        _tell("waiting until its jobs cost nothing")
        due_ms = self._clock.now_ms() + _PATIENCE_MS
        while (
            left := self._store.records(_LEFT, jobs=list(self._game.jobs))[0]["cost_usd"]
        ) and self._clock.now_ms() < due_ms:
            self._rest(_EVERY_MS)
        if left:
            raise TrainfareError(
                f"the jobs of team {self._game.run} still cost ${usd(left)}: a price of your own matches them; "
                f"`trainfare explain JOB` names it"
            )
        sys.stdout.write(f"\nTaken back: its {len(self._game.jobs)} jobs cost $0.00\n")

    def _why_not(self) -> str:
        """Why its rule opened nothing, as far as the judge says."""
        rules = [
            each
            for job in self._game.jobs
            for each in self._store.judged(job, None).rules
            if each.rule == self._story.rule
        ]
        if any(not each.enabled for each in rules):
            return f"{self._story.rule} opened no alert: it is switched off"
        near = [
            f"{each.what}: {each.value} of {each.threshold}"
            for each in rules
            if each.share is None or each.share < 1
        ]
        return f"{self._story.rule} opened no alert; not met: {'; '.join(near[:6]) or 'nothing is known of its conditions'}"
