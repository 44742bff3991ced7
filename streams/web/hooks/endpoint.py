"""POST /api/v1/hooks/github and /gitlab: takes signed messages of CI systems as events of jobs.

They are open to whoever knows the secret of their setting, and to nobody without one. It must not parse what is not signed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web
from pydantic import SecretStr

from schemas.escaping import visible
from streams.accounts.causes import REMEDIES
from streams.ci.jobs import CiGpus, CiJob, UnmeteredJob, events_of, left_out
from streams.config.live import CiSettings, gpus_by_name
from streams.topics import Topic
from streams.web.errors import ApiError
from streams.web.hooks import github, gitlab
from streams.web.http_protocol import trust
from streams.web.ingest import IN_FLIGHT_MAX_BYTES, IngestEndpoint, JudgedEvents
from streams.web.ingest_body import PLAIN, RefusedEvent
from streams.web.scopes import Caller

logger = logging.getLogger(__name__)

#: Of the memory of all webhooks: whoever knows no secret may send a body from behind the same proxy, too.
_ADDRESS_SHARE_BYTES: Final = IN_FLIGHT_MAX_BYTES // 2
_NO_HEADERS: Final[dict[str, str]] = {}


class HookEndpoint:
    """The endpoints of one server.

    Args:
        settings: Secrets, and which runners have which GPUs.
        ingest: Where events go, and whose limits hold.
        refuse: Counts a wrong secret of an address, and raises what answers it.
    """

    def __init__(
        self, settings: CiSettings, ingest: IngestEndpoint, refuse: Callable[[str, str], ApiError]
    ) -> None:
        self._settings = settings
        self._ingest = ingest
        self._refuse = refuse
        #: Apart from those of tokens: whoever knows no secret must not keep events of others out.
        self._sender = ingest.sender(_ADDRESS_SHARE_BYTES)
        self._logged: set[str] = set()
        self._gpus = {name: CiGpus(*each) for name, each in gpus_by_name(settings.runner_gpus).items()}

    async def github(self, request: web.Request, caller: Caller) -> web.Response:
        """Take a message of GitHub.

        Raises:
            ApiError: It is not signed, or none; or it may not be in Kafka.
        """
        secret = _secret(self._settings.github_secret, "ci.github_secret")

        def check(body: bytes) -> None:
            if not github.is_signed(request.headers, body, secret):
                raise self._refuse(caller.address, "X-Hub-Signature-256 is not that of ci.github_secret")
            self._let_in(request, caller)

        return await self._take(request, caller, check, lambda body: github.job_of(request.headers, body))

    async def gitlab(self, request: web.Request, caller: Caller) -> web.Response:
        """Take a message of GitLab.

        Raises:
            ApiError: Its token is wrong, or it is none; or it may not be in Kafka.
        """
        secret = _secret(self._settings.gitlab_token, "ci.gitlab_token")
        if not gitlab.has_token(request.headers, secret):  # before a byte of the body is read
            raise self._refuse(caller.address, "X-Gitlab-Token is not ci.gitlab_token")
        self._let_in(request, caller)
        return await self._take(
            request, caller, lambda _: None, lambda body: gitlab.job_of(request.headers, body)
        )

    def _let_in(self, request: web.Request, caller: Caller) -> None:
        """Treat a client as one that is known; only now does it count, so that others do not use up its requests."""
        trust(request)
        self._ingest.check_rate(f"hooks {caller.address}")

    async def _take(
        self,
        request: web.Request,
        caller: Caller,
        check: Callable[[bytes], None],
        job_of: Callable[[bytes], CiJob | None],
    ) -> web.Response:
        if request.content_type != PLAIN:
            raise ApiError(415, f"send {PLAIN}: set the content type of the webhook")

        async def judge(body: bytes) -> JudgedEvents:
            try:
                job = job_of(body)
            except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                raise ApiError(400, visible(f"expected a message of a job: {fault}"[:500])) from None
            why = None if job is None else left_out(job, self._gpus)
            if why is not None:
                return JudgedEvents([], [self._refused(why)])
            events = [] if job is None else list(events_of(job, self._gpus))
            raw = [msgspec.Raw(msgspec.json.encode(event)) for event in events]
            return await self._ingest.judged(raw, Topic.JOBS, PLAIN, _NO_HEADERS)

        return await self._ingest.take(request, self._sender, caller.address, judge, check)

    def _refused(self, why: UnmeteredJob) -> RefusedEvent:
        """Refuse a job that means GPUs and is not understood; the log has the first one of each reason."""
        remedy = REMEDIES[why.reason]
        if why.reason not in self._logged:
            self._logged.add(why.reason)
            logger.warning(
                "a webhook of a job is not understood, nothing of it is metered",
                extra={
                    "reason": why.reason,
                    "said": why.said,
                    "remedy": remedy,
                    "runbook": "docs/sources.md#what-becomes-of-each-entry",
                },
            )
        return RefusedEvent(0, why.reason, "", f"{why.said}; {remedy}"[:500])


def _secret(setting: SecretStr | None, name: str) -> str:
    if setting is None:
        raise ApiError(403, f"this worker takes no such webhooks; set {name}", "hooks_off")
    return setting.get_secret_value()
