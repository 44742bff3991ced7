"""The command `trainfare`: every subcommand, and the example at the end of its --help."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from streams.cli.faults import DEBUG_VARIABLE, WRONG_USE, guarded
from streams.cli.patience import still_at_work

#: (command, `module:function` in streams.cli, example).
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "demo:demo", "trainfare demo --seconds 90"),
    ("init", "init:init", "trainfare init slurm --price h100=3.60"),
    (
        "gameday",
        "gameday:gameday",
        "trainfare gameday retry-loop --to https://hooks.example.com/me --data ./meter",
    ),
    ("replay", "replay:replay", "trainfare replay examples/helios-500.jsonl.gz --data ./meter"),
    ("backfill", "backfill:backfill", "trainfare backfill 2026-*.jsonl.gz"),
    (
        "backtest",
        "backtest:backtest",
        "trainfare backtest march.jsonl.gz --rules rules.toml --labels incidents.csv",
    ),
    ("worker", "worker:worker", "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS=kafka:9092 trainfare worker"),
    ("serve", "serve:serve", "trainfare serve --data ./meter"),
    (
        "sql",
        "query:sql",
        'trainfare sql "SELECT team, sum(cost_usd) FROM job_costs GROUP BY team" --data ./meter',
    ),
    ("top", "top.command:top", "trainfare top --data ./meter"),
    ("jobs", "jobs:jobs", "trainfare jobs --data ./meter --state running --limit 10"),
    ("job", "jobs:job", "trainfare job train-7b --data ./meter"),
    ("costs", "costs:costs", "trainfare costs --metric m1 --by team,purchase --per day --data ./meter"),
    ("forecast", "forecast:forecast", "trainfare forecast --by team --spot-share 0.5 --data ./meter"),
    (
        "chargeback",
        "chargeback:chargeback",
        "trainfare chargeback --month 2026-10 --by team,project --idle weighted --data ./meter",
    ),
    ("close", "close:close", "trainfare close 2026-10 --data ./meter"),
    (
        "statement",
        "statement:statement",
        "trainfare statement --team vision --month 2026-10 --format pdf --out vision.pdf --data ./meter",
    ),
    ("idle", "idle:idle", "trainfare idle --by team --per day --data ./meter"),
    ("savings", "savings:savings", "trainfare savings --month 2026-10 --data ./meter"),
    ("coverage", "coverage:coverage", "trainfare coverage --per month --data ./meter"),
    ("budgets", "budgets:budgets", "trainfare budgets --data ./meter"),
    ("gate", "gate:gate", "trainfare gate --team vision --need 120 --data ./meter"),
    (
        "incident",
        "incident:incident",
        "trainfare incident al_8fe63f15d88e32e0d55fbafd --data ./meter > report.md",
    ),
    ("explain", "explain:explain", "trainfare explain train-7b --data ./meter --format csv"),
    (
        "estimate",
        "estimate:estimate",
        "trainfare estimate --gpus 8 --gpu-type H100 --hours 10 --data ./meter",
    ),
    ("publish", "publish:publish", "trainfare publish events.jsonl.gz"),
    ("apply", "apply:apply", "trainfare apply controls --dry-run"),
    ("collect", "collect:collect", "trainfare collect dcgm --config collect.toml --dry-run"),
    ("sources", "sources:sources", "trainfare sources --data ./meter"),
    ("audit", "audit:audit", "trainfare audit --data ./meter"),
    ("approve", "approve:approve", "trainfare approve 3f1c52d07be94a1186d2c0aa --data ./meter"),
    ("whoami", "whoami:whoami", "trainfare whoami --data ./meter"),
)
GROUPS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "prices",
        "Prices: load a list, see what holds, make prices of GPUs that are owned.",
        (
            ("load", "prices:load", "trainfare prices load prices.csv --dry-run"),
            ("show", "price_show:show", "trainfare prices show --data ./meter --gpu-type H100"),
            (
                "amortize",
                "price_amortize:amortize",
                "trainfare prices amortize --usd 250000 --gpus 8 --years 4 --sku lab.h100 --match gpu_type=H100",
            ),
        ),
    ),
    (
        "bills",
        "Providers' bills beside what was metered.",
        (
            ("load", "bills:load", "trainfare bills load october.csv.gz --data ./meter"),
            ("allocate", "bills:allocate", "trainfare bills allocate --month 2026-10 --data ./meter"),
            ("list", "bills:list_", "trainfare bills list --data ./meter"),
            (
                "withdraw",
                "bills_withdraw:withdraw",
                "trainfare bills withdraw 3f1c0a9be27d --dry-run --data ./meter",
            ),
            (
                "reconcile",
                "bills:reconcile",
                "trainfare bills reconcile --from 2026-10-01 --to 2026-11-01 --by account --by sku --data ./meter",
            ),
            (
                "export",
                "bills_export:export",
                "trainfare bills export --format parquet --out focus.parquet --data ./meter",
            ),
        ),
    ),
    (
        "allocation",
        "Allocation rules: who bears what many use together.",
        (
            ("load", "allocation:load", "trainfare allocation load allocation.toml --data ./meter"),
            ("show", "allocation:show", "trainfare allocation show --month 2026-10 --data ./meter"),
        ),
    ),
    (
        "carbon",
        "Carbon: CO2 equivalent beside dollars.",
        (
            ("load", "carbon:load", "trainfare carbon load intensities.csv --data ./meter"),
            ("show", "carbon:show", "trainfare carbon show --by region --per day --data ./meter"),
        ),
    ),
    (
        "commitments",
        "Commitments: what was bought for a time, used or not.",
        (
            ("load", "commitments:load", "trainfare commitments load commitments.toml --data ./meter"),
            ("show", "commitments:show", "trainfare commitments show --per month --by team --data ./meter"),
        ),
    ),
    (
        "fx",
        "Exchange rates: what a currency costs in dollars on each day.",
        (
            ("load", "fx:load", "trainfare fx load eurofxref-hist.csv --data ./meter"),
            (
                "show",
                "fx:show",
                "trainfare fx show --currency EUR --from 2026-10-01 --to 2026-11-01 --data ./meter",
            ),
        ),
    ),
    (
        "alerts",
        "Alerts and those who get them.",
        (
            (
                "list",
                "alerts_list:list_",
                "trainfare alerts list --firing --team vision --since 2d --data ./meter",
            ),
            (
                "ack",
                "alerts_act:ack",
                "trainfare alerts ack al_8fe63f15d88e32e0d55fbafd --for 4h --data ./meter",
            ),
            (
                "silence",
                "alerts_act:silence",
                "trainfare alerts silence al_8fe63f15d88e32e0d55fbafd --for 1h --comment benchmark --data ./meter",
            ),
            (
                "planned",
                "alerts_act:planned",
                "trainfare alerts planned al_8fe63f15d88e32e0d55fbafd --for 8h --usd-per-hour 160 --data ./meter",
            ),
            ("test", "alerts_test:send_test", "trainfare alerts test ada"),
            (
                "why",
                "alerts_why:why",
                "trainfare alerts why train-7b --at 2026-10-01T06:00:10 --data ./meter",
            ),
        ),
    ),
    (
        "receipts",
        "Receipts of jobs that ended, and weekly digests.",
        (
            ("show", "receipts:show", "trainfare receipts show train-7b --data ./meter"),
            ("ask", "receipts:ask", "trainfare receipts ask ada --data ./meter"),
        ),
    ),
    (
        "rules",
        "Settings of the alert rules: check a file, publish it, see what is in force.",
        (
            ("check", "rules:check", "trainfare rules check rules.toml"),
            ("publish", "rules:publish", "trainfare rules publish rules.toml --dry-run"),
            (
                "show",
                "rules_show:show",
                "trainfare rules show --file rules.toml --job train-7b --data ./meter",
            ),
        ),
    ),
    (
        "dead-letters",
        "Refused records: list, explain, and send again after a fix.",
        (
            ("list", "dead_letters.listing:list_", "trainfare dead-letters list --topic gpu --since 2h"),
            ("show", "dead_letters.listing:show", "trainfare dead-letters show gpu/3/41907"),
            (
                "replay",
                "dead_letters.replay:replay",
                "trainfare dead-letters replay --reason too_late --dry-run",
            ),
        ),
    ),
    (
        "upgrade",
        "Upgrades: what a new version will change.",
        (("check", "upgrade:check", "trainfare upgrade check --data ./meter"),),
    ),
    (
        "store",
        "The tables: back them up, restore them, drop old months, give a ClickHouse user the rows of a team.",
        (
            ("backup", "store:backup", "trainfare store backup /backups/2026-11-28 --data ./meter"),
            ("restore", "store:restore_", "trainfare store restore /backups/2026-11-28 --data ./meter-again"),
            ("retention", "store:retention", "trainfare store retention --days 90 --dry-run --data ./meter"),
            (
                "row-policies",
                "row_policies:row_policies",
                "trainfare store row-policies vision_reader --team vision",
            ),
        ),
    ),
    (
        "tokens",
        "Access tokens: issue them, each bound to what it may do and name, and end them.",
        (
            (
                "create",
                "tokens:create",
                "trainfare tokens create vision-jobs --scope ingest --team vision --source sdk --expires 90d --data ./meter",
            ),
            ("list", "tokens:list_", "trainfare tokens list --data ./meter"),
            ("rotate", "tokens:rotate", "trainfare tokens rotate vision-jobs --keep 2d --data ./meter"),
            (
                "revoke",
                "tokens:revoke",
                "trainfare tokens revoke vision-jobs --comment leaked --data ./meter",
            ),
        ),
    ),
    ("config", "The settings.", (("check", "setup:check", "trainfare config check --format json"),)),
    ("topics", "The topics on Kafka.", (("create", "setup:create", "trainfare topics create"),)),
)


#: The words that name commands.
_NAMES: Final = frozenset(
    (
        *(name for name, *_ in (*COMMANDS, *GROUPS)),
        *(name for _, _, verbs in GROUPS for name, *_ in verbs),
    )
)


def _typer(help_text: str) -> typer.Typer:
    return typer.Typer(
        help=help_text,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The command with all subcommands; if `words` begin with one, only that one, as loading takes time."""
    app = _typer("The taxi meter for ML training: what every job costs, exactly, in seconds.")
    app.callback(invoke_without_command=True)(_root)
    named = words[0] if words else ""
    is_known = named == "--version" or named in {name for name, *_ in (*COMMANDS, *GROUPS)}
    for name, command, example in COMMANDS:
        if name == named or not is_known:
            app.command(name, epilog=f"Example: {example}")(_loaded(command))
    for group, help_text, verbs in GROUPS:
        if group == named or not is_known:
            inner = _typer(help_text)
            inner.callback(invoke_without_command=True)(_group)
            for name, command, example in verbs:
                inner.command(name, epilog=f"Example: {example}")(_loaded(command))
            app.add_typer(inner, name=group)
    return app


