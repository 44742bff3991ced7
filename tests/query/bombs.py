"""Queries that ask for all the time or memory there is. The first of each kind are run by `make test`."""

from __future__ import annotations

from typing import Final

#: By what they ask for.
TIME: Final = (
    "SELECT sum(sipHash64(number)) FROM numbers(100000000000)",
    "SELECT count() FROM numbers(1000000) AS a, numbers(1000000) AS b WHERE sipHash64(a.number) = sipHash64(b.number, 1)",
    "SELECT " + ", ".join(f"arrayCount(x -> sipHash64(x, {n}) % 7 = 3, range(2000000))" for n in range(40)),
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count() FROM t",
    "SELECT arrayFold((a, x) -> sipHash64(a, x), range(1000000), toUInt64(0)), count() FROM numbers(1000000)",
    "EXPLAIN SELECT (SELECT sum(sipHash64(number)) FROM numbers(100000000000))",
    "DESCRIBE (SELECT (SELECT sum(sipHash64(number)) FROM numbers(100000000000)))",
    "SELECT max(damerauLevenshteinDistance(randomPrintableASCII(3000), randomPrintableASCII(3000 + number % 2))) FROM numbers(1000000)",
    "SELECT count() FROM numbers(100000000) WHERE match(repeat('a', 200) || toString(number), '(a*)*(a|b)*(a+)+c$')",
    "SELECT number FROM numbers(100000000000) ORDER BY sipHash64(number) DESC LIMIT 1",
    "SELECT arrayMap(x -> arrayMap(y -> arrayMap(z -> x * y * z, range(300)), range(300)), range(300))",
    "SELECT count() FROM (" + "SELECT 1 FROM numbers(100) AS a, (" * 12 + "SELECT 1" + ") AS b" * 12 + ")",
    "SELECT DISTINCT toString(number % 3) FROM numbers(100000000000)",
    "SELECT sum(isProbablePrime(number * 2 + 1)) FROM numbers(100000000000)",
    "SELECT uniqExact(rand64() % 10) FROM numbers(100000000000)",
    "SELECT avg(cost_usd) FROM job_minutes, numbers(100000000000) AS n",
)
MEMORY: Final = (
    "SELECT length(groupArray(repeat('x', 1000))) FROM numbers(10000000)",
    "SELECT range(100000000)",
    "SELECT repeat(repeat(repeat('x', 1000), 1000), 1000)",
    "SELECT number, count() FROM numbers(100000000) GROUP BY number",
    "SELECT number FROM numbers(100000000) ORDER BY sipHash64(number)",
    "SELECT arrayResize([1], 1000000000)",
    "SELECT randomString(1000000000)",
    "SELECT a.number FROM numbers(10000000) AS a JOIN numbers(10000000) AS b ON a.number = b.number",
    "SELECT groupArray(arrayWithConstant(1000, number)) FROM numbers(10000000)",
    "SELECT arrayJoin(range(1000000)) AS a, range(1000000) AS b ORDER BY a",
    "SELECT space(1000000000)",
    "SELECT leftPad('x', 1000000000)",
    "SELECT uniqExactState(number) FROM numbers(100000000)",
    "SELECT topK(1000000)(number) FROM numbers(100000000)",
    "SELECT n FROM (SELECT 1 AS n) ORDER BY n WITH FILL FROM 1 TO 100000000000",
    "SELECT number, repeat('x', 1000000) FROM numbers(1000000)",
    "SELECT windowFunnel(10)(toUInt64(number), number = 1, number = 2) FROM numbers(100000000)",
    "SELECT sum(number) OVER (ORDER BY number) FROM numbers(100000000)",
    "SELECT mapFromArrays(range(5000000), range(5000000))",
    "SELECT replaceRegexpAll(repeat('a', 1000000), 'a', repeat('b', 1000))",
    "SELECT format(repeat('{0}', 1000), repeat('x', 1000000))",
    "SELECT arrayStringConcat(arrayMap(x -> repeat('x', 10000), range(100000)))",
)
PARSER: Final = (
    "SELECT " + "(" * 8_000 + "1" + ")" * 8_000,
    "SELECT " + "[" * 8_000 + "]" * 8_000,
    "SELECT " + "x -> " * 3_200 + "1",
    "SELECT " + "CASE WHEN 1 THEN " * 700 + "1" + " END" * 700,
    "SELECT 1" + " UNION ALL SELECT 1" * 860,
    "SELECT 1 IN (" + ",".join(["1"] * 8_000) + ")",
    "SELECT" + " " * 16_300 + "1",
    "SELECT 1" + "/**/" * 4_000,
    "SELECT " + "a." * 8_000 + "b",
    "SELECT " + "NOT " * 4_000 + "1",
    "SELECT " + "1+" * 8_000 + "1",
    "SELECT " + "f(" * 5_000,
    "WITH " + ", ".join(f"t{n} AS (SELECT * FROM {'t' + str(n - 1) if n else 'numbers(9)'} AS a, {'t' + str(n - 1) if n else 'numbers(9)'} AS b)"
                        for n in range(60)) + " SELECT count() FROM t59",
    "SELECT " + ", ".join("*" for _ in range(5_000)) + " FROM job_costs",
    "WITH " + ", ".join(f"(a{n - 1}, a{n - 1}) AS a{n}" if n else "1 AS a0" for n in range(200)) + " SELECT a199",
    "SELECT {x:String}" + ", {x:String}" * 1_200,
)  # fmt: skip
#: What a bomb is told.
SAID: Final = r"ran longer than|TIMEOUT_EXCEEDED|MiB of memory|TOO_[A-Z_]+|Maximum|Max query size|characters that names|SYNTAX_ERROR"
#: Answered at little cost: the engine streams it, or the guard and the parser take it as it is.
CHEAP: Final = frozenset({MEMORY[16], PARSER[4], PARSER[5], PARSER[6], PARSER[7], PARSER[-1]})
