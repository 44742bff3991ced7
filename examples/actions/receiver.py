"""An example receiver of `action.requested`: it verifies the signature and runs a command of a list, on Slurm or Kubernetes.

    export ACTIONS_SECRET=whsec_...
    python examples/actions/receiver.py slurm --port 8900

Commands are lists of arguments that never pass through a shell; a job id that does not look like one of the system is
refused. A key that was handled is answered and not handled again, also after a restart (`--state FILE`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

BODY_BYTES_MAX = 64 * 1024
COMMAND_S = 30
#: What may be run, by system and action; {job} is the job. An action that is missing is refused.
COMMANDS: dict[str, dict[str, list[str]]] = {
    "slurm": {
        "checkpoint": ["scancel", "--signal=USR1", "--batch", "{job}"],  # your job script checkpoints on USR1
        "suspend": ["scontrol", "suspend", "{job}"],
        "stop": ["scancel", "{job}"],
    },
    "kubernetes": {
        "checkpoint": [
            "kubectl",
            "annotate",
            "--overwrite",
            "job",
            "{job}",
            "trainfare/checkpoint=requested",
        ],
        "suspend": [
            "kubectl",
            "patch",
            "job",
            "{job}",
            "--type=merge",
            "--patch",
            '{"spec":{"suspend":true}}',
        ],
        "stop": ["kubectl", "delete", "job", "{job}", "--wait=false"],
    },
}
#: What a job of each system is called; a job id may have a prefix such as `slurm/main/`.
JOBS: dict[str, re.Pattern[str]] = {
    "slurm": re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?", re.ASCII),
    "kubernetes": re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII),
}


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The request is not carried out; the text says why."""


def command_of(system: str, data: dict[str, Any]) -> list[str] | None:
    """Return the command for a request; None: there is nothing to do for a notice.

    Raises:
        Refused: The action or the job is none that may be acted on.
    """
    if data["action"] == "notify":
        return None
    words = COMMANDS[system].get(data["action"])
    if words is None:
        raise Refused(f"action {data['action']!r} is not in the list")
    name = str(data["job"]["job_id"]).rpartition("/")[2]
    if not JOBS[system].fullmatch(name):
        raise Refused(f"{name!r} is no job of {system}")
    return [name if word == "{job}" else word for word in words]


class Handled:
    """Keys that were handled: one line each in a file, whose folder must exist.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._keys: set[str] = set()
        if path is not None:
            path.touch()  # fails now, not once a command was run
            self._keys = set(path.read_text().split())
        self.lock = Lock()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember a key."""
        self._keys.add(key)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{key}\n")
                file.flush()
                os.fsync(file.fileno())


def handle(
    system: str, webhook: Webhook, handled: Handled, headers: dict[str, str], body: bytes
) -> tuple[int, str]:
    """Return the status and text of the answer: 2xx where the action was taken, now or earlier."""
    try:
        message = webhook.verify(body, headers)
        if message["type"] != "action.requested":
            return 204, ""
        data = message["data"]
        key = str(data["idempotency_key"])
        command = command_of(system, data)
    except (WebhookVerificationError, ValueError):
        return 401, "the signature does not fit"
    except (KeyError, TypeError):
        return 400, "expected a message of trainfare"
    except Refused as refused:
        return 422, str(refused)
    with handled.lock:  # one after the other: the same key may come twice at once
        if key in handled:
            return 200, "done before"
        if command is not None:
            try:
                done = subprocess.run(command, check=False, capture_output=True, timeout=COMMAND_S, text=True)
            except (OSError, subprocess.TimeoutExpired) as fault:
                return 503, f"{command[0]}: {type(fault).__name__}"
            if done.returncode:
                return 503, f"{command[0]} ended with {done.returncode}: {done.stderr[:200]}"
        handled.add(key)
    sys.stderr.write(json.dumps({"key": key, "job": data["job"]["job_id"], "command": command}) + "\n")
    return 200, "done"


def server(system: str, secret: str, host: str, port: int, state: Path | None) -> ThreadingHTTPServer:
    """Return a server that is not started."""
    webhook, handled = Webhook(secret), Handled(state)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
                self._answer(413, "too long")
                return
            body = self.rfile.read(int(length))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._answer(*handle(system, webhook, handled, headers, body))

        def _answer(self, status: int, text: str) -> None:
            data = (text + "\n").encode() if text else b""
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    return ThreadingHTTPServer((host, port), Handler)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("system", choices=sorted(COMMANDS))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--state", type=Path, help="File of the keys that were handled.")
    given = parser.parse_args()
    secret = os.environ.get("ACTIONS_SECRET", "")
    if not secret:
        parser.error("set ACTIONS_SECRET to the worker's actions.webhook_secret")
    with server(given.system, secret, given.host, given.port, given.state) as serving:
        sys.stderr.write(f"listening on {given.host}:{serving.server_port}\n")
        serving.serve_forever()


if __name__ == "__main__":
    main()
