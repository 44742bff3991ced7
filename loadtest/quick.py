"""A worker with stopwatches on an embedded broker, which cannot describe its topics: `python -m loadtest.quick OUT worker`."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from loadtest import inside
from streams.config.settings import KafkaSettings
from streams.transport import cluster


def main() -> None:
    """As `loadtest.inside`."""

    def not_asked(kafka: KafkaSettings, client: AdminClient) -> None:
        """The mock cluster would not answer."""

    cluster.check_topics = not_asked  # type: ignore[attr-defined]  # a stand-in for this process alone
    inside.main()


if __name__ == "__main__":
    main()