def _loaded(command: str) -> Callable[..., None]:
    module, _, function = command.partition(":")
    found: Callable[..., None] = getattr(import_module(f"streams.cli.{module}"), function)
    return found


def _version(wanted: bool) -> None:
    if wanted:
        from schemas.release import UNKNOWN, release  # reads what is installed

        number = release()
        reason = " (run from a checkout that is not installed)" if number == UNKNOWN else ""
        sys.stdout.write(f"trainfare {number}{reason}\n")
        raise typer.Exit


def _root(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Show the commands if none was given."""
    _group(context)


def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sys.stderr.write(context.get_help() + "\n")
        raise typer.Exit(WRONG_USE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    os.umask(0o077)  # the engine's files, too: a copy of the directory is for this user alone
    given = list(sys.argv[1:] if arguments is None else arguments)
    if os.environ.get(DEBUG_VARIABLE) != "1":
        # A short command reports failures in one line; worker and replay set up logs of their own.
        logging.getLogger().handlers = [logging.NullHandler()]
    command = " ".join(each for each in given[:2] if not each.startswith("-") and each in _NAMES)
    with still_at_work(command):
        code = guarded(lambda: build(given)(given, prog_name="trainfare", standalone_mode=False))
    sys.exit(code)


if __name__ == "__main__":
    main()
