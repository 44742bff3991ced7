"""The consumer group: one member at a time, its generation, and the offsets that it has committed.

Generations only grow, over restarts too: rows that a worker writes carry them. Offsets say what retention may
drop; older ones than the last are safe.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Final

import msgspec

from sinks.errors import SinkError
from sinks.private_files import read_private, write_private
from streams.segmented_log.errors import LogError
from streams.segmented_log.frames import Place

logger = logging.getLogger(__name__)

FILE_NAME: Final = "group.json"
_FILE_MAX_BYTES: Final = 2**22
_SAVE_EVERY_MS: Final = 10_000


class UnknownMemberError(Exception):
    """The member has left, or another one has joined since."""


class IllegalGenerationError(Exception):
    """The member is of an earlier generation."""


class _GroupState(msgspec.Struct):
    generation: int = 0
    offsets: dict[str, dict[int, int]] = {}


class ConsumerGroup:
    """The group of one log.

    Args:
        directory: Of its file.

    Raises:
        LogError: The file cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        try:
            stored = read_private(self._path, _FILE_MAX_BYTES)
            self._state = _GroupState() if stored is None else msgspec.json.decode(stored, type=_GroupState)
        except (msgspec.MsgspecError, SinkError) as fault:
            raise LogError(
                f"{self._path} cannot be read: {fault}; remove it: offsets are kept in the store"
            ) from None
        self._saved_ms: int | None = None
        self._member = ""
        self._assignment = b""

    @property
    def generation(self) -> int:
        """The generation of the newest join."""
        return self._state.generation

    def join(self) -> str:
        """The id of a new member, who replaces the one before.

        Raises:
            SinkError: The generation cannot be stored.
        """
        generation = self._state.generation + 1
        self._save(_GroupState(generation, self._state.offsets))
        self._member = f"member-{secrets.token_hex(8)}"
        self._state.generation, self._assignment = generation, b""
        return self._member

    def sync(self, member: str, generation: int, assignment: bytes | None) -> bytes:
        """Keep the member's own assignment, and return it.

        Raises:
            UnknownMemberError, IllegalGenerationError: It is not the newest member.
        """
        self.check(member, generation)
        if assignment is not None:
            self._assignment = assignment
        return self._assignment

    def check(self, member: str, generation: int) -> None:
        """Check that this is the newest member.

        Raises:
            UnknownMemberError, IllegalGenerationError: It is not.
        """
        if member != self._member:
            raise UnknownMemberError
        if generation != self._state.generation:
            raise IllegalGenerationError

    def leave(self, member: str) -> None:
        """Remove the member."""
        if member == self._member:
            self._member = ""

    def commit(self, offsets: dict[Place, int], now_ms: int) -> None:
        """Take committed offsets; they are stored every ten seconds of `now_ms`, a monotonic clock."""
        for (topic, partition), offset in offsets.items():
            self._state.offsets.setdefault(topic, {})[partition] = offset
        if self._saved_ms is None or now_ms - self._saved_ms >= _SAVE_EVERY_MS:
            self._saved_ms = now_ms
            self.save()

    def committed(self, place: Place) -> int | None:
        """The committed offset of a partition; None: there is none."""
        return self._state.offsets.get(place[0], {}).get(place[1])

    def save(self) -> None:
        """Store the offsets; without room the older ones stay."""
        try:
            self._save(self._state)
        except SinkError as fault:
            logger.info("committed offsets are not stored", extra={"reason": str(fault)})

    def _save(self, state: _GroupState) -> None:
        write_private(self._path, msgspec.json.encode(state))
