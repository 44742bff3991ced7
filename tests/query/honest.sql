-- What analysts ask: one statement each, ended by a semicolon at the end of a line. See honest.py.

-- sums and groups
SELECT team, count() AS jobs, sum(cost_usd) AS usd FROM job_costs GROUP BY team ORDER BY usd DESC, team;
SELECT owner, sum(cost_usd) AS usd FROM job_costs GROUP BY owner HAVING usd > 0 ORDER BY usd DESC LIMIT 3;
SELECT component, sku, sum(quantity) AS quantity, sum(cost_usd) AS usd FROM ledger GROUP BY component, sku ORDER BY ALL;
SELECT team, owner, sum(cost_usd) AS usd FROM job_costs GROUP BY ALL ORDER BY team, owner;
SELECT team, owner, sum(cost_usd) AS usd FROM job_costs GROUP BY team, owner WITH ROLLUP ORDER BY team, owner;
SELECT team, owner, sum(cost_usd) AS usd FROM job_costs GROUP BY team, owner WITH CUBE ORDER BY team, owner, usd;
SELECT team, sum(cost_usd) AS usd FROM job_costs GROUP BY team WITH TOTALS ORDER BY team;
SELECT team, owner, grouping(team) AS g, sum(cost_usd) AS usd FROM job_costs GROUP BY GROUPING SETS ((team), (owner), ()) ORDER BY team, owner, g;
SELECT count() FROM ledger;
SELECT count(*), count(DISTINCT job_id), uniq(job_id), uniqExact(job_id) FROM ledger;
SELECT DISTINCT phase FROM ledger ORDER BY phase;
SELECT DISTINCT ON (job_id) job_id, minute FROM ledger ORDER BY job_id, minute;
SELECT min(minute), max(minute), dateDiff('minute', min(minute), max(minute)) AS span FROM ledger;
SELECT job_id, sumIf(cost_usd, component = 'gpu') AS gpu, countIf(phase = 'running') AS n FROM ledger GROUP BY job_id ORDER BY job_id;
SELECT sum(cost_usd) FILTER (WHERE component = 'gpu') AS gpu FROM ledger;
SELECT any(team) IGNORE NULLS AS t, anyLast(started) RESPECT NULLS AS s FROM (SELECT team, started FROM job_costs ORDER BY job_id);
SELECT argMax(job_id, cost_usd) AS dearest, max(cost_usd) AS usd FROM job_costs;
SELECT quantile(0.5)(toFloat64(cost_usd)) AS p50, quantileExact(0.99)(cost_usd) AS p99 FROM ledger;
SELECT quantiles(0.1, 0.5, 0.9)(toFloat64(cost_usd)) AS q FROM ledger;
SELECT median(toFloat64(usd_per_hour)), stddevPop(toFloat64(usd_per_hour)), corr(toFloat64(usd_per_hour), ratio_15m) FROM burn_rates;
SELECT avg(toFloat64(cost_usd)), avgWeighted(toFloat64(cost_usd), quantity) FROM ledger;
SELECT topK(2)(component), groupUniqArray(3)(unit) FROM ledger;
SELECT arraySort(groupArray(job_id)) AS jobs, arraySort(groupUniqArray(team)) AS teams FROM job_costs;
SELECT groupArrayIf(2)(job_id, cost_usd > 0) AS some FROM (SELECT job_id, cost_usd FROM job_costs ORDER BY job_id);
SELECT sumMap(map(component, toFloat64(cost_usd))) AS m FROM ledger;
SELECT histogram(3)(toFloat64(cost_usd)) FROM ledger;
SELECT simpleLinearRegression(toUnixTimestamp(minute), toFloat64(cost_usd)) FROM ledger;
SELECT sumMerge(s) AS usd FROM (SELECT sumState(cost_usd) AS s FROM ledger GROUP BY job_id);
SELECT uniqMerge(u) FROM (SELECT uniqState(job_id) AS u FROM ledger GROUP BY component);
SELECT sumOrNull(cost_usd), countOrDefault(cost_usd) FROM ledger WHERE job_id = 'nobody';
SELECT sumArray(x), sumForEach(x) FROM (SELECT [1, 2, 3] AS x UNION ALL SELECT [4, 5, 6]);
SELECT groupBitOr(attempt), groupBitXor(attempt) FROM ledger;
SELECT sum(cost_usd) AS usd FROM job_minutes FINAL WHERE quantity != 0;
SELECT sum(cost_usd) AS usd FROM job_minutes FINAL PREWHERE component = 'gpu' WHERE quantity != 0;
SELECT round(sum(gpu_s) / 3600, 3) AS gpu_h, formatReadableQuantity(sum(gpu_s)) AS said FROM job_costs;

