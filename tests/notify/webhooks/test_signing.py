"""Our signatures, judged by the reference library of Standard Webhooks."""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from streams.notify.webhooks.signing import Signer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"type":"alert.firing","data":{"summary":"größer"}}'.encode()


def headers() -> dict[str, str]:
    return Signer(SECRET).headers("msg_1", BODY, time.time_ns() // 1_000_000)


def test_the_library_accepts_headers_and_body() -> None:
    assert Webhook(SECRET).verify(BODY, headers())["type"] == "alert.firing"


def test_a_known_signature() -> None:
    signed = Signer(SECRET).headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1_614_265_330_999
    )
    # The example of the specification's test vectors.
    assert signed == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("at", range(0, len(BODY), 7))
def test_a_changed_byte_of_the_body_is_found(at: int) -> None:
    changed = bytearray(BODY)
    changed[at] ^= 1
    with pytest.raises((WebhookVerificationError, UnicodeDecodeError)):
        Webhook(SECRET).verify(bytes(changed), headers())


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_a_changed_header_is_found(name: str) -> None:
    changed = headers()
    changed[name] = changed[name][:-1] + str((int(changed[name][-1]) + 1) % 10)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY, changed)


def test_another_secret_is_found() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "B" * 32).verify(BODY, headers())


def test_a_signer_does_not_show_its_secret() -> None:
    assert "MfKQ" not in repr(Signer(SECRET))
