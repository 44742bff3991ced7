"""Asks the identity provider again about each person who is signed in, so that another group or a disabled account takes effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streams.config.serving import SignInSettings
from streams.web.errors import ApiError
from streams.web.sign_in.people import People, groups_of
from streams.web.sign_in.sessions import PROVIDER_AWAY_MS, PersonSession, SignInError

if TYPE_CHECKING:
    from streams.web.sign_in.provider import Provider

logger = logging.getLogger(__name__)

EVERY_S: Final = 5.0
_AT_ONCE: Final = 4


class SessionRecheck:
    """Asks of those sessions that are due."""

    def __init__(
        self, settings: SignInSettings, people: People, provider: Provider, wall_ms: Callable[[], int]
    ) -> None:
        self._settings, self._people, self._provider = settings, people, provider
        self._wall_ms = wall_ms
        self._is_away = False
        self._one = asyncio.Lock()

    async def keep_asking(self) -> None:
        """Ask every few seconds."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.ask()
            except Exception:  # a session that is not asked about ends by itself
                logger.exception(
                    "people were not asked about", extra={"runbook": "docs/trouble.md#internal-fault"}
                )

    async def ask(self) -> None:
        """Ask of each session that is due; if the provider does not answer, the others wait for the next time."""
        async with self._one:  # a refresh token may be good once
            due = self._people.sessions.due(self._wall_ms())
            for at in range(0, len(due), _AT_ONCE):
                answered = await asyncio.gather(*(self._ask_of(each) for each in due[at : at + _AT_ONCE]))
                if not all(answered):
                    return

    async def _ask_of(self, session: PersonSession) -> bool:
        """Whether the provider answered."""
        people, now_ms, person = self._people, self._wall_ms(), session.person
        try:
            claims, renewal = await self._provider.claims_now(
                person.subject, session.renewal, now_ms // 1_000
            )
            # The name stays: it is by what records, and the check for a second person, know this session.
            groups = groups_of(claims, self._settings.groups_claim)
            granted = people.person(person.subject, person.name, groups).granted
        except (SignInError, ApiError) as fault:
            if fault.code == "provider":
                self._note_away(session, fault)
                return False
            people.sessions.end(session.hashed)
            logger.warning(
                "session ended: the identity provider does not vouch for it any more",
                extra={
                    "person": person.name,
                    "reason": str(fault),
                    "runbook": "docs/sign_in.md#changed-groups",
                },
            )
            return True
        self._is_away = False
        people.sessions.vouched(session.hashed, granted, renewal, self._wall_ms())
        if granted != person.granted:
            extra = {"person": person.name, "roles": ", ".join(sorted(granted.roles))}
            logger.info("another role of somebody who is signed in", extra=extra)
        return True

    def _note_away(self, session: PersonSession, fault: Exception) -> None:
        self._people.sessions.not_answered(session.hashed, self._wall_ms())
        if not self._is_away:
            logger.warning(
                "the identity provider does not say who is signed in; sessions go on",
                extra={
                    "reason": str(fault),
                    "end_after_ms": PROVIDER_AWAY_MS,
                    "runbook": "docs/sign_in.md#changed-groups",
                },
            )
        self._is_away = True