-- joins
SELECT j.job_id, j.team, l.usd FROM jobs AS j INNER JOIN (SELECT job_id, sum(cost_usd) AS usd FROM ledger GROUP BY job_id) AS l ON l.job_id = j.job_id ORDER BY 1;
SELECT j.job_id, a.attempt, a.state FROM jobs j LEFT JOIN attempts a ON a.job_id = j.job_id ORDER BY j.job_id, a.attempt;
SELECT job_id, attempt FROM jobs JOIN attempts USING (job_id) ORDER BY job_id, attempt;
SELECT job_id, count() AS n FROM jobs RIGHT JOIN attempts USING job_id GROUP BY job_id ORDER BY job_id;
SELECT j.job_id, b.time FROM jobs AS j FULL OUTER JOIN burn_now AS b ON b.job_id = j.job_id ORDER BY j.job_id, b.job_id;
SELECT count() FROM jobs CROSS JOIN prices;
SELECT count() FROM jobs, prices WHERE gpu_type = prices.match['gpu_type'];
SELECT job_id FROM jobs LEFT SEMI JOIN alerts ON alerts.subject_name = jobs.job_id ORDER BY job_id;
SELECT job_id FROM jobs LEFT ANTI JOIN alerts ON alerts.subject_name = jobs.job_id ORDER BY job_id;
SELECT j.job_id, p.usd FROM jobs AS j LEFT ANY JOIN prices AS p ON p.match['gpu_type'] = j.gpu_type ORDER BY j.job_id;
SELECT j.job_id FROM jobs AS j ALL INNER JOIN attempts AS a ON a.job_id = j.job_id AND a.attempt = 1 ORDER BY 1;
SELECT l.job_id, l.minute, b.time, b.usd_per_hour FROM ledger AS l ASOF LEFT JOIN burn_rates AS b ON b.job_id = l.job_id AND l.minute >= b.time ORDER BY 1, 2, 3, l.component, l.cost_usd;
SELECT l.minute FROM ledger AS l ASOF JOIN burn_rates AS b USING (job_id, version) ORDER BY 1 LIMIT 2;
SELECT a.number, b.number FROM numbers(3) AS a PASTE JOIN numbers(3) AS b;
SELECT * FROM (SELECT 1 AS k, 2 AS x) AS a NATURAL JOIN (SELECT 1 AS k, 3 AS y) AS b;
SELECT count() FROM jobs GLOBAL ANY LEFT JOIN attempts ON attempts.job_id = jobs.job_id;
SELECT j.team, a.job_id FROM jobs j JOIN attempts a ON j.job_id = a.job_id JOIN job_costs c ON c.job_id = j.job_id WHERE c.cost_usd > 0 ORDER BY 1, 2, a.attempt;

