"""A Slurm as its commands answer, in the form of 22.05.8; each test says what is odd about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streams.collect.collector import SourceUnavailableError


def node(name: str, gres: str = "gpu:h100:4", partitions: Sequence[str] = ("batch",)) -> dict[str, Any]:
    return {"name": name, "gres": gres, "partitions": list(partitions), "state": "idle", "state_flags": []}


class SlurmSite:
    """The answers by command."""

    def __init__(
        self,
        *nodes: dict[str, Any],
        version: str = "slurm-wlm 22.05.8",
        tracked: str = "cpu,mem,gres/gpu,gres/gpu:h100",
        accounts: str = "nlp\nvision\n",
        accounting: str = "accounting_storage/slurmdbd",
        private: str = "none",
        cluster: str = "quick",
    ) -> None:
        config = (
            "Configuration data as of 2026-11-28T17:00:00\n"
            f"AccountingStorageTRES   = {tracked}\nAccountingStorageType   = {accounting}\n"
            f"ClusterName             = {cluster}\nPrivateData             = {private}\n"
        )
        listing = json.dumps({"meta": {}, "errors": [], "nodes": list(nodes or (node("n1"), node("n2")))})
        self.answers = {
            "sinfo --version": f"{version}\n",
            "sinfo --json": listing,
            "scontrol show config": config,
            "scontrol show nodes --json": listing,
            "sacctmgr --noheader --parsable2 list account format=Account": accounts,
            "sacct": "",
        }
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        words = " ".join(command)
        self.asked.append(words)
        for known, answer in self.answers.items():
            if words == known or (known == "sacct" and command[0] == "sacct"):
                return answer.encode()
        raise SourceUnavailableError(f"{command[0]} failed (1): no answer to {words}")

    def programs(self, folder: Path) -> Path:
        """Write programs that answer so, and return the folder for PATH."""
        folder.mkdir()
        for name in {words.split()[0] for words in self.answers}:
            cases = []
            for number, (words, answer) in enumerate(self.answers.items()):
                if words.split()[0] == name:
                    text = folder / f"{name}.{number}"
                    text.write_text(answer)
                    pattern = "*" if words == "sacct" else f'"{words.partition(" ")[2]}"'
                    cases.append(f"{pattern}) exec cat '{text}' ;;")
            program = folder / name
            program.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\n*) exit 1 ;;\nesac\n")
            program.chmod(0o755)
        return folder
