"""The lists of the guard hold what is used and what exists, and nothing that reaches anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sinks.query import grammar, tree
from sinks.query.functions import COMBINATORS, TABLE_FUNCTIONS, is_allowed, listed
from sinks.query.session import Parser
from tests.query.honest import all_queries

#: Of these the engine has functions whose work is to reach files, tables, dictionaries, other hosts, programs or the clock.
_IN_WORDS = """
file fileCluster url urlCluster s3 hdfs remote remoteSecure cluster clusterAllReplicas executable input python sqlite mysql postgresql mongodb redis
odbc jdbc dictionary merge loop format infile eval viewExplain viewIfPermitted fuzzQuery generateRandom arrowstream filesystem null
dictGet dictGetOrDefault dictGetOrNull dictGetString dictHas dictGetHierarchy dictGetAll dictIsIn joinGet joinGetOrNull hasColumnInTable
catboostEvaluate evalMLMethod getSetting getSettingOrDefault getServerSetting getMergeTreeSetting getMacro getServerPort getOSKernelVersion hostName hostname FQDN
currentUser user authenticatedUser currentProfiles currentRoles defaultProfiles enabledProfiles connectionId queryID initialQueryID serverUUID
currentDatabase currentSchemas database buildId uptime tcpPort displayName filesystemAvailable filesystemCapacity filesystemUnreserved
addressToLine addressToSymbol demangle addressToLineWithInlines trap logTrace sleep sleepEachRow showCertificate zookeeperSessionUptime
formatRow formatRowNoNewline structureToProtobufSchema structureToCapnProtoSchema formatQuery formatQuerySingleLine parseQueryToJSON formatQueryFromJSON
encrypt decrypt tryDecrypt aes_encrypt_mysql aes_decrypt_mysql reverseDNSQuery lowerSubcolumn nested globalIn globalNotIn isMergeTreePartCoveredBy
initializeAggregation finalizeAggregation arrayReduce arrayReduceInRanges partitionId transactionID blockNumber fuzzBits stem synonyms lemmatize
regionToName naiveBayesClassifier detectLanguage getClientHTTPHeader hasThreadFuzzer currentQueryID mergeTreePartInfo estimateCompressionRatio
minSampleSizeConversion generateSerialID aiClassify aiExtract aiGenerate aiTranslate aiEmbed tokenizeQuery highlightQuery timeSeriesIdToTags
"""
DANGEROUS = _IN_WORDS.split()


#: Functions to the parser, resolved before any function is looked up.
OF_THE_ANALYZER = {"exists", "grouping", "lambda", "untuple"}


def names_of(parser: Parser, table: str) -> set[str]:
    client = parser._client
    return {row[0].lower() for row in client.query(f"SELECT name FROM system.{table}").result_rows}


def keys_of(value: Any) -> Iterator[tuple[str, str]]:
    """Each (type, key) of a tree whose value says something."""
    if isinstance(value, list):
        for each in value:
            yield from keys_of(each)
    elif isinstance(value, dict) and "field_type" not in value:
        for key, each in value.items():
            if each not in (False, None, "") and "type" in value:
                yield str(value["type"]), key
            yield from keys_of(each)


def used(parser: Parser) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for query in all_queries():
        if not query.sql.upper().startswith("DESC"):  # has no tree of its own
            found.update(keys_of(tree.parse(parser, query.sql)))
    return found


def test_every_part_that_is_allowed_is_used_by_an_honest_query(parser: Parser) -> None:
    allowed = {(kind, key) for kind, keys in grammar.KEYS.items() for key in keys}
    # That one is let through for a better refusal: it says what a parameter may stand for.
    assert sorted(allowed - used(parser)) == [("Identifier", "children")]


def test_every_function_exists_and_can_be_called_by_its_name(parser: Parser) -> None:
    there = names_of(parser, "functions")
    assert sorted(set().union(*listed().values()) - there) == sorted(OF_THE_ANALYZER)
    assert sorted(set(COMBINATORS) - names_of(parser, "aggregate_function_combinators")) == []
    assert sorted(TABLE_FUNCTIONS - names_of(parser, "table_functions")) == []


def test_the_reviewed_list_of_dangerous_names_is_not_allowed(parser: Parser) -> None:
    functions, tables = names_of(parser, "functions"), names_of(parser, "table_functions")
    known = [name for name in DANGEROUS if name.lower() in functions | tables]
    assert len(known) > 100, "the list has gone stale"
    # `format` is the table function that reads any format, and a function that fills in a text.
    assert [name for name in DANGEROUS if is_allowed(name)] == ["format"]
    assert [name for name in DANGEROUS if name.lower() in TABLE_FUNCTIONS] == []


@pytest.mark.parametrize(
    "prefix",
    ["dict", "region", "joinget", "ai", "currentu", "filesystem", "getset", "mergetree", "address", "sleep"],
)
def test_no_function_of_a_dangerous_family_is_allowed(prefix: str, parser: Parser) -> None:
    family = {name for name in names_of(parser, "functions") if name.startswith(prefix)}
    assert [name for name in sorted(family) if is_allowed(name)] == []


def test_settings_and_explain_kinds_are_those_of_the_engine(parser: Parser) -> None:
    assert sorted(grammar.SETTINGS - names_of(parser, "settings")) == []
    assert grammar.LOWERED <= grammar.SETTINGS
