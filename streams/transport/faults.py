"""Explains exceptions of Faust and aiokafka to operators."""

from __future__ import annotations

from aiokafka.errors import (
    KafkaConnectionError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.transport.faust_types import TP


def explained(fault: BaseException, kafka: KafkaSettings) -> BaseException:
    """The fault as a TrainfareError if an operator can fix it; otherwise the fault itself."""
    if isinstance(fault, OffsetOutOfRangeError | NoOffsetForPartitionError):
        where = ", ".join(
            f"{tp.topic}/{tp.partition} at {offset}" for tp, offset in _offsets(fault).items()
        ) or str(fault)
        return TrainfareError(
            f"the log no longer has what was to be read next ({where}): retention has overtaken the meter, or the "
            "topic was made anew; restore the records, or begin anew with another group and an empty store"
        )
    if isinstance(fault, KafkaConnectionError):
        return TrainfareError(f"no Kafka broker answers at {kafka.bootstrap_servers}: {fault}")
    if isinstance(fault, TopicAuthorizationFailedError):
        return TrainfareError(f"Kafka at {kafka.bootstrap_servers} does not let this user read: {fault}")
    return fault


def is_explained(fault: BaseException, kafka: KafkaSettings) -> bool:
    """Whether there is an explanation of the fault."""
    return isinstance(explained(fault, kafka), TrainfareError)


def _offsets(fault: BaseException) -> dict[TP, int]:
    found = fault.args[0] if fault.args else None
    return dict(found) if isinstance(found, dict) else {}
