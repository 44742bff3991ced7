"""`trainfare tokens`: issues access tokens, lists them, and ends them, through a worker or in a file that one reads at its start.

A token is made here and shown once: its SHA-256 alone leaves this process.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, minute_text, say_none, write
from streams.cli.this_user import user_name
from streams.clock import SystemClock
from streams.errors import WrongUseError

_RANDOM_BYTES: Final = 32
_NEVER: Final = "never"
_COLUMNS: Final = ("name", "scopes", "bound to", "state", "expires", "last used", "from", "by", "comment")
_BOUNDS: Final = {"teams": "team", "owners": "owner", "sources": "source", "job_prefixes": "job", "topics": "topic"}  # fmt: skip
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and . _ -")]
ExpiresOption = Annotated[
    str, typer.Option("--expires", metavar="TIME", help="When it ends by itself, e.g. 12h, 90d, or never.")
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A file of tokens instead of a worker: for web.tokens_file, before the first start.",
    ),
]
CommentOption = Annotated[
    str, typer.Option("--comment", metavar="TEXT", help="Why, for those who look later.")
]


def create(
    name: NameArgument,
    scopes: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="metrics, read, query, ingest, act, limit or admin; several times, or with commas.",
        ),
    ],
    teams: Annotated[
        list[str] | None, typer.Option("--team", metavar="TEAM", help="It may name these teams alone.")
    ] = None,
    owners: Annotated[
        list[str] | None, typer.Option("--owner", metavar="OWNER", help="These owners alone.")
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="SOURCE", help="Its events have these sources alone, e.g. sdk."),
    ] = None,
    job_prefixes: Annotated[
        list[str] | None,
        typer.Option("--job-prefix", metavar="TEXT", help="It may name jobs alone whose ids begin so."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Its events are of these topics alone, e.g. jobs."),
    ] = None,
    person: Annotated[
        str,
        typer.Option(
            "--person",
            metavar="NAME",
            help="Whose it is, as signing in names them: what one's tokens and oneself ask for, another person confirms. Yours by default.",
        ),
    ] = "",
    expires: ExpiresOption = "90d",
    comment: CommentOption = "",
    file: FileOption = None,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Issue a token, and show it: it is kept as a hash, and nobody can show it again."""
    token, hashed = _new_token()
    asked: dict[str, Any] = {
        "name": name,
        "hash": hashed,
        "scopes": _each(scopes),
        "expires_ms": _end_ms(expires),
        "comment": comment or None,
        **({"person": person} if person else {}),
    }
    given = (teams, owners, sources, job_prefixes, topics)
    asked |= {bound: _each(each) for bound, each in zip(_BOUNDS, given, strict=True) if each}
    where = _change(asked, file, data, url)
    _show(
        token, f"token {name}: {', '.join(asked['scopes'])}, expires {_until(asked['expires_ms'])}; {where}"
    )


def rotate(
    name: NameArgument,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="TIME",
            help="How long the former one goes on, e.g. 2d; it ends at once by default.",
        ),
    ] = "",
    expires: ExpiresOption = "90d",
    comment: CommentOption = "",
    file: FileOption = None,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Give a token another text, with the same scopes and bounds, and show it."""
    token, hashed = _new_token()
    asked: dict[str, Any] = {"name": name, "rotate": True, "hash": hashed, "expires_ms": _end_ms(expires)}
    if keep:
        asked["former_until_ms"] = SystemClock().now_ms() + _length_ms(keep, "--keep")
    where = _change({**asked, "comment": comment or None}, file, data, url)
    former = f"the former one ends {_until(asked['former_until_ms'])}" if keep else "the former one has ended"
    _show(token, f"token {name}: rotated, expires {_until(asked['expires_ms'])}, {former}; {where}")


def revoke(
    name: NameArgument,
    comment: CommentOption = "",
    file: FileOption = None,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """End a token, and all sessions of the page that it began."""
    where = _change({"name": name, "revoked": True, "comment": comment or None}, file, data, url)
    sys.stdout.write(f"{visible(f'token {name}: revoked; {where}')}\n")


def list_(
    file: FileOption = None,
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the issued tokens: what each may do and name, and when it was used last."""
    from streams.web.token_records import TokenFile

    place = _place(file, data, url)
    now_ms = SystemClock().now_ms()
    if isinstance(place, TokenFile):
        events = sorted(place.read().values(), key=lambda each: each.name)
        found: list[dict[str, Any]] = [{**each.value, "name": each.name} for each in events]
    else:
        listed, whose = place.tokens()
        found = sorted(listed, key=lambda each: str(each["name"]))
        if whose != "all workers":
            sys.stderr.write(f"trainfare: the last uses are of {visible(whose)}\n")
    say_none(found, form, "no token was issued: `trainfare tokens create NAME`")
    write(Grid(_COLUMNS, [_row(each, now_ms) for each in found]), form)


