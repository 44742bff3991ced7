// The tables and views that SQL may name, with their columns, beside the statement; and examples to begin with.

import { foreign, h, say } from "../dom.js";
import { get } from "../feed.js";

export class Tables {
  constructor({ onPick, onExample }) {
    Object.assign(this, { onPick, onExample, tables: null, examples: [], reading: false });
    this.filter = h("input", { type: "search", id: "query-find", autocomplete: "off", spellcheck: "false", oninput: () => this.render() });
    this.example = h("select", { id: "query-example", onchange: () => this.take() });
    this.said = h("p", { class: "sub", role: "status" });
    this.list = h("div", { class: "query-tables" });
    this.element = h(
      "section",
      { class: "panel query-side", "aria-labelledby": "query-tables-title" },
      h("h2", { id: "query-tables-title" }, "Tables and views"),
      h("label", { for: "query-example" }, "Take an example"),
      this.example,
      h("label", { for: "query-find" }, "Find a table or a column"),
      this.filter,
      this.said,
      this.list,
    );
  }

  async read() {
    if (this.tables !== null || this.reading) return;
    this.reading = true;
    const slow = setTimeout(() => say(this.said, "Reading the tables…"), 300);
    try {
      const found = await get("tables");
      this.tables = found.tables;
      this.examples = found.examples;
      this.example.replaceChildren(h("option", { value: "" }, "Choose…"), ...this.examples.map(({ title }, at) => h("option", { value: String(at) }, title)));
      this.render();
    } catch (trouble) {
      say(this.said, `The tables cannot be listed: ${trouble.message}. SHOW TABLES and DESCRIBE name do so too.`);
    } finally {
      clearTimeout(slow);
      this.reading = false;
    }
  }

  take() {
    const found = this.examples[Number(this.example.value)];
    if (this.example.value !== "" && found) this.onExample(found.sql);
    this.example.value = "";
  }

  render() {
    if (this.tables === null) return;
    const wanted = this.filter.value.trim().toLowerCase();
    const has = (table) => table.name.toLowerCase().includes(wanted) || table.columns.some((column) => column.name.toLowerCase().includes(wanted));
    const shown = wanted ? this.tables.filter(has) : this.tables;
    const views = this.tables.filter((table) => table.is_view).length;
    say(this.said, wanted ? (shown.length ? `${shown.length} of ${this.tables.length}` : "No table or column has this in its name.") : `${views} views, which have current rows, and ${this.tables.length - views} tables`);
    this.list.replaceChildren(...shown.map((table) => this.item(table, wanted)));
  }

  item(table, wanted) {
    const body = h("div", {});
    const details = h("details", {}, h("summary", {}, h("code", {}, foreign(table.name)), h("span", { class: "dim" }, table.is_view ? " view" : " table")), body);
    // Columns are many: they are made when they are looked at.
    const fill = () => {
      if (body.children.length) return;
      const all = h("button", { type: "button", onclick: () => this.onExample(`SELECT *\nFROM ${table.name}\nLIMIT 100`) }, "Its first rows");
      const columns = table.columns.map(({ name, type }) =>
        h("li", { class: wanted && name.toLowerCase().includes(wanted) ? "found" : null }, h("button", { type: "button", class: "plain", title: `Put ${name} into the statement`, onclick: () => this.onPick(name) }, foreign(name)), h("span", { class: "dim" }, ` ${type}`)),
      );
      body.append(...(table.about ? [h("p", { class: "sub" }, table.about)] : []), h("p", {}, all), h("ul", {}, columns));
    };
    details.addEventListener("toggle", fill);
    if (wanted && !table.name.toLowerCase().includes(wanted)) {
      details.open = true;
      fill();
    }
    return details;
  }
}
