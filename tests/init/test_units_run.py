"""The units that `trainfare init` writes, run by a real systemd with what they confine: it boots in a container over this machine's files.

Needs root, systemd-nspawn (Debian: systemd-container) and an overlay; nothing of the machine is changed but what the overlay holds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.init.slurm_site import SlurmSite
from tests.meta.tree import ROOT

_HERE = "/srv/live"
_USER = "meter"
_UNITS = ("trainfare", "trainfare-collect-slurm")
#: It asks until the meter answers, looks at how it runs, kills it, asks again, stops it, and turns the machine off.
_CHECK = f"""\
exec > /srv/check 2>&1
ready() {{
    for _ in $(seq 400); do
        {sys.executable} -c 'import urllib.request as r; r.urlopen("http://127.0.0.1:8787/readyz", timeout=5)' 2>/dev/null && return
        systemctl is-failed --quiet trainfare && break
        sleep 0.5
    done
    echo "not ready"
}}
ready
pid=$(systemctl show -P MainPID trainfare)
echo "user $(stat -c %U /proc/$pid)"
grep NoNewPrivs /proc/$pid/status
find {_HERE} -newer /srv/began -type f -perm /077 | sed 's/^/others may read /'
for place in /usr /etc /boot {_HERE}; do
    nsenter --target $pid --mount -- touch $place/written 2>/dev/null && echo "may write $place" || echo "may not write $place"
done
kill -9 $pid
while [ "$(systemctl show -P NRestarts trainfare)" = 0 ]; do sleep 0.5; done
ready
echo "restarts $(systemctl show -P NRestarts trainfare)"
for unit in {" ".join(_UNITS)}; do
    echo "$unit is $(systemctl is-active $unit)"
    systemctl stop $unit
    echo "$unit ended $(systemctl show -P Result $unit) $(systemctl show -P ExecMainStatus $unit)"
done
journalctl --output cat --unit trainfare --unit trainfare-collect-slurm > /srv/journal
systemctl poweroff --no-block 2>/srv/poweroff
"""


def _why_not() -> str | None:
    lacking = [each for each in ("systemd-nspawn", "useradd", "nsenter") if shutil.which(each) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    if os.geteuid():
        return "only root may start a container"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return None if tried.returncode == 0 else "this machine lets nobody make a container"


_REASON = _why_not()
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(_REASON is not None, reason=str(_REASON)),
]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """The root of a machine that has all files of this one, and keeps its own changes."""
    root, changes = tmp_path / "root", tmp_path / "changes"
    root.mkdir()
    changes.mkdir()
    # An overlay's changes cannot lie in what is below it.
    subprocess.run(["mount", "-t", "tmpfs", "changes", str(changes)], check=True)
    try:
        for name in ("upper", "work"):
            (changes / name).mkdir()
        layers = f"lowerdir=/,upperdir={changes}/upper,workdir={changes}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root)], check=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", str(root)], check=True)
    finally:
        subprocess.run(["umount", str(changes)], check=True)


#: A container that is known to no other service of this machine, and has no network but its own.
_NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network")


def in_machine(root: Path, *words: str, user: str = "root") -> None:
    command = [*_NSPAWN, "--pipe", f"--directory={root}", f"--user={user}", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_start_confined_restart_and_end(machine: Path) -> None:
    in_machine(machine, "/usr/sbin/useradd", "--system", "--shell", "/usr/sbin/nologin", _USER)
    for each in Path(sys.executable).resolve().parents:
        if each != Path("/"):  # a Python in a home is reached by its user alone
            (machine / each.relative_to("/")).chmod(0o755)
    in_machine(machine, "/usr/bin/install", "--directory", "--owner", _USER, _HERE)
    programs = SlurmSite().programs(machine / "srv/bin")
    programs.chmod(0o755)
    for each in programs.iterdir():
        each.write_text(each.read_text().replace(str(machine), ""))
        each.chmod(0o755)
    path = f"/srv/bin:{ROOT / '.venv/bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
    init = ("init", "slurm", "--yes", "--no-start", "--price", "h100=3.60", "--dir", _HERE)
    program = str(ROOT / ".venv/bin/trainfare")
    in_machine(machine, "/usr/bin/env", f"PATH={path}", program, *init, user=_USER)
    units = machine / "etc/systemd/system"
    for name in _UNITS:
        text = (machine / f"srv/live/systemd/{name}.service").read_text()
        assert f"User={_USER}\n" in text
        (units / f"{name}.service").write_text(text)
    (machine / "srv/check.sh").write_text(_CHECK)
    (machine / "srv/began").touch()
    wanted = " ".join(f"{name}.service" for name in _UNITS)
    (units / "check.service").write_text(
        f"[Unit]\nWants={wanted}\n[Service]\nType=oneshot\nTimeoutStartSec=900\nExecStart=/bin/bash /srv/check.sh\n"
    )
    booted = subprocess.run(
        [*_NSPAWN, f"--directory={machine}", "--boot", "systemd.unit=check.service"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1_200,
    )  # fmt: skip
    assert (machine / "srv/check").exists(), booted.stdout + booted.stderr
    found = (machine / "srv/check").read_text().splitlines()
    journal = (machine / "srv/journal").read_text() if (machine / "srv/journal").exists() else ""
    assert found == [  # its files are for its user alone: none is named here
        f"user {_USER}",
        "NoNewPrivs:\t1",
        "may not write /usr",
        "may not write /etc",
        "may not write /boot",
        f"may write {_HERE}",
        "restarts 1",
        "trainfare is active",
        "trainfare ended success 0",
        "trainfare-collect-slurm is active",
        "trainfare-collect-slurm ended success 0",
    ], [*found, journal[-4_000:]]
    assert "Traceback" not in journal