-- windows
SELECT job_id, minute, sum(cost_usd) OVER (PARTITION BY job_id ORDER BY minute, component, node ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM ledger ORDER BY job_id, minute, running;
SELECT job_id, row_number() OVER w AS n, rank() OVER w AS r, dense_rank() OVER w AS d FROM job_costs WINDOW w AS (ORDER BY cost_usd DESC, job_id) ORDER BY n;
SELECT time, usd_per_hour, lagInFrame(usd_per_hour, 1, usd_per_hour) OVER (PARTITION BY job_id ORDER BY time) AS before FROM burn_rates ORDER BY job_id, time;
SELECT time, leadInFrame(usd_per_hour) OVER (PARTITION BY job_id ORDER BY time ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next FROM burn_rates ORDER BY job_id, time;
SELECT time, avg(ratio_15m) OVER (ORDER BY toUnixTimestamp(time) RANGE BETWEEN 300 PRECEDING AND 10 FOLLOWING) AS mean FROM burn_rates ORDER BY time, job_id;
SELECT job_id, first_value(state) OVER (PARTITION BY job_id ORDER BY attempt), last_value(state) OVER (PARTITION BY job_id ORDER BY attempt) FROM attempts ORDER BY job_id, attempt;
SELECT job_id, attempt, ntile(2) OVER (ORDER BY job_id, attempt) AS half FROM attempts ORDER BY 1, 2;
SELECT job_id, cost_usd / sum(cost_usd) OVER () AS share FROM job_costs ORDER BY job_id;
SELECT job_id, attempt FROM attempts QUALIFY row_number() OVER (PARTITION BY job_id ORDER BY attempt DESC) = 1 ORDER BY job_id;
SELECT number, sum(number) OVER (ORDER BY number ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS s FROM numbers(6) ORDER BY number;
SELECT job_id, count() OVER (w ROWS 1 PRECEDING) AS n FROM attempts WINDOW w AS (PARTITION BY job_id ORDER BY attempt) ORDER BY job_id, attempt;

-- WITH
WITH t AS (SELECT job_id, sum(cost_usd) AS usd FROM ledger GROUP BY job_id) SELECT max(usd), min(usd) FROM t;
WITH a AS (SELECT job_id FROM jobs), b AS (SELECT job_id FROM a) SELECT count() FROM b;
WITH jobs AS (SELECT job_id FROM jobs WHERE team = 'vision') SELECT job_id FROM jobs ORDER BY job_id;
WITH 3 AS most SELECT job_id FROM jobs ORDER BY job_id LIMIT 2;
WITH (SELECT max(cost_usd) FROM job_costs) AS top SELECT job_id FROM job_costs WHERE cost_usd = top;
WITH t (name, usd) AS (SELECT job_id, cost_usd FROM job_costs) SELECT name, usd FROM t ORDER BY name;
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n;
WITH t AS MATERIALIZED (SELECT job_id FROM jobs) SELECT count() FROM t;
WITH toStartOfHour(minute) AS hour SELECT hour, sum(cost_usd) AS usd FROM ledger GROUP BY hour ORDER BY hour;
WITH [1, 2] AS few SELECT job_id, attempt FROM attempts WHERE has(few, attempt) ORDER BY 1, 2;

-- arrays, maps, tuples, strings
SELECT arrayMap(x -> x * 2, [1, 2, 3]) AS a, arrayFilter((x, y) -> x > y, [3, 1], [2, 2]) AS b;
SELECT arrayJoin([1, 2, 3]) AS x, x * x AS square;
SELECT job_id, key, value FROM jobs ARRAY JOIN mapKeys(labels) AS key, mapValues(labels) AS value ORDER BY 1, 2;
SELECT job_id, key FROM jobs LEFT ARRAY JOIN mapKeys(labels) AS key ORDER BY 1, 2;
SELECT job_id, labels['env'] AS env, mapContains(labels, 'env') AS has_env FROM job_costs ORDER BY job_id;
SELECT labels['env'] AS env, sum(cost_usd) AS usd FROM ledger GROUP BY env ORDER BY env;
SELECT map('a', 1, 'b', 2)['b'] AS b, [10, 20][-1] AS last, (1, 'x').2 AS second, tupleElement((1, 2), 1) AS first;
SELECT length([1, 2]), empty([]), has([1, 2], 2), indexOf(['a', 'b'], 'b'), arrayStringConcat(['a', 'b'], '-');
SELECT arraySum(x -> x.2, [(1, 2), (3, 4)]), arrayZip([1, 2], ['a', 'b']), arrayEnumerate([5, 6]);
SELECT CAST((1, 'a') AS Tuple(n UInt8, s String)) AS t, t.n, t.s;
SELECT t.* FROM (SELECT CAST((1, 'a') AS Tuple(n UInt8, s String)) AS t);
SELECT upper(team), lower(owner), concat(team, '/', owner), team || '-' || owner FROM job_costs ORDER BY job_id;
SELECT job_id FROM jobs WHERE job_id LIKE '%a%' OR job_id NOT ILIKE 'B%' ORDER BY 1;
SELECT substring('trainfare', 1, 5), splitByChar(',', 'a,b'), replaceRegexpAll('a1b2', '[0-9]', '#'), match('abc', '^a'), extract('n=42', '\\d+');
SELECT position('abc', 'c'), length('abc'), lengthUTF8('äöü'), trim(BOTH ' ' FROM '  x '), leftPad('7', 3, '0'), format('{} of {}', 1, 2);
SELECT 'it''s', 'a\'b', 'tab\there', 'line\nbreak', 'back\\slash', '-- no comment', '/* none */', '; none', '{not:AParameter}', '%(a)s %s', $$heredoc 'quoted'$$;
SELECT 'ünï¢ødé 😀 日本' AS `naïve name`, 1 AS "a b", 2 AS `c"d`, 3 AS `it's`, 4 AS `back``tick`;
SELECT job_id, multiIf(cost_usd > 1, 'dear', cost_usd > 0, 'cheap', 'free') AS kind FROM job_costs ORDER BY job_id;
SELECT job_id, CASE WHEN cost_usd > 1 THEN 'dear' ELSE 'cheap' END AS a, CASE state WHEN 'failed' THEN 1 WHEN 'completed' THEN 2 ELSE 0 END AS b FROM job_costs ORDER BY job_id;
SELECT if(1 > 2, 'a', 'b'), 1 > 2 ? 'a' : 'b', coalesce(NULL, 3), ifNull(NULL, 4), nullIf(1, 1), NULL IS NULL, 1 IS NOT NULL, assumeNotNull(toNullable(5));
SELECT ended IS NULL AS runs, isNull(started), ended IS NOT DISTINCT FROM NULL FROM job_costs ORDER BY job_id;
SELECT toTypeName(cost_usd), toTypeName(labels), toTypeName(started) FROM job_costs LIMIT 1;
SELECT toDecimal64('1.5', 2), toInt64('7'), toString(1.5), toFloat64('2.5'), '9'::UInt8, CAST('3' AS Int32), toDateTime64('2026-03-01 12:00:00.5', 3, 'UTC');
SELECT round(2.345, 2), floor(2.7), ceil(2.1), abs(-3), -3 % 2, intDiv(7, 2), pow(2, 10), sqrt(16), greatest(1, 2), least(1, 2), log2(8), 0x1F, 1e3, 7 DIV 2, 7 MOD 2;
SELECT bitAnd(6, 3), bitShiftLeft(1, 4), hex(255), unhex('616263'), base64Encode('a'), cityHash64('a') != 0, MD5('a') = unhex('0cc175b9c0f1b6a831c399e269772661');
SELECT JSONExtractString('{"a": "b"}', 'a'), JSONExtractInt('{"n": 3}', 'n'), JSONHas('{}', 'a'), toJSONString(map('k', 1));
SELECT domain('https://example.com/a?b=1'), path('https://example.com/a?b=1'), extractURLParameter('https://example.com/?b=1', 'b');
SELECT toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0'), toIPv4('1.2.3.4'), CAST('a' AS Enum8('a' = 1)), toLowCardinality('x'), toFixedString('ab', 4);

-- times
SELECT toDate(minute) AS day, sum(cost_usd) AS usd FROM ledger GROUP BY day ORDER BY day;
SELECT toStartOfInterval(minute, INTERVAL 5 MINUTE) AS at, sum(cost_usd) AS usd FROM ledger GROUP BY at ORDER BY at;
SELECT toStartOfMonth(minute) AS month, toMonday(minute) AS week, toStartOfWeek(minute, 1), count() FROM ledger GROUP BY ALL ORDER BY ALL;
SELECT date_trunc('hour', minute) AS hour, count() FROM ledger GROUP BY hour ORDER BY hour;
SELECT formatDateTime(min(minute), '%Y-%m-%d %H:%i') AS first, toUnixTimestamp(min(minute)) AS s, toYYYYMM(min(minute)) AS month FROM ledger;
SELECT minute + INTERVAL 1 HOUR AS later, minute - toIntervalMinute(5) AS before, addDays(minute, 1), subtractHours(minute, 2) FROM ledger ORDER BY minute, job_id, component, cost_usd LIMIT 3;
SELECT count() FROM ledger WHERE minute >= now() - INTERVAL 30 DAY OR minute < now();
SELECT count() FROM ledger WHERE minute BETWEEN toDateTime('2026-03-01 12:00:00', 'UTC') AND '2026-03-01 12:05:00';
SELECT EXTRACT(YEAR FROM toDate('2026-03-01')), toHour(toDateTime('2026-03-01 12:34:56', 'UTC')), DATE '2026-03-01' + 1, dateDiff('day', DATE '2026-01-01', DATE '2026-03-01');
SELECT toTimeZone(min(minute), 'Europe/Berlin') AS there, timeZoneOf(there) FROM ledger;
SELECT fromUnixTimestamp64Milli(1772366400000, 'UTC') AS at, toUnixTimestamp64Milli(at), parseDateTimeBestEffort('2026-03-01T12:00:00Z', 'UTC');
SELECT toStartOfMinute(time) AS at, max(usd_per_hour) AS usd FROM burn_rates GROUP BY at ORDER BY at WITH FILL STEP INTERVAL 1 MINUTE;
SELECT n, x FROM (SELECT number * 3 AS n, number AS x FROM numbers(3)) ORDER BY n WITH FILL FROM 0 TO 9 STEP 1 INTERPOLATE (x AS x + 1);
SELECT n FROM (SELECT arrayJoin([1, 5, 9]) AS n) ORDER BY n WITH FILL STEP 1 STALENESS 3;

-- order and limits
SELECT job_id FROM job_costs ORDER BY ended DESC NULLS LAST, job_id ASC NULLS FIRST;
SELECT job_id FROM job_costs ORDER BY job_id COLLATE 'de';
SELECT job_id, minute FROM ledger ORDER BY job_id, minute, cost_usd LIMIT 1 BY job_id;
SELECT job_id, minute FROM ledger ORDER BY job_id, minute, cost_usd LIMIT 1 OFFSET 1 BY job_id LIMIT 5;
SELECT 1 AS x LIMIT 2 BY ALL;
SELECT job_id FROM job_costs ORDER BY job_id LIMIT 1, 2;
SELECT job_id FROM job_costs ORDER BY job_id LIMIT 2 OFFSET 1;
SELECT team FROM job_costs ORDER BY team LIMIT 1 WITH TIES;
SELECT job_id FROM job_costs ORDER BY job_id OFFSET 1 ROW FETCH FIRST 1 ROW ONLY;
SELECT job_id FROM job_costs WHERE job_id IN ('a', 'b') AND team NOT IN ('nobody') ORDER BY job_id;
SELECT job_id FROM job_costs WHERE (job_id, team) IN (('a', 'vision'), ('b', 'speech')) ORDER BY job_id;
SELECT job_id FROM job_costs WHERE job_id IN (SELECT subject_name FROM alerts) ORDER BY job_id;
SELECT count() FROM job_costs WHERE job_id IN (SELECT job_id FROM jobs) AND EXISTS (SELECT 1 FROM prices);
SELECT count() FROM numbers(10) WHERE number >= ALL (SELECT 9) OR number = ANY (SELECT 3);
SELECT number FROM numbers(2, 3);
SELECT * FROM generate_series(1, 9, 4);
SELECT * FROM values('name String, n UInt8', ('a', 1), ('b', 2));
SELECT * FROM view(SELECT job_id FROM jobs ORDER BY job_id);
SELECT count() FROM numbers_mt(5);
FROM job_costs SELECT job_id ORDER BY job_id;
SELECT sum(n) FROM (SELECT count() AS n FROM jobs UNION ALL SELECT count() FROM attempts);
SELECT job_id FROM jobs UNION DISTINCT SELECT job_id FROM attempts ORDER BY job_id;
SELECT job_id FROM jobs INTERSECT SELECT job_id FROM attempts;
SELECT job_id FROM jobs EXCEPT SELECT job_id FROM attempts;
(SELECT 1 AS x UNION ALL SELECT 2) EXCEPT DISTINCT (SELECT 2);
SELECT 1 AS x INTERSECT DISTINCT SELECT 1 UNION ALL SELECT 3;
SELECT job_id FROM jobs AS j WHERE job_id = (SELECT argMax(job_id, cost_usd) FROM job_costs);
SELECT c.n FROM (SELECT 1, 2) AS c (m, n);

-- columns
SELECT * FROM job_costs ORDER BY job_id;
SELECT * EXCEPT (labels, started) FROM job_costs ORDER BY job_id;
SELECT * EXCEPT labels REPLACE (upper(team) AS team) FROM job_costs ORDER BY job_id;
SELECT * REPLACE STRICT (1 AS team) FROM job_costs ORDER BY job_id;
SELECT * EXCEPT STRICT (team) FROM job_costs ORDER BY job_id;
SELECT * EXCEPT('.*_usd') FROM job_costs ORDER BY job_id;
SELECT COLUMNS('_usd$') FROM job_costs ORDER BY job_id;
SELECT COLUMNS('_usd$') EXCEPT (lost_cost_usd) APPLY(sum) FROM job_costs;
SELECT COLUMNS(cost_usd, gpu_s) APPLY(x -> round(x, 2)) FROM job_costs ORDER BY job_id;
SELECT COLUMNS('_usd$') APPLY(toFloat64) APPLY(quantile(0.5)) FROM job_costs;
SELECT COLUMNS('^cost|^lost') APPLY(toString, 'text_') FROM job_costs ORDER BY job_id;
SELECT j.*, c.cost_usd FROM jobs AS j JOIN job_costs AS c USING (job_id) ORDER BY job_id;
SELECT j.* EXCEPT (version), c.COLUMNS('^gpu') FROM jobs AS j JOIN job_costs AS c ON c.job_id = j.job_id ORDER BY j.job_id;
SELECT c.COLUMNS(cost_usd, team) APPLY(toString), c.COLUMNS('^lost') APPLY(toString) FROM job_costs AS c ORDER BY c.job_id;
SELECT trainfare.jobs.job_id FROM trainfare.jobs ORDER BY 1;
SELECT `job_id` AS "Job", `cost_usd` AS `Cost, $` FROM `job_costs` ORDER BY `Job`;

-- settings that may stand in a query
SELECT job_id, alert_id FROM jobs LEFT JOIN alerts ON alerts.subject_name = jobs.job_id ORDER BY 1, 2 SETTINGS join_use_nulls = 1;
SELECT count() FROM job_minutes SETTINGS final = 0;
SELECT sum(cost_usd) FROM ledger WHERE 0 SETTINGS aggregate_functions_null_for_empty = 1, max_execution_time = 5;
SELECT team, count() FROM jobs GROUP BY team WITH ROLLUP ORDER BY team SETTINGS group_by_use_nulls = 1;
SELECT NULL IN (1, NULL) SETTINGS transform_null_in = 1, max_memory_usage = 100000000, max_rows_to_read = 1000000, max_result_rows = 10;

-- everything that has no columns of a table
SELECT 1;
SELECT NULL, true, false, inf, -1.5, 18446744073709551615, 'x' AS s, [] AS none, [[1], [2, 3]] AS nested, (1, (2, 'x')) AS pair;
SELECT version() != '', rand() >= 0, now() > toDateTime(0), today() > toDate(0), length(randomString(3)), generateUUIDv4() != generateUUIDv4();
SELECT 1 AS a, a + 1 AS b, b * 2 AS c WHERE c = 4;
  select   job_id from   job_costs  -- a comment
  /* another /* nested */ one */ where 1 # the last
  order by job_id;
