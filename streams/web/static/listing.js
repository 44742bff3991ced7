// A list that the page holds as a whole: searched, filtered, sorted and shown fifty rows at a time. All of its state is in the address.

import { even, h, mark, reconcile, say, table, row } from "./dom.js";
import { go } from "./route.js";
import { plural } from "./format.js";

export const PAGE_ROWS = 50;
const TYPED_MS = 200;
const whole = (number) => number.toLocaleString("en-US");

/** The rows that the state names, in its order: those of its page, how many match, which page it is. */
export function chosen(rows, { columns, kinds, text, state, usual }) {
  const words = (state.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const holds = kinds[state.get("show") ?? ""]?.holds ?? (() => true);
  const matched = rows.filter((each) => holds(each) && words.every((word) => text(each).toLowerCase().includes(word)));
  const column = columns.find((each) => each.sort && each.sort === state.get("sort")) ?? columns.find((each) => each.sort === usual);
  const up = state.has("dir") ? state.get("dir") === "asc" : Boolean(column.up);
  const valued = matched.map((each) => [column.of(each), each]);
  // What has no value comes last, whatever the direction; equal rows stay as they came.
  valued.sort(([one], [other]) => (one === null) - (other === null) || (one === other ? 0 : (one < other) === up ? -1 : 1));
  const pages = Math.max(1, Math.ceil(matched.length / PAGE_ROWS));
  const page = Math.min(pages, Math.max(1, Math.trunc(Number(state.get("page"))) || 1));
  const first = (page - 1) * PAGE_ROWS;
  return { shown: valued.slice(first, first + PAGE_ROWS).map(([, each]) => each), matched: matched.length, column, up, page, pages, first };
}

export class Listing {
  /**
   * `caption`: of the table; `noun`: of a row; `id`: what the ids of its fields begin with; `search`: what is searched.
   * `hash(changes)`: the address with some of its parts changed.
   */
  constructor({ caption, noun, id, search, hash }) {
    Object.assign(this, { caption, noun, hash, focus: null });
    this.search = h("input", { type: "search", id: `${id}-q`, name: "q", placeholder: search, maxlength: 256, autocomplete: "off", spellcheck: "false" });
    this.kind = h("select", { id: `${id}-show`, name: "show" });
    this.order = h("select", { id: `${id}-sort`, name: "sort" });
    this.count = h("p", { class: "count", role: "status" });
    this.form = h(
      "form",
      { class: "controls", role: "search", "aria-label": `Filter: ${caption}`, onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Search", this.search),
      h("label", {}, "Show", this.kind),
      h("label", { class: "order" }, "Sort by", this.order),
      this.count,
    );
    this.form.addEventListener("input", (event) => this.changed(event.target));
    this.scroller = h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": caption });
    this.empty = h("p", { class: "empty", hidden: true }, `No ${noun} is like that. `, (this.clear = h("a", {}, "Show all")));
    this.previous = h("a", { class: "button", rel: "prev" }, "← Previous");
    this.next = h("a", { class: "button", rel: "next" }, "Next →");
    for (const link of [this.previous, this.next]) link.addEventListener("click", () => (this.focus = "top"));
    this.said = h("span", { class: "dim" });
    this.pager = h("nav", { class: "pager", "aria-label": `Pages: ${caption}`, hidden: true }, this.previous, this.said, this.next);
    this.element = h("div", { class: "listing" }, this.form, this.scroller, this.empty, this.pager);
  }

  /**
   * `columns`: of `table`, with `sort` (its name in the address), `of` (a row's value, null: it has none) and `up` (from the least on) where they sort;
   * `kinds`: `{ name: { words, holds } }`, "" are all; `text`: what is searched of a row; `cells`: of a row; `usual`: the name of the usual order.
   */
  draw(rows, { columns, kinds, text, keyOf, cells, state, usual }) {
    const found = chosen(rows, { columns, kinds, text, state, usual });
    this.sorted = { name: found.column.sort, up: found.up, usual };
    this.columns = columns;
    this.build(columns);
    for (const [column, head] of this.heads) mark(head, "aria-sort", column === found.column.sort ? (found.up ? "ascending" : "descending") : null);
    offer(this.kind, Object.entries(kinds).map(([value, { words }]) => [value, words]), state.get("show") ?? "");
    offer(this.order, columns.filter((each) => each.sort).map((each) => [each.sort, each.title]), found.column.sort);
    if (!this.typing && this.search.value.trim() !== (state.get("q") ?? "")) this.search.value = state.get("q") ?? "";
    reconcile(this.table.body, found.shown, keyOf, () => h("tr", { role: "row" }), (element, each) => renew(element, row(columns, cells(each))));
    even(this.table.element);
    say(this.count, found.matched < rows.length ? `${whole(found.matched)} of ${plural(rows.length, this.noun)}` : plural(rows.length, this.noun));
    this.scroller.hidden = found.matched === 0;
    this.empty.hidden = found.matched > 0;
    this.clear.href = this.hash({ q: "", show: "", page: "" });
    this.pager.hidden = found.pages === 1;
    say(this.said, `Rows ${whole(found.first + 1)} to ${whole(found.first + found.shown.length)} of ${whole(found.matched)}`);
    for (const [link, page] of [[this.previous, found.page - 1], [this.next, found.page + 1]]) {
      link.hidden = page < 1 || page > found.pages;
      if (!link.hidden) link.href = this.hash({ page: page === 1 ? "" : String(page) });
    }
    this.settle();
  }

  /** The table is made anew when its columns are others. */
  build(columns) {
    const titles = columns.map((each) => each.title).join("\u0000");
    if (this.titles === titles) return;
    this.titles = titles;
    this.heads = new Map();
    this.table = table(columns, { caption: this.caption });
    for (const [index, head] of [...this.table.head.children].entries()) {
      const { sort, title } = columns[index];
      if (!sort) continue;
      this.heads.set(sort, head);
      // On a phone the order is chosen above, and the head is for those who hear it.
      head.replaceChildren(h("button", { type: "button", class: "sort", onclick: () => this.sortBy(sort, true) }, title, h("span", { class: "arrow", "aria-hidden": "true" })), h("span", { class: "head-words" }, title));
    }
    this.table.body.addEventListener("keydown", (event) => this.moved(event));
    this.scroller.replaceChildren(this.table.element);
  }

  changed(field) {
    clearTimeout(this.typing);
    this.typing = null;
    if (field === this.order) return this.sortBy(field.value, false);
    const set = () => {
      this.typing = null;
      go(this.hash({ q: this.search.value.trim(), show: this.kind.value, page: "" }), { replace: true });
    };
    if (field === this.search) this.typing = setTimeout(set, TYPED_MS);
    else set();
  }

  sortBy(name, turns) {
    const natural = Boolean(this.columns.find((each) => each.sort === name).up);
    const up = turns && name === this.sorted.name ? !this.sorted.up : natural;
    go(this.hash({ sort: name === this.sorted.usual ? "" : name, dir: up === natural ? "" : up ? "asc" : "desc", page: "" }), { replace: true });
  }

  /** Arrows go from row to row; beyond the last one the next page begins. */
  moved(event) {
    const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const from = way && event.target.closest("tr");
    if (!from) return;
    const to = from[way]?.querySelector("a");
    const page = event.key === "ArrowDown" ? this.next : this.previous;
    if (!to && page.hidden) return;
    event.preventDefault();
    if (to) return to.focus();
    this.focus = event.key === "ArrowDown" ? "first" : "last";
    go(page.getAttribute("href"));
  }

  /** Where the focus goes on a page that was turned to. */
  settle() {
    const links = [...this.table.body.querySelectorAll("tr")].map((each) => each.querySelector("a")).filter(Boolean);
    if (this.focus === "top") this.form.scrollIntoView({ block: "start" });
    else if (this.focus) (this.focus === "first" ? links[0] : links.at(-1))?.focus();
    this.focus = null;
  }
}

function offer(select, options, value) {
  const key = JSON.stringify(options);
  if (select.offered !== key) {
    select.offered = key;
    select.replaceChildren(...options.map(([each, words]) => h("option", { value: each }, words)));
  }
  select.value = value;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

/** Only the cells that say something else are put in, so that the others keep the focus. */
function renew(element, fresh) {
  const cells = [...fresh.children];
  if (element.children.length !== cells.length) return element.replaceChildren(...cells);
  for (const [index, cell] of cells.entries()) if (!element.children[index].isEqualNode(cell)) element.children[index].replaceWith(cell);
}