def _row(token: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    expires_ms = token.get("expires_ms")
    is_over = expires_ms is not None and now_ms >= expires_ms
    bounds = [f"{label} {each}" for bound, label in _BOUNDS.items() for each in token.get(bound, ())]
    bounds += [f"person {token['person']}"] if token.get("person") else []
    used_ms = token.get("last_used_ms")
    return (
        str(token["name"]),
        ", ".join(token.get("scopes", ())),
        ", ".join(bounds),
        "revoked" if token.get("revoked") else "expired" if is_over else "in force",
        _until(expires_ms),
        "" if used_ms is None else minute_text(used_ms),
        str(token.get("last_used_from", "")),
        str(token.get("by", "")),
        str(token.get("comment", "")),
    )


def _place(file: Path | None, data: Path | None, url: str | None) -> Any:
    """The file to change, or the worker to ask: one that has the directory open, else the directory's file."""
    from streams.cli.acting import worker_at
    from streams.cli.top.sources import announced
    from streams.web.token_records import FILE_NAME, TokenFile

    if file is not None:
        if data is not None or url is not None:
            raise WrongUseError("--file is a place of its own: leave out --data and --url")
        return TokenFile(file)
    if data is not None and url is None and announced(data) is None:
        if not data.is_dir():
            raise WrongUseError(f"--data {data}: no such directory; `trainfare serve --data {data}` makes it")
        return TokenFile(data / FILE_NAME)
    return worker_at(data, url, settings_for(data))


def _change(asked: dict[str, Any], file: Path | None, data: Path | None, url: str | None) -> str:
    """Write the record of a change; return where, in words.

    Raises:
        WrongUseError: It is invalid.
        TrainfareError: The worker refuses it.
    """
    from streams.web.control_record import FieldError
    from streams.web.token_records import TokenConflictError, TokenFile, token_record

    place = _place(file, data, url)
    said = {field: each for field, each in asked.items() if each is not None}
    if not isinstance(place, TokenFile):
        place.token_change(said)
        return "the worker has it within a second"
    try:
        record = token_record(said, place.read(), f"file by {user_name()}", SystemClock().now_ms())
    except FieldError as fault:
        raise WrongUseError(f"{fault.field}: {fault}" if fault.field else str(fault)) from None
    except TokenConflictError as fault:
        raise WrongUseError(f"{place.path}: {fault}") from None
    place.add(record)
    return f"written to {place.path}, which a worker reads at its start"


def _new_token() -> tuple[str, str]:
    from schemas.validate_tokens import hash_of

    token = f"trainfare_{secrets.token_urlsafe(_RANDOM_BYTES)}"
    return token, hash_of(token)


def _show(token: str, said: str) -> None:
    """The token alone on stdout, so that it can go to a file; what it is beside it."""
    sys.stderr.write(f"{visible(said)}\nshown once:\n")
    sys.stdout.write(f"{token}\n")


def _each(given: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each.strip() for text in given for each in text.split(",") if each.strip()))


def _end_ms(expires: str) -> int | None:
    return None if expires == _NEVER else SystemClock().now_ms() + _length_ms(expires, "--expires")


def _length_ms(text: str, option: str) -> int:
    from streams.explain.alert_list import length_ms  # loads the engine

    return length_ms(text, option)


def _until(instant_ms: int | None) -> str:
    return _NEVER if instant_ms is None else minute_text(instant_ms)
