"""The page's files: what was there at the start, with types, tags and compression."""

from __future__ import annotations

import json
import re
from pathlib import Path
from posixpath import normpath

from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts import meter_rules
from streams.engine.rules.registry import ALL, PLANNED_QUIETS
from streams.web import assets
from tests.web.serving import Client, served


def test_types_tags_and_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "index.html").write_text("<p>" * 400)
    (tmp_path / "deep" / "app.js").write_text("1")
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "font.woff2").write_bytes(b"\0")
    (tmp_path / ".secret").write_text("x")
    found = assets.load(tmp_path)
    assert {path: each.type for path, each in found.items()} == {
        "index.html": "text/html; charset=utf-8",
        "deep/app.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml; charset=utf-8",
        "font.woff2": "font/woff2",
    }
    assert found["index.html"].compressed is not None
    assert found["deep/app.js"].compressed is None, "too small to be worth it"
    assert assets.load(tmp_path / "nothing") == {}


def test_a_browser_that_has_the_file_is_told_so(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        url = f"{client.server.url}/"
        async with client.session.get(url) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/html"
            assert answer.headers["Content-Encoding"] == "gzip"
            tag = answer.headers["ETag"]
            text = await answer.text()
        async with client.session.get(url, headers={"If-None-Match": tag}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with client.session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
            assert await answer.text() == text
        async with client.session.head(url) as answer:
            assert answer.status == 200

    served(store, work)


_LINK = r'data-pages="([^"]+)" href="static/v/[0-9a-f]{16}/(bundle/[^"]+)"'


def test_every_script_of_a_page_is_asked_for_at_once() -> None:
    found = assets.load()
    document = found[assets.INDEX_FILE].body.decode()
    prefix = f"static/v/{found.version}/"
    of_pages = {path: set(pages.split()) for pages, path in re.findall(_LINK, document)}
    names = re.findall(r'import\("\./pages/(\w+)\.js"\)', found["pages.js"].body.decode())
    assert len(names) >= 8
    assert {name for pages in of_pages.values() for name in pages} == set(names)
    for path, pages in of_pages.items():
        text = found[path].body.decode()
        for other in re.findall(r'^import (?:\{ \$modules \} from )?"([^"]+)";$', text, re.MULTILINE):
            asked = normpath(f"{path}/../{other}")
            assert asked == "bundle/app.js" or pages <= of_pages[asked], f"{path} imports {other}"
    for name in names:
        assert name in of_pages[f"bundle/pages/{name}.js"]
    early, board = document.index(f"{prefix}early.js"), document.index(f"{prefix}bundle/app.js")
    assert document.rindex("data-pages") < early < board, "it names what stands above"


def test_files_of_this_version_are_kept_for_good_and_of_no_other(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        async with client.session.get(f"{client.server.url}/") as answer:
            document = await answer.text()
            assert answer.headers["Cache-Control"] == "no-cache"
        addresses = re.findall(r'="(static/[^"]+)"', document)
        assert len(addresses) > 10
        (version,) = {address.split("/")[2] for address in addresses}
        bodies = []
        for address, caching in (
            (f"static/v/{version}/dom.js", "max-age=31536000, immutable"),
            (f"static/v/{version[::-1]}/dom.js", "no-cache"),
            ("static/dom.js", "no-cache"),
        ):
            async with client.session.get(f"{client.server.url}/{address}") as answer:
                assert (answer.status, answer.headers["Cache-Control"]) == (200, caching), address
                bodies.append(await answer.read())
        assert len(set(bodies)) == 1
        for address in ("none.js", "", "..%2fserver.py", f"v/{version}/dom.js", "\n"):
            async with client.session.get(f"{client.server.url}/static/v/{version}/{address}") as answer:
                assert answer.status == 404, address

    served(store, work)


def test_the_page_names_every_rule_as_the_rules_do() -> None:
    text = assets.load()[assets.RULES_FILE].body.decode()
    titles = json.loads(text.partition("export const RULES = ")[2].partition(";\n")[0])
    assert titles == {rule.name: rule.title for rule in ALL} | meter_rules.TITLES
    assert len(set(titles.values())) == len(titles)
    found = re.search(r"PLANNED_QUIETS = new Set\(\[(.*?)\]\)", text)
    assert found is not None
    assert tuple(re.findall(r'"(\w+)"', found[1])) == PLANNED_QUIETS
