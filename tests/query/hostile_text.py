"""Attacks by the text: files named in statements, several statements, comments, quotes, parameters, statements that write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.query.attacks import PORT, READ, WRITE, Attack

_OUT = (
    "INTO OUTFILE '@WRITE@'", "INTO OUTFILE '@WRITE@' TRUNCATE", "INTO OUTFILE '@WRITE@' APPEND", "INTO OUTFILE '@WRITE@' AND STDOUT",
    "INTO OUTFILE '@WRITE@' COMPRESSION 'gzip'", "INTO OUTFILE '@WRITE@' COMPRESSION 'none' LEVEL 1", "INTO OUTFILE $$@WRITE@$$",
    "INTO OUTFILE $t$@WRITE@$t$ TRUNCATE FORMAT RawBLOB", "into/**/outfile '@WRITE@'", "INTO OUTFILE '@WRITE@' TRUNCATE AND STDOUT",
    "FORMAT CSV", "INTO OUTFILE '@WRITE@' SETTINGS max_threads = 1", "SETTINGS max_threads = 1 INTO OUTFILE '@WRITE@'", "FORMAT Null SETTINGS max_threads = 1",
    "INTO OUTFILE {f:String}",
)  # fmt: skip
_AROUND = (
    "SELECT 1 {out}", "(SELECT 1) {out}", "SELECT 1 UNION ALL SELECT 2 {out}", "SELECT 1 UNION ALL (SELECT 2 {out})", "EXPLAIN SELECT 1 {out}",
    "SHOW TABLES {out}", "SHOW COLUMNS FROM jobs {out}", "SELECT * FROM (SELECT 1 {out})", "DESCRIBE (SELECT 1 {out})", "DESCRIBE jobs {out}",
    "SHOW CREATE VIEW job_costs {out}", "WITH t AS (SELECT 1 {out}) SELECT * FROM t", "SELECT 1 INTERSECT SELECT 1 {out}", "DESC (SELECT 1) {out}",
)  # fmt: skip
_SECOND = f"SELECT 1 INTO OUTFILE '{WRITE}' FORMAT RawBLOB"
_SEVERAL = (
    "SELECT 1; {s}", "SELECT 1;\n{s}", "SELECT 1;;{s}", "SELECT ';'; {s}", "SELECT 1 /* ; */; {s}", "SELECT 1 -- ;\n; {s}", "SELECT $$;$$; {s}",
    "SELECT $t$';$t$; {s}", "SELECT 1 # x\n; {s}", "SELECT 1 #! x\n; {s}", "SELECT 1 // x\n; {s}", "SELECT '\\'; ', 1; {s}", "SELECT 1\\G {s}",
    "SELECT 1 /* /* */ */; {s}", "SELECT 1\u037e {s}", "SELECT 1\uff1b {s}", "/* x */ SELECT 1; {s}", "#!x\nSELECT 1; {s}", "{s}; SELECT 1",
    "SELECT 1 PARALLEL WITH {s}", "SELECT 1 PARALLEL WITH SELECT 2", "BEGIN; {s}; COMMIT", "SELECT 1; SET limit = 1", "SELECT \u2018; {s} \u2019",
    "SELECT '\u2019; {s} --'; {s}", "SELECT `;`; {s}", 'SELECT ";"; {s}', "SELECT 1 ; -- x\n {s}", "SELECT 1\x1a; {s}", "SELECT 1\u2028; {s}",
)  # fmt: skip
_STATEMENTS = f"""
SET limit = 1
SET readonly = 0
SET dialect = 'prql'
SET dialect = 'kusto'
SET allow_ddl = 1, readonly = 0
SET PROFILE 'default'
SET DEFAULT ROLE ALL TO default
USE default
USE system
DROP TABLE jobs
DROP DATABASE trainfare
DROP VIEW job_costs
TRUNCATE TABLE jobs
TRUNCATE ALL TABLES FROM trainfare
DETACH TABLE jobs
ATTACH TABLE x FROM '{READ}' (a String) ENGINE = File(CSV)
ATTACH DATABASE x
CREATE TABLE x (a String) ENGINE = File(CSV, '{READ}')
CREATE TABLE x ENGINE = Memory AS SELECT 1
CREATE TEMPORARY TABLE x (a String)
CREATE TEMPORARY TABLE x ENGINE = File(CSV, '{WRITE}') AS SELECT 1
CREATE DATABASE x ENGINE = Overlay
CREATE DATABASE x ENGINE = Filesystem('/etc')
CREATE DATABASE x ENGINE = SQLite('{READ}')
CREATE DATABASE x ENGINE = S3('http://127.0.0.1:{PORT}/')
CREATE VIEW x AS SELECT 1
CREATE MATERIALIZED VIEW x ENGINE = Memory AS SELECT 1
CREATE LIVE VIEW x AS SELECT 1
CREATE WINDOW VIEW x AS SELECT 1
CREATE FUNCTION f AS x -> x
CREATE DICTIONARY d (k UInt64) PRIMARY KEY k SOURCE(FILE(path '{READ}' format 'CSV')) LAYOUT(FLAT()) LIFETIME(1)
CREATE DICTIONARY d (k UInt64) PRIMARY KEY k SOURCE(EXECUTABLE(command 'id' format 'CSV')) LAYOUT(FLAT()) LIFETIME(1)
CREATE USER x IDENTIFIED BY 'x'
CREATE ROLE x
CREATE QUOTA x
CREATE ROW POLICY x ON jobs USING 1
CREATE SETTINGS PROFILE x
CREATE NAMED COLLECTION x AS url = 'http://127.0.0.1:{PORT}/'
CREATE WORKLOAD x
CREATE RESOURCE x (WRITE DISK d)
ALTER TABLE jobs DELETE WHERE 1
ALTER TABLE jobs UPDATE team = 'x' WHERE 1
ALTER TABLE jobs FREEZE
ALTER TABLE jobs FETCH PARTITION 1 FROM '/x'
ALTER TABLE jobs MODIFY SETTING disk = 'x'
ALTER USER default IDENTIFIED BY 'x'
INSERT INTO jobs SELECT * FROM jobs
INSERT INTO jobs (job_id) VALUES ('x')
INSERT INTO jobs FROM INFILE '{READ}' FORMAT CSV
INSERT INTO jobs FROM INFILE '{READ}' COMPRESSION 'none' SELECT * FROM jobs
INSERT INTO TABLE FUNCTION file('{WRITE}', 'CSV', 'a String') VALUES ('x')
INSERT INTO FUNCTION url('http://127.0.0.1:{PORT}/', 'CSV', 'a String') SELECT 'x'
INSERT INTO FUNCTION remote('127.0.0.1:{PORT}', 'system.one') SELECT 1
DELETE FROM jobs WHERE 1
UPDATE jobs SET team = 'x' WHERE 1
RENAME TABLE jobs TO x
EXCHANGE TABLES jobs AND attempts
OPTIMIZE TABLE jobs FINAL
UNDROP TABLE jobs
CHECK TABLE jobs
CHECK ALL TABLES
BACKUP TABLE trainfare.jobs TO File('{WRITE}')
BACKUP DATABASE trainfare TO Disk('default', 'x')
BACKUP ALL TO S3('http://127.0.0.1:{PORT}/b', 'k', 's')
RESTORE TABLE trainfare.jobs FROM File('{READ}')
KILL QUERY WHERE 1
KILL MUTATION WHERE 1
SYSTEM SHUTDOWN
SYSTEM FLUSH LOGS
SYSTEM RELOAD CONFIG
SYSTEM RELOAD DICTIONARIES
SYSTEM DROP MARK CACHE
SYSTEM START LISTEN HTTP
SYSTEM STOP MERGES
SYSTEM ENABLE FAILPOINT x
SYSTEM LOAD PRIMARY KEY
GRANT ALL ON *.* TO default
GRANT SELECT ON system.* TO default
REVOKE ALL ON *.* FROM default
EXECUTE AS default SELECT 1
EXECUTE AS default
MOVE USER x TO y
WATCH jobs
EXISTS TABLE jobs
EXISTS DATABASE default
EXISTS VIEW system.one
BEGIN TRANSACTION
COMMIT
ROLLBACK
SET TRANSACTION SNAPSHOT 1
SHOW DATABASES
SHOW PROCESSLIST
SHOW GRANTS
SHOW GRANTS FOR default
SHOW USERS
SHOW ROLES
SHOW CURRENT ROLES
SHOW PROFILES
SHOW POLICIES
SHOW QUOTAS
SHOW QUOTA
SHOW ACCESS
SHOW CLUSTERS
SHOW CLUSTER 'default'
SHOW MERGES
SHOW DICTIONARIES
SHOW FUNCTIONS
SHOW ENGINES
SHOW SETTINGS LIKE '%'
SHOW CHANGED SETTINGS ILIKE '%'
SHOW SETTING max_threads
SHOW PRIVILEGES
SHOW TEMPORARY TABLES
SHOW FILESYSTEM CACHES
SHOW TABLES FROM system
SHOW TABLES FROM default
SHOW TABLES IN information_schema
SHOW TABLES WHERE name = (SELECT name FROM system.tables LIMIT 1)
SHOW TABLES LIMIT (SELECT 1 FROM system.one)
SHOW COLUMNS FROM one FROM system
SHOW COLUMNS FROM system.one
SHOW COLUMNS FROM `{READ}`
SHOW COLUMNS FROM jobs WHERE 1 = (SELECT 1 FROM file('{READ}'))
SHOW INDEX FROM jobs
SHOW INDEXES FROM one FROM system
SHOW CREATE TABLE jobs
SHOW CREATE TABLE system.one
SHOW CREATE DATABASE trainfare
SHOW CREATE DATABASE default
SHOW CREATE USER default
SHOW CREATE ROLE x
SHOW CREATE DICTIONARY x
SHOW CREATE QUOTA default
SHOW CREATE PROFILE default
SHOW CREATE POLICY x ON jobs
SHOW CREATE TEMPORARY TABLE x
SHOW CREATE VIEW system.one
SHOW CREATE VIEW `{READ}`
SHOW CREATE job_costs; SELECT 1
SHOW CREATE NAMED COLLECTION x
DESCRIBE file('{READ}')
DESCRIBE TABLE file('{READ}', 'CSV')
DESCRIBE TABLE url('http://127.0.0.1:{PORT}/', 'CSV')
DESCRIBE (SELECT * FROM file('{READ}', 'CSV'))
DESCRIBE (SELECT * FROM system.one)
DESCRIBE (SELECT 1) SETTINGS describe_include_subcolumns = 1
DESCRIBE (SELECT 1), (SELECT * FROM system.one)
DESCRIBE (SELECT 1) UNION ALL (SELECT * FROM system.one)
DESCRIBE (SHOW TABLES)
DESCRIBE (INSERT INTO jobs SELECT 1)
DESCRIBE '{READ}'
DESCRIBE CACHE 'x'
EXPLAIN INSERT INTO jobs SELECT 1
EXPLAIN AST INSERT INTO jobs FROM INFILE '{READ}'
EXPLAIN AST DROP TABLE jobs
EXPLAIN SYNTAX SELECT * FROM file('{READ}', 'CSV')
EXPLAIN QUERY TREE SELECT * FROM url('http://127.0.0.1:{PORT}/', 'CSV')
EXPLAIN PIPELINE SELECT * FROM system.one
EXPLAIN ESTIMATE SELECT * FROM system.one
EXPLAIN TABLE OVERRIDE mysql('127.0.0.1:{PORT}', 'd', 't', 'u', 'p') COLUMNS (x String)
EXPLAIN CURRENT TRANSACTION
EXPLAIN EXPLAIN SELECT 1
EXPLAIN actions = 1, x = 2 SELECT 1
EXPLAIN SELECT 1 FORMAT Null
EXPLAIN ANALYZE SELECT 1
SELECT * FROM (EXPLAIN SELECT 1)
SELECT * FROM (SHOW TABLES)
SELECT * FROM (DESCRIBE jobs)
SELECT * FROM jobs INTO OUTFILE
TABLE jobs FORMAT CSV
COPY jobs TO '{WRITE}'
PREPARE x AS SELECT 1
EXECUTE x
FROM file('{READ}', 'CSV') SELECT *
SELECT * FROM jobs STREAM
SELECT {{x}}
SELECT @@version
jobs | take 10
from jobs | select a
"""
_TYPES = (
    "Identifier", "Nothing", "UInt8", "UInt256", "Nullable(String)", "LowCardinality(String)", "FixedString(3)", "Map(String, String)", "Tuple(String)",
    "Array(Array(String))", "Array(Array(Array(Array(String))))", "Tuple(a String, b Tuple(c String))", "Enum8('a' = 1)", "JSON", "Dynamic", "Variant(String)",
    "AggregateFunction(sum, UInt64)", "DateTime('UTC')", "DateTime64(9)", "Decimal(99, 200)x", "Nested(a String)", "UUID", "IPv4", "Point", "String, Identifier",
)  # fmt: skip
_INJECTED = (
    " AS p INTO OUTFILE $$@WRITE@$$ TRUNCATE FORMAT RawBLOB; SELECT 1 -- ", "'; DROP TABLE jobs; --", "') FROM file('@READ@') --", "\\", "\\'",
    "1 UNION ALL SELECT * FROM system.one", "`", "$$", "%(a)s", "{a:String}", "*/", "\u2019", "\n; SELECT 1",
)  # fmt: skip


def attacks(formats: Iterable[str]) -> Iterator[Attack]:
    """`formats` are those of the engine."""
    for name in sorted(formats):
        yield Attack("format", f"SELECT 1 FORMAT {name}")
        yield Attack(
            "outfile", f"SELECT job_id FROM jobs INTO OUTFILE '{WRITE}.{name}' TRUNCATE FORMAT {name}"
        )
    for around in _AROUND:
        for out in _OUT:
            given = {"f": WRITE} if "{f:" in out else {}
            yield Attack("outfile", around.replace("{out}", out), dict(given))
    for several in _SEVERAL:
        # Between typographic quotes all of it is one text, to ClickHouse too.
        yield Attack("several statements", several.replace("{s}", _SECOND), may_answer="\u2018" in several)
    for sql in _STATEMENTS.strip().splitlines():
        yield Attack("statement", sql)
        yield Attack("statement", f"/* SELECT 1 */ {sql} -- SELECT")
    for kind in _TYPES:
        yield Attack("type of a parameter", f"SELECT {{a:{kind}}}", {"a": READ})
    for text in _INJECTED:
        # Answered as a text, it means nothing; what is not bound by the server is not bound at all.
        yield Attack("parameter", "SELECT {a:String} AS x", {"a": text}, may_answer=True)
        yield Attack("parameter", "SELECT '%(a)s'", {"a": text})
        yield Attack("parameter", "SELECT %(a)s", {"a": text})
        yield Attack("parameter", "SELECT '%(a)s', {b:String}", {"a": text, "b": text})
        yield Attack("parameter", "SELECT {a:Identifier} FROM jobs", {"a": text})
        yield Attack("parameter", f"SELECT {{a:String}} {text}", {"a": "x"}, may_answer=text in ("%(a)s",))
    for sql in (
        "SELECT {a:String) AS x INTO OUTFILE '@WRITE@' --}", "SELECT {a:String} AS {b:Identifier}", "SELECT {a:{b:String}}", "SELECT {a:String", "SELECT {:String}",
        "SELECT {a b:String}", "SELECT {`a`:String}", "SELECT {a/**/:String, Identifier}", "SELECT * FROM {a:Identifier}", "SELECT * FROM {a:Identifier}.{b:Identifier}",
        "SELECT * FROM default.{a:Identifier}", "SELECT * FROM {a:String}", "SELECT * FROM file({a:String}, 'LineAsString')", "SHOW TABLES FROM {a:Identifier}",
        "SELECT 1 IN {a:Identifier}", "SELECT 1 AS {a:Identifier}", "SELECT 1 FROM jobs AS {a:Identifier}", "DESCRIBE {a:Identifier}", "SHOW CREATE {a:Identifier}",
        "SELECT 1 SETTINGS max_threads = {a:UInt64}", "SELECT 1 SETTINGS final = {a:UInt64}", "SELECT {a:Identifier}('x')", "SELECT * FROM {a:Identifier}('x')",
        "SELECT {a:UInt64} + {a:String}", "SELECT {a:Array(Identifier)}", "SELECT dictGet({a:String}, 'x', 1)",
    ):  # fmt: skip
        for given in (
            {"a": READ, "b": READ},
            {"a": "default", "b": "/etc/passwd"},
            {"a": "system", "b": "one"},
            {},
        ):
            used = {name: value for name, value in given.items() if f"{{{name}" in sql}
            yield Attack("parameter", sql, dict(used))
    yield Attack("parameter", "SELECT 1", {f"p{n}": 1 for n in range(101)})
    for sql in ("", " ", ";", "--", "/*", "/* */", "'", "`", "$$", "$t$ SELECT", "\ufeffSELECT 1;SELECT 2", "SELECT 1\0", "\x00", "(((", "SELECT",
                "SELECT " + "(" * 7_000, "SELECT 1" + " " * 16_384, "SELECT 1 --" + "x" * 16_384, "/*" * 8_000, "SELECT " + "[" * 3_000 + "]" * 3_000,
                "SELECT " + "-" * 9_000 + "1", "SELECT " + "NOT " * 4_000 + "1", "SELECT " + "CASE WHEN 1 THEN " * 800 + "1" + " END" * 800,
                "SELECT 1" + " UNION ALL SELECT 1" * 850 + " INTO OUTFILE '@WRITE@'"):  # fmt: skip
        yield Attack("odd text", sql, may_answer=sql.startswith(("SELECT [", "SELECT -", "SELECT NOT")))
