"""What `trainfare init` says: what it has found, the files, and what has no price. All names in it are escaped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.escaping import visible
from streams.cli.output import Grid, OutputFormat, write
from streams.init.files import FileChange, FileFate
from streams.init.plan import PRICES_FILE, SetupPlan
from streams.init.proposals import Proposal, UnpricedKind
from streams.init.surroundings import Surroundings

_NAMES_SHOWN: Final = 12
_UNPRICED_SHOWN: Final = 20


def show_found(found: Surroundings) -> None:
    """Say what is there."""
    _say(f"found: {found.title}")
    for type_, gpus in found.types.items():
        _say(f"  {gpus} GPUs of type {visible(type_) or '(no type)'}")
    for what, names in found.names.items():
        if names:
            more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
            _say(f"  {what}: {', '.join(visible(each) for each in names[:_NAMES_SHOWN])}{more}")
    show_notes(found.notes)


def show_notes(notes: Sequence[str]) -> None:
    """Say what is odd, or needs a decision."""
    for note in notes:
        _say(f"note: {visible(note)}")


def show_prices(proposal: Proposal) -> None:
    """Show the price of each type, and where it is from."""
    rows = [
        (
            row.get("gpu_type", ""),
            ", ".join(type_ for type_, name in proposal.aliases.items() if name == row.get("gpu_type")),
            row["usd"],
            row["per"],
            row["note"],
        )
        for row in proposal.rows
    ]
    if rows:
        write(Grid(("price for", "named here", "usd", "per", "where from"), rows), OutputFormat.table)


def show_changes(changes: Sequence[FileChange], directory: Path, *, is_done: bool, with_texts: bool) -> None:
    """Say what becomes of each file, or has become of it; with its text, or how a file that is there differs."""
    for change in changes:
        fate = str(change.fate) if is_done or change.fate is FileFate.kept else f"would be {change.fate}"
        if with_texts:
            text = "(a token, which is not shown)\n" if change.file.is_secret else change.file.text
            sys.stdout.write(f"\n==> {directory / change.file.name} ({fate})\n")
            sys.stdout.write(visible(text, lines=True))
        else:
            sys.stdout.write(f"{change.file.name}: {fate}\n")
        for line in change.diff:
            sys.stdout.write(f"    {visible(line)}\n")


def show_unpriced(found: Surroundings, missing: Sequence[UnpricedKind]) -> None:
    """Say which GPU-time has no price, and what prices it."""
    _say("\nGPU-time without a price would cost nothing. These have none:")
    for each in missing[:_UNPRICED_SHOWN]:
        fields = " ".join(f"{name}={visible(value)}" for name, value in each.kind.fields.items())
        _say(f"  {each.kind.gpus} GPUs: {fields or '(no type)'}")
        type_ = visible(each.kind.gpu_type)
        if each.name != each.kind.gpu_type:
            _say(f"    prices know them as {visible(each.name)} (gpu_types in collect.toml)")
        if each.choices:
            alias = shlex.quote(f"{type_}=NAME")
            _say(f"    it may be one of these: --alias {alias} with NAME {', '.join(each.choices)}")
        if type_:
            price = shlex.quote(f"{type_}=USD")
            _say(f"    dollars of a GPU-hour: trainfare init {_name_of(found)} --price {price}")
        if each.line:
            _say(f"    or a line in {PRICES_FILE} ({each.header}): {each.line}")
    if len(missing) > _UNPRICED_SHOWN:
        _say(f"  and {len(missing) - _UNPRICED_SHOWN} more")
    _say("  GPUs that you own: trainfare prices amortize. Then run the same command again.")


def text_of_start(plan: SetupPlan, directory: Path) -> str:
    """How to start what is not started."""
    units = " ".join(shlex.quote(f"{directory}/systemd/{each.name}.service") for each in plan.services)
    return f"not started; to start it now and at each boot: sudo systemctl enable --now {units}\n"


def _name_of(found: Surroundings) -> str:
    return "local" if found.source == "nvidia-smi" else found.source


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
