"""Makes the notifier's options from the settings."""

from __future__ import annotations

from streams.config.live import AlertSettings
from streams.config.settings import Settings
from streams.notify.act_links import ActLinks
from streams.notify.links import Links
from streams.notify.mailer import SmtpOptions
from streams.notify.options import NotifierOptions


def _smtp_options(alerts: AlertSettings) -> SmtpOptions | None:
    if not alerts.smtp_host:
        return None
    host, port = alerts.smtp_host_port
    return SmtpOptions(
        host=host,
        port=port,
        sender=alerts.smtp_from,
        security=alerts.smtp_security,
        user=alerts.smtp_user,
        password="" if alerts.smtp_password is None else alerts.smtp_password.get_secret_value(),
        ca_file=alerts.smtp_ca_location,
        domains=frozenset(part.strip().lower() for part in alerts.email_domains.split(",") if part.strip()),
    )


def links_of(settings: Settings) -> Links:
    """What links begin with."""
    key = settings.web.act_link_key
    signed = None if key is None else ActLinks(key.get_secret_value())
    return Links(settings.web.public_url, settings.alerts.docs_url, signed)


def notifier_options(settings: Settings) -> NotifierOptions:
    """The notifier's part of the settings."""
    alerts = settings.alerts
    return NotifierOptions(
        webhook_secret=None if alerts.webhook_secret is None else alerts.webhook_secret.get_secret_value(),
        owner_secrets_dir=alerts.owner_secrets_dir,
        default_webhook=None if alerts.default_webhook is None else alerts.default_webhook.get_secret_value(),
        allow_hosts=alerts.allow_hosts,
        alertmanager_urls=tuple(filter(None, alerts.alertmanager_urls.split(","))),
        alertmanager_token=None
        if alerts.alertmanager_token is None
        else alerts.alertmanager_token.get_secret_value(),
        alertmanager_resend_ms=alerts.alertmanager_resend_ms,
        smtp=_smtp_options(alerts),
        incident_wait_ms=alerts.incident_wait_ms,
        group_by=tuple(part for part in alerts.group_by.split(",") if part),
        group_wait_ms=alerts.group_wait_ms,
        group_interval_ms=alerts.group_interval_ms,
        repeat_interval_ms=alerts.repeat_interval_ms,
        links=links_of(settings),
        max_attempts=alerts.max_attempts,
        timeout_ms=alerts.timeout_ms,
    )
