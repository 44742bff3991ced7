"""The settings of the log of `trainfare serve`, of signing in and of what is sealed at rest; part of `streams.config.settings`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator

from schemas.canary_proof import KEY_MIN_CHARS
from schemas.durations import HOUR_MS
from streams.config.confirmers import checked
from streams.config.live import Group, is_loopback, link_base

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}", re.ASCII)


class ServeSettings(Group):
    """How long `trainfare serve` keeps its log. Only what is in the store's snapshots is dropped, by whole files of up to 64 MiB or a day."""

    retention_days: int = Field(
        default=30,
        ge=0,
        le=36_500,
        description="Events are dropped so many days after they were taken; `0`: never. Prices and controls stay.",
    )
    retention_bytes: int = Field(
        default=20 * 2**30,
        ge=0,
        description="The oldest events are dropped when the log is larger; `0`: never.",
    )


class AtRestSettings(Group):
    """Seals addresses in the log and secrets of a data directory."""

    key: SecretStr | None = Field(
        default=None,
        description="Seals addresses in what `publish` and `apply` write, and `token`, `canary_key` and `closing_key` of a data directory; workers, "
        "and commands with `--data`, open them. At least 32 characters, e.g. of `openssl rand -hex 32`. Several keys are separated by spaces or lines: the first seals, all open. Without one addresses are "
        "kept as they come.",
    )

    @property
    def keys(self) -> str | None:
        """The keys as text, for those who make them."""
        return None if self.key is None else self.key.get_secret_value()

    @field_validator("key")
    @classmethod
    def _hard_to_guess(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and min(map(len, key.get_secret_value().split()), default=0) < KEY_MIN_CHARS:
            raise ValueError(
                f"expected keys of at least {KEY_MIN_CHARS} characters, e.g. of `openssl rand -hex 32`"
            )
        return key


class SecondPersonSettings(Group):
    """Who gets requests."""

    confirmers: Annotated[str, AfterValidator(checked)] = Field(
        default="",
        max_length=4_096,
        description="Who is sent a message with a link: owners, or `team/NAME` for what names that team, separated by commas. "
        "`grace=token/grace`: whoever opens the link is that issued token; else the page asks who it is.",
    )


class SignInSettings(Group):
    """How people sign in: by OpenID Connect, or by a proxy before the worker that has signed them in."""

    issuer: str = Field(
        default="",
        description="The identity provider, as its tokens name it, e.g. https://id.example.com/realms/ml. Needs `client_id`, `roles_file` "
        "and an https `web.public_url`, whose `/sign_in/callback` the provider must know.",
    )
    client_id: str = Field(
        default="", max_length=256, description="The name of this worker at the identity provider."
    )
    client_secret: SecretStr | None = Field(
        default=None, description="Its secret there; without one, PKCE alone proves who redeems a code."
    )
    scopes: str = Field(
        default="openid profile email",
        pattern=r"^openid( [!#-\[\]-~]+)*$",
        max_length=1_000,
        description="What is asked of the provider; some need one more for groups, e.g. `openid email groups`.",
    )
    groups_claim: str = Field(
        default="groups",
        min_length=1,
        max_length=128,
        description="The claim of the id token that lists the groups of a person.",
    )
    name_claim: str = Field(
        default="email",
        min_length=1,
        max_length=128,
        description="The claim by which records name a person; an address counts if `email_verified` says so, else it is `sub`.",
    )
    recheck_ms: int = Field(
        default=300_000,
        ge=0,
        le=HOUR_MS,
        description="How often the provider is asked again about each person who is signed in, so that another group or a disabled "
        "account takes effect; by refresh token, else by userinfo. 0: at each sign-in alone.",
    )
    roles_file: Path | None = Field(
        default=None, description="TOML: which group has which role; read at start."
    )
    ca_location: Path | None = Field(
        default=None,
        description="File with the certificates of the provider's authority (PEM), if it is your own.",
    )
    proxy_secret: SecretStr | None = Field(
        default=None,
        description="What a proxy that has signed people in shows with each request, at least 32 characters; only with it are the "
        "headers of users and groups believed. The proxy must take these headers out of what it is sent.",
    )
    proxy_secret_header: str = Field(
        default="X-Trainfare-Proxy-Secret", description="The header that the proxy shows its secret in."
    )
    proxy_user_header: str = Field(default="X-Forwarded-Email", description="The header that names the user.")
    proxy_groups_header: str = Field(
        default="X-Forwarded-Groups",
        description="The header that lists the user's groups, separated by commas.",
    )

    @property
    def is_on(self) -> bool:
        """Whether people sign in at all."""
        return bool(self.issuer) or self.proxy_secret is not None

    @field_validator("issuer")
    @classmethod
    def _issuer(cls, text: str) -> str:
        split = urlsplit(text)
        is_plain = split.scheme == "http" and not is_loopback(split.hostname or "")
        if is_plain or (text and not link_base(text)):
            raise ValueError("expected an https address like https://id.example.com/realms/ml")
        return text

    @field_validator("proxy_secret")
    @classmethod
    def _hard_to_guess(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value()) < KEY_MIN_CHARS:
            raise ValueError(f"expected at least {KEY_MIN_CHARS} characters, e.g. of `openssl rand -hex 32`")
        return secret

    @field_validator("proxy_secret_header", "proxy_user_header", "proxy_groups_header")
    @classmethod
    def _header(cls, name: str) -> str:
        if not _HEADER.fullmatch(name):
            raise ValueError("expected the name of a header, like X-Forwarded-Email")
        return name
