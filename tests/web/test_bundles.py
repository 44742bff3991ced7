"""The scripts that are made of the page's modules hold each of them once, as it is written."""

from __future__ import annotations

import re

import pytest

from streams.web import assets
from streams.web.bundles import JoinError, joined_scripts, joined_styles

_BLOCK = re.compile(
    r"^\{ // (\S+)\n(.*?)\n\$modules\[\"\1\"\] = \{ ([^}]*) \};\n\}$", re.MULTILINE | re.DOTALL
)
#: What differs between a module and its block: imports, the word `export`, and what is loaded later.
_CHANGED = re.compile(r"^import .*|^const .* = \$modules\[.*|^export (?!\{)|^export \{ \w+ as default \};|import\([^)]*\)(?:\.then\(\(\) => [^)]*\))?", re.MULTILINE)  # fmt: skip
_APP = {"pages.js": "", "app.js": 'import { a } from "./a.js";\na();', "a.js": "export function a() {}"}


def _blocks() -> dict[str, tuple[str, str, str]]:
    """By module: the script, the text and what is exported."""
    found = assets.load()
    made = [
        (module, path, text, names)
        for path, each in found.items()
        if path.startswith("bundle/") and path.endswith(".js")
        for module, text, names in _BLOCK.findall(each.body.decode())
    ]
    assert len({module for module, *_ in made}) == len(made), "a module is there twice"
    return {module: (path, text, names) for module, path, text, names in made}


def test_the_scripts_hold_each_module_of_the_page_as_it_is_written() -> None:
    blocks, found = _blocks(), assets.load()
    apart = {"early.js", "act.js"}
    modules = {path for path in found if path.endswith(".js") and not path.startswith("bundle/")} - apart
    assert set(blocks) == modules
    for module, (_, text, _) in blocks.items():
        assert _CHANGED.sub("", text) == _CHANGED.sub("", found[module].body.decode()), module


def test_whatever_a_module_imports_another_exports_before() -> None:
    blocks, found = _blocks(), assets.load()
    for module, (path, text, _) in blocks.items():
        script = found[path].body.decode()
        for names, other in re.findall(r'^const (\{ .* \}) = \$modules\["([^"]+)"\];', text, re.MULTILINE):
            other_path, _, exported = blocks[other]
            wanted = {each.split(":")[0].strip() for each in names.strip("{} ").split(",")}
            assert wanted <= {each.split(":")[0].strip() for each in exported.split(",")}, (module, other)
            if other_path == path:
                assert script.index(f"{{ // {other}\n") < script.index(f"{{ // {module}\n"), (module, other)


def test_modules_are_joined_by_the_pages_that_need_them() -> None:
    pages = {
        "pages.js": 'export const load = [() => import("./pages/one.js"), () => import("./pages/two.js")];',
        "app.js": 'import { load } from "./pages.js";\nload[0]();',
        "both.js": "const x = 1;\nexport { x as default };",
        "pages/one.js": 'import x from "../both.js";\nexport const Page = x;',
        "pages/two.js": 'import x from "../both.js";\nexport class Page {}',
    }
    scripts, pages_of = joined_scripts(pages)
    assert pages_of == {
        "bundle/app.js": [],
        "bundle/both.js": ["one", "two"],
        "bundle/pages/one.js": ["one"],
        "bundle/pages/two.js": ["two"],
    }
    assert scripts["bundle/pages/one.js"].splitlines() == [
        'import "../../bundle/both.js";',
        'import { $modules } from "../../bundle/app.js";',
        "{ // pages/one.js",
        'const { default: x } = $modules["both.js"];',
        "const Page = x;",
        '$modules["pages/one.js"] = { Page };',
        "}",
    ]
    late = 'import("../bundle/pages/one.js").then(() => $modules["pages/one.js"])'
    assert late in scripts["bundle/app.js"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import { b } from "./app.js";', "circle: app.js -> a.js -> app.js"),
        ("export let a = 1;", "a.js: cannot be joined with others: export let"),
        ('import * as b from "./b.js";', "cannot be joined"),
        ("const a = import.meta.url;", "cannot be joined"),
    ],
)
def test_what_cannot_be_joined_is_said(text: str, words: str) -> None:
    assert joined_scripts(_APP)[1] == {"bundle/app.js": []}
    with pytest.raises(JoinError, match=words):
        joined_scripts({**_APP, "a.js": text})


def test_style_sheets_of_a_document_become_one_in_their_order() -> None:
    document = (
        b'<p>\n<link rel="stylesheet" href="static/a.css">\n<link rel="stylesheet" href="static/b.css">\n<p>'
    )
    made, sheet = joined_styles(document, {"a.css": b"a {}", "b.css": b"b {}"}, "bundle/x.css")
    assert made == b'<p>\n<link rel="stylesheet" href="static/bundle/x.css">\n<p>'
    assert sheet == b"a {}\nb {}"
    assert joined_styles(b"<p>", {}, "bundle/x.css") == (b"<p>", b"")
