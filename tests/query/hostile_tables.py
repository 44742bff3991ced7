"""Attacks by what a query reads: table functions, dictionaries, the engine's own tables, files as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.query.attacks import PORT, READ, WRITE, Attack

#: These make rows of their arguments; some answer.
_OF_ARGUMENTS = {"numbers", "numbers_mt", "generateseries", "generate_series", "values", "view"}
_FIXED = f"""
file('{READ}', 'LineAsString')
FILE('{READ}', 'RawBLOB', 'a String')
`file`('{READ}', LineAsString)
"file"('{READ}', LineAsString)
file('{READ}', 'CSV', 'a String', 'none')
file('{READ}/../*', One)
file('../{{secret,other}}.csv', 'CSV')
fileCluster('default', '{READ}', 'LineAsString')
url('http://127.0.0.1:{PORT}/', 'LineAsString', 'a String')
url('file://{READ}', 'LineAsString')
urlCluster('default', 'http://127.0.0.1:{PORT}/', 'LineAsString', 'a String')
s3('http://127.0.0.1:{PORT}/bucket/key', 'LineAsString')
s3(named, url = 'http://127.0.0.1:{PORT}/bucket/key')
gcs('http://127.0.0.1:{PORT}/bucket/key', 'LineAsString')
azureBlobStorage('http://127.0.0.1:{PORT}/a', 'c', 'p', 'n', 'k')
hdfs('hdfs://127.0.0.1:{PORT}/x', 'TSV', 'a String')
remote('127.0.0.1:{PORT}', system, one)
remote('127.0.0.1:{PORT}', 'system.one')
remoteSecure('127.0.0.1:{PORT}', system, one)
cluster('default', system.one)
clusterAllReplicas('default', system, one)
mysql('127.0.0.1:{PORT}', 'd', 't', 'u', 'p')
postgresql('127.0.0.1:{PORT}', 'd', 't', 'u', 'p')
mongodb('127.0.0.1:{PORT}', 'd', 't', 'u', 'p', 'a String')
redis('127.0.0.1:{PORT}', 'k', 'k String')
sqlite('{READ}', 't')
odbc('DSN=x', 't')
jdbc('jdbc:x', 't')
executable('cat {READ}', 'LineAsString', 'a String')
executable('sh', TSV, 'a String', (SELECT 1))
python('open')
Python(open)
iceberg('http://127.0.0.1:{PORT}/t')
icebergLocal('{READ}')
deltaLake('http://127.0.0.1:{PORT}/t')
deltaLakeLocal('{READ}')
hudi('http://127.0.0.1:{PORT}/t')
merge('.*', '.*')
merge('system', '.*')
merge(REGEXP('.*'), '.*')
loop(system.one)
loop(file('{READ}', 'LineAsString'))
format(LineAsString, 'x')
input('a String')
null('a String')
dictionary('default.x')
eval('SELECT 1')
viewExplain('EXPLAIN', '', (SELECT 1))
viewIfPermitted(SELECT 1 ELSE file('{READ}', 'LineAsString'))
view(SELECT * FROM file('{READ}', 'LineAsString'))
view(SELECT * FROM url('http://127.0.0.1:{PORT}/', 'LineAsString', 'a String'))
values('a String DEFAULT file(\\'{READ}\\')', ('x'))
values('a String ALIAS dictGet(\\'x\\', \\'y\\', 1)', ('x'))
values('a String, b String ALIAS hostName()', ('x'))
values('a String, b String ALIAS file(\\'{READ}\\')', ('x'))
values('a String, b DEFAULT(hostName())', ('x'))
values('a String, b String MATERIALIZED hostName()', ('x'))
values('a String, b UInt8 ALIAS sleep(1)', ('x'))
values('a String, b UInt8 ALIAS (SELECT 1)', ('x'))
values(concat('a String, b String ', 'ALIAS hostName()'), ('x'))
values(s, (WITH 'a String, b String ALIAS hostName()' AS s SELECT s))
values({{s:String}}, ('x'))
VALUES(lower('a'), 'b')
values('x', 'y')
numbers((SELECT count() FROM file('{READ}', 'LineAsString')))
generateRandom('a String', 1, 10, 2)
fuzzQuery('SELECT 1')
mergeTreeIndex('trainfare', 'jobs')
mergeTreeProjection('trainfare', 'jobs', 'p')
timeSeriesSelector('trainfare', 'jobs', 'x', 1, 2)
filesystem('/')
arrowstream('{READ}')
bigquery('http://127.0.0.1:{PORT}')
"""
_FILES = (
    f"'{READ}'", f"`{READ}`", f'"{READ}"', f"default.`{READ}`", f"`default`.`{READ}`", f"trainfare.`{READ}`", f"`trainfare`.'{READ}'",
    f"`file('{READ}')`", f"`file://{READ}`", "`/etc/passwd`", "'/etc/passwd'", "default.`/etc/passwd`", "`../../etc/passwd`", "`/proc/self/environ`",
    "_temporary_and_external_tables.x", "default.x", "`default.x`", "x.y.z", "trainfare.x", "`trainfare.jobs`", "`..`.`jobs`", "nothing",
    "`jobs.*`", "job_minutes.`x`", "`.inner.jobs`", "`trainfare`.`..`", "`http://127.0.0.1:@PORT@/x.csv`", "`s3://b/k`",
)  # fmt: skip
_SYSTEM = (
    "system.tables", "system.databases", "system.functions", "system.settings", "system.server_settings", "system.processes", "system.query_log",
    "system.disks", "system.parts", "system.users", "system.grants", "system.quotas", "system.dictionaries", "system.one", "system.numbers",
    "system.build_options", "system.clusters", "system.remote_data_paths", "system.certificates", "system.warnings", "system.errors",
    "system.stack_trace", "system.environment", "`system`.`one`", '"system"."one"', "SYSTEM.one", "System.One", "information_schema.tables",
    "INFORMATION_SCHEMA.columns", "information_schema.schemata", "system.zookeeper", "system.user_processes", "system.backups",
    "system.filesystem_cache", "system.named_collections", "system.configs", "system.asynchronous_metrics", "system.licenses",
)  # fmt: skip
_CALLS = f"""
dictGet('x', 'y', 1)
dictGet('default.x', 'y', 1)
dictGetString('x', 'y', toUInt64(1))
dictGetOrDefault('x', 'y', 1, 2)
dictHas('x', 1)
dictGetHierarchy('x', 1)
joinGet('trainfare.jobs', 'team', 'a')
joinGetOrNull('jobs', 'team', 'a')
hasColumnInTable('system', 'one', 'dummy')
hasColumnInTable('127.0.0.1:{PORT}', 'u', 'p', 'system', 'one', 'dummy')
file('{READ}')
FILE('{READ}')
`file`('{READ}', 'x')
"file"('{READ}')
catboostEvaluate('{READ}', 1)
evalMLMethod('x', 1)
aiGenerate('x')
aiClassify('x', ['a'])
aiTranslate('x', 'de')
aiEmbed('x')
hostName()
fqdn()
currentUser()
user()
current_database()
getSetting('max_threads')
getServerSetting('max_server_memory_usage')
getMacro('x')
getOSKernelVersion()
serverUUID()
tcpPort()
uptime()
buildId()
queryID()
connectionId()
filesystemAvailable()
filesystemCapacity()
filesystemUnreserved('default')
addressToLine(1)
addressToSymbol(1)
demangle('x')
sleep(3)
sleepEachRow(1)
showCertificate()
logTrace('x')
formatRow('CSV', 1)
formatQuery('SELECT 1')
parseQueryToJSON('SELECT 1')
formatQueryFromJSON('x')
encrypt('aes-128-ecb', 'x', 'kkkkkkkkkkkkkkkk')
decrypt('aes-128-ecb', 'x', 'kkkkkkkkkkkkkkkk')
initializeAggregation('sumState', 1)
arrayReduce('sum', [1])
finalizeAggregation(sumState(1))
structureToProtobufSchema('a String')
regionToName(toUInt32(1))
mergeTreePartInfo('x')
zookeeperSessionUptime()
globalIn(1, default.x)
1 IN default.x
1 IN system.one
1 IN `/etc/passwd`
1 IN (default.x)
1 NOT IN default.`{READ}`
in(1, system.one)
notIn(1, default.x)
nullIn(1, system.one)
1 GLOBAL IN system.one
(1, 2) IN system.one
1 IN (SELECT * FROM system.one)
1 IN (SELECT * FROM file('{READ}', 'LineAsString'))
(SELECT * FROM file('{READ}', 'LineAsString') LIMIT 1)
exists(SELECT 1 FROM system.one)
arrayMap(x -> file('{READ}'), [1])
if(1, file('{READ}'), '')
sumIf(1, file('{READ}') = '')
arrayMap(x -> (SELECT 1 FROM system.one), [1])
arrayJoin([file('{READ}')])
sum(hasColumnInTable('system', 'one', 'dummy')) OVER ()
CAST(file('{READ}') AS String)
file('{READ}')::String
fileIf('{READ}', 1)
sumFile(1)
"""


def attacks(functions: Iterable[str]) -> Iterator[Attack]:
    """`functions` are the table functions of the engine."""
    for name in sorted(functions):
        may = name.lower() in _OF_ARGUMENTS
        yield Attack("table function", f"SELECT * FROM {name}('{READ}')", may_answer=may)
        yield Attack(
            "table function",
            f"SELECT * FROM {name}('http://127.0.0.1:{PORT}/x', 'CSV', 'a String')",
            may_answer=may,
        )
        yield Attack("table function", f"DESCRIBE TABLE {name}('{READ}', 'CSV')")
        yield Attack(
            "insert into function", f"INSERT INTO FUNCTION {name}('{WRITE}', 'CSV', 'a String') SELECT 'x'"
        )
    for call in _FIXED.strip().splitlines():
        yield Attack("table function", f"SELECT * FROM {call}")
        yield Attack("table function", f"WITH t AS (SELECT * FROM {call}) SELECT count() FROM jobs, t")
    for table in (*_FILES, *_SYSTEM):
        yield Attack("table", f"SELECT * FROM {table}")
        yield Attack("table", f"EXPLAIN SELECT * FROM jobs JOIN {table} AS t USING (x)")
        # Quoted like that it is a name to ClickHouse, and ours with its database to us.
        yield Attack("table", f"DESCRIBE {table}", may_answer=table == "`trainfare.jobs`")
    for call in _CALLS.strip().splitlines():
        yield Attack("call", f"SELECT {call}")
        yield Attack("call", f"SELECT job_id FROM jobs WHERE isNotNull({call}) ORDER BY {call}")
    yield Attack("transformer", f"SELECT * APPLY(file) FROM values('a String', ('{READ}'))")
    yield Attack("transformer", f"SELECT * REPLACE (file('{READ}') AS a) FROM values('a String', ('x'))")
    yield Attack("transformer", "SELECT * APPLY(x -> file(x)) FROM jobs")
    yield Attack("transformer", "SELECT COLUMNS('job_id') APPLY(dictGet('x', 'y')) FROM jobs")
    yield Attack("fill", f"SELECT 1 AS n ORDER BY n WITH FILL INTERPOLATE (n AS file('{READ}'))")
    yield Attack("window", f"SELECT sum(1) OVER (ORDER BY file('{READ}'))")
    yield Attack("limit", f"SELECT 1 LIMIT (SELECT count() FROM file('{READ}', 'LineAsString'))")
    yield Attack("shadow", "SELECT * FROM (WITH passwd AS (SELECT 1) SELECT 1), passwd")
    yield Attack("shadow", "WITH `/etc/passwd` AS (SELECT 1) SELECT * FROM `/etc/passwd`")
    yield Attack("shadow", "WITH x AS (SELECT 1) SELECT * FROM default.x")
    yield Attack("shadow", "WITH one AS (SELECT 1) SELECT * FROM system.one")
    yield Attack("shadow", f"WITH x -> x AS file SELECT file('{READ}')")
    yield Attack("shadow", "WITH 'passwd' AS t SELECT 1 IN t")
    yield Attack("shadow", "WITH 'a String, b String ALIAS hostName()' AS s SELECT b FROM values(s, ('x'))")
