"""Serves the result of a worker's last audit."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web

from streams.selfcheck.audit.text import as_object, as_text
from streams.selfcheck.audit.verdict import Verdict
from streams.web.errors import ApiError


class LastAudit(NamedTuple):
    """The result of the last audit, and the meter's clock now; None: there was none yet."""

    verdict: Verdict | None = None
    now_ms: int = 0

    def json(self) -> dict[str, Any]:
        """The verdict and its age."""
        verdict = self._known()
        return {"age_ms": self._age_ms(verdict), **as_object(verdict)}

    def shown(self) -> dict[str, Any] | None:
        """The same; None before the first audit."""
        return None if self.verdict is None else self.json()

    def text(self) -> web.Response:
        """The same as text; 503 if a check fails, so that `curl -f` and probes see it."""
        verdict = self._known()
        text = as_text(verdict, self._age_ms(verdict) // 1000)
        return web.Response(text=text, status=200 if verdict.ok else 503)

    def _age_ms(self, verdict: Verdict) -> int:
        return max(self.now_ms - verdict.as_of_ms, 0)

    def _known(self) -> Verdict:
        if self.verdict is None:
            raise ApiError(
                503,
                "this worker has not audited its books yet; the first look is 30 s after its start",
                "starting",
            )
        return self.verdict
