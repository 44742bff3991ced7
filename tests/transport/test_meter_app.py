"""The settings of Faust that the exactness rests on."""

from __future__ import annotations

from streams.config.settings import KafkaSettings
from streams.transport.meter_app import new_meter_app
from streams.transport.options import FetchOptions


def test_faust_is_set_up_for_whole_shards_and_against_silent_skips() -> None:
    kafka = KafkaSettings(group_instance_id="pod-1", session_timeout_ms=7_000)
    conf = new_meter_app(kafka, FetchOptions("trainfare.", lambda _: {})).conf
    assert conf.table_standby_replicas >= 1  # else another assignor is used, which splits shards
    assert conf.consumer_auto_offset_reset == "none"
    assert conf.consumer_group_instance_id == "pod-1"
    assert conf.broker_session_timeout == 7
    assert conf.web_enabled is False
    assert conf.topic_allow_declare is False
    assert conf.stream_wait_empty is False
