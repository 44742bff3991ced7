"""An example receiver of signed webhooks: it verifies each message, and passes it on once."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

PATH: Final = "/alerts"
_BODY_BYTES_AT_MOST: Final = 64 * 1024
_IDS_REMEMBERED: Final = 10_000


class Received(NamedTuple):
    """A message with a verified signature."""

    webhook_id: str
    type: str
    timestamp: str
    data: dict[str, Any]


class WebhookReceiver:
    """Listens on loopback; `on_message` is called once per webhook id, and again only if it raised."""

    def __init__(self, secret: str, on_message: Callable[[Received], object], port: int = 0) -> None:
        self._webhook = Webhook(secret)
        self._on_message = on_message
        self._port = port
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._runner: web.AppRunner | None = None
        self.repeated = 0  # repeated messages
        self.refused = 0  # messages with an invalid signature

    @property
    def host_port(self) -> str:
        """Where it listens, for `alerts.allow_hosts`: it is private and plain http."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The address to send to."""
        return f"http://{self.host_port}{PATH}"

    async def start(self) -> None:
        """Start listening; port 0 takes any free port."""
        app = web.Application(client_max_size=_BODY_BYTES_AT_MOST)
        app.router.add_post(PATH, self._receive)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            # Bad base64, UTF-8 or JSON is a ValueError.
            message = self._webhook.verify(body, dict(request.headers))
        except (WebhookVerificationError, ValueError):
            self.refused += 1
            return web.Response(status=401, text="the signature does not fit\n")
        webhook_id = request.headers["webhook-id"]
        if webhook_id in self._seen:
            self.repeated += 1
            return web.Response(status=204)
        try:
            received = Received(webhook_id, message["type"], message["timestamp"], message["data"])
        except (TypeError, KeyError):
            return web.Response(status=400, text="expected type, timestamp and data\n")
        self._on_message(received)
        self._seen[webhook_id] = None
        if len(self._seen) > _IDS_REMEMBERED:
            self._seen.popitem(last=False)
        return web.Response(status=204)
