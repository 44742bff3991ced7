"""Random passwords and tokens for the compose file: `python -m deploy.make_secrets` makes those that are missing.

It must not change one that is there (the services would no longer know each other), nor print any.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from pathlib import Path
from typing import Final

from sinks.errors import SinkError
from sinks.private_files import make_private_dir, read_private, write_private

FOLDER: Final = Path(__file__).parent / "secrets"
#: Each is a file of that name, and a secret of that name in the compose file.
NAMES: Final = (
    "clickhouse_password",
    "clickhouse_reader_password",
    "clickhouse_grafana_password",
    "grafana_password",
    "web_token",
    "web_metrics_token",
    "canary_key",
)
USERS_FILE: Final = "clickhouse_users.xml"
#: Users of ClickHouse whose hashes stand in USERS_FILE, and the files of their passwords.
READERS: Final = {
    "trainfare_reader": "clickhouse_reader_password",
    "grafana": "clickhouse_grafana_password",
}
_BYTES: Final = 32
_MAX_BYTES: Final = 4096
# The services run as users of their own, and compose mounts a file with the mode that it has here.  What keeps other
# users of this machine away is the folder, which is 0700.
_MODE: Final = 0o444


def make(folder: Path) -> list[str]:
    """Make the missing secrets, and the hashes for ClickHouse; return the names of those that were made.

    Raises:
        SinkError: the folder or a file in it is a link, of another user, or may be written by others.
    """
    make_private_dir(folder)
    made = []
    values: dict[str, str] = {}
    for name in NAMES:
        found = read_private(folder / name, _MAX_BYTES)
        if found is None:
            found = secrets.token_urlsafe(_BYTES).encode()
            _write(folder / name, found)
            made.append(name)
        values[name] = found.decode().strip()
    _write(folder / USERS_FILE, users_of(values).encode())
    return made


def users_of(values: dict[str, str]) -> str:
    """The part of ClickHouse's users that says by which password each reader is known: its hash."""
    hashes = {user: hashlib.sha256(values[name].encode()).hexdigest() for user, name in READERS.items()}
    users = "".join(
        f"<{user}><password_sha256_hex>{digest}</password_sha256_hex></{user}>"
        for user, digest in hashes.items()
    )
    return f"<clickhouse><users>{users}</users></clickhouse>\n"


def _write(path: Path, data: bytes) -> None:
    write_private(path, data)
    path.chmod(_MODE)


def main(folder: Path = FOLDER) -> int:
    """Make what is missing and say so; return the exit code."""
    os.umask(0o077)
    try:
        made = make(folder)
    except (SinkError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"make_secrets: {error}\n")
        return 1
    if made:
        sys.stdout.write(f"== made in {folder}: {', '.join(made)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
