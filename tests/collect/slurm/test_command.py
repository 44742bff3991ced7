"""Commands are run as lists, with limits of time and size, and see no secrets."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from streams.collect.collector import SourceUnavailableError
from streams.collect.command import answer_of


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def answer(code: str, *, timeout_s: float = 60, bytes_at_most: int = 2**20) -> bytes:
    return answer_of(python(code), timeout_s=timeout_s, bytes_at_most=bytes_at_most)


def test_the_answer_is_what_it_prints_and_not_what_it_says_beside() -> None:
    assert answer("import sys; sys.stderr.write('x' * 10**6); print('{}')") == b"{}\n"


def test_arguments_are_no_shell() -> None:
    said = answer_of(
        [*python("import sys; print(sys.argv[1])"), "$(id); `id`"], timeout_s=60, bytes_at_most=99
    )
    assert said == b"$(id); `id`\n"


def test_a_failure_is_said_with_what_it_wrote() -> None:
    with pytest.raises(SourceUnavailableError, match=r"failed \(3\): no \\x1b\[2J controller$"):
        answer("import sys; sys.stderr.write('no \\x1b[2J controller\\n'); sys.exit(3)")


def test_a_failure_is_said_where_the_answer_should_be() -> None:
    """nvidia-smi says so on its standard output that it has no driver."""
    with pytest.raises(SourceUnavailableError, match=r"failed \(9\): NVIDIA-SMI has failed$"):
        answer("import sys; print('NVIDIA-SMI has failed'); sys.exit(9)")


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(
        SourceUnavailableError, match=r"^/no/squeue: No such file or directory; name a command"
    ):
        answer_of(["/no/squeue"], timeout_s=1, bytes_at_most=1)


def test_too_much_is_refused_before_it_is_all_read() -> None:
    with pytest.raises(SourceUnavailableError, match="answered more than 1000000 bytes"):
        answer("while True: print('x' * 10**5)", bytes_at_most=10**6)


def test_what_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(told)!r}, 'w').write(str(child.pid))\n"
        "child.wait()"
    )
    with pytest.raises(SourceUnavailableError, match="took longer than 2 s"):
        answer(code, timeout_s=2)
    if told.exists():  # a busy machine may not have come so far
        assert _has_ended(int(told.read_text()))


def _has_ended(pid: int) -> bool:
    """Whether a child of a child is gone, or waits for init to take it; a kill takes a moment to arrive."""
    for _ in range(1000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return False


def test_secrets_of_ours_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_WEB_WRITE_TOKEN", "secret")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    said = answer("import os; print(os.environ.get('TRAINFARE_WEB_WRITE_TOKEN'), os.environ['SLURM_CONF'])")
    assert said == b"None /etc/slurm/other.conf\n"
