// Who changed what is on record, the newest first, and what waits for a second person. It needs a token of an admin, or such a person; it keeps none.

import { ask } from "../ask.js";
import { tell } from "../acts.js";
import { foreign, h, row, say, table, visible } from "../dom.js";
import { get, post } from "../feed.js";
import { count, instant } from "../format.js";
import { may } from "../sign_in.js";
import { csv } from "./query_values.js";

const COLUMNS = [["When", "fix"], ["Who", ""], ["From", "fix"], ["Kind", ""], ["Name", ""], ["Before", "said"], ["After", "said"], ["Why", ""]].map(([title, name]) => ({ title, class: name }));
const WAITING = ["Until", "Asked by", "Kind", "What", ""].map((title) => ({ title, class: title === "What" ? "said" : title === "Until" ? "fix" : "" }));
const FILE = ["offset", "time", "by", "proof", "address", "kind", "name", "before", "after", "comment"];
const SHOWN = 100;
const FILE_MAX = 10_000;
const SCOPES = "the scope admin (trainfare tokens create NAME --scope admin), or for requests alone act or limit";

const text = (value) => (value ? foreign(visible(String(value))) : h("span", { class: "dim" }, "–"));
const code = (value) => (value ? h("code", {}, foreign(visible(value))) : h("span", { class: "dim" }, "–"));

export class Page {
  constructor({ host }) {
    Object.assign(this, { host, token: "", next: null });
    this.state = h("p", { class: "sub", role: "status" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.read(this.next) }, "Show more");
    const button = (words, act) => h("button", { type: "button", onclick: act }, words);
    this.waiting = table(WAITING, { caption: "Requests that wait for a second person" });
    this.list = table(COLUMNS, { caption: "Changes, the newest first" });
    this.requests = h("section", { class: "panel", "aria-labelledby": "waiting-title", hidden: true }, h("h2", { id: "waiting-title" }, "Wait for a second person"), h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "waiting-title" }, this.waiting.element));
    const scroller = h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "changes-title" }, this.list.element);
    this.element = h(
      "div",
      { class: "changes" },
      h("div", { class: "page-head" }, h("h1", {}, "Changes"), h("p", { class: "sub" }, "Who changed what is on record: silences, budgets, rules, tokens, prices, repairs. ", h("code", {}, "trainfare audit"), " checks that nobody altered it.")),
      h("div", { class: "controls" }, button("Ask again", () => this.begin()), button("Give a token", () => this.give()), button("Download CSV", () => this.download())),
      this.state,
      this.requests,
      h("section", { class: "panel", "aria-labelledby": "changes-title" }, h("h2", { id: "changes-title" }, "On record"), scroller, this.more),
    );
  }

  open() {
    if (!this.element.isConnected) this.host.replaceChildren(this.element);
    this.begin();
  }

  close() {
    this.token = "";
    this.list.body.replaceChildren();
    this.waiting.body.replaceChildren();
    this.requests.hidden = true;
  }

  async give() {
    const given = await ask("Changes need a token of their own", [{ name: "token", label: `Token with ${SCOPES}`, type: "password", required: true }], "Show");
    if (given === null) return;
    this.token = given.token;
    await this.begin();
  }

  async begin() {
    if (!this.token && !may("admin") && !may("act") && !may("limit")) return say(this.state, `Give a token with ${SCOPES}.`);
    await this.readWaiting();
    await this.read(null);
  }

  async readWaiting() {
    let requests = [];
    try {
      ({ requests } = await get("approvals", { token: this.token }));
    } catch {
      // Those who have no scope to confirm see none.
    }
    this.requests.hidden = !requests.length;
    this.waiting.body.replaceChildren(...requests.map((each) => row(WAITING, [instant(each.until_ms), text(each.by), text(each.control.kind), code(JSON.stringify(each.control)), h("button", { type: "button", class: "act", onclick: () => this.confirm(each) }, "Confirm")])));
  }

  async confirm(request) {
    try {
      const written = await post("approvals", { id: request.id }, this.token);
      tell(`${written.kind} ${visible(written.name)} is in force: ${visible(written.by)}.`);
    } catch (trouble) {
      tell(`Not confirmed: ${visible(trouble.message)}.`, "bad");
    }
    await this.readWaiting();
  }

  /** The newest changes, or those before an offset. */
  async read(before) {
    if (before === null) this.list.body.replaceChildren();
    say(this.state, "Asking the store…");
    try {
      const found = await get(`changes?${new URLSearchParams({ limit: String(SHOWN), ...(before === null ? {} : { before: String(before) }) })}`, { token: this.token });
      this.list.body.append(...found.changes.map((each) => row(COLUMNS, cells(each))));
      this.next = found.before;
      this.more.hidden = this.next === null;
      say(this.state, this.list.body.children.length ? `${count(this.list.body.children.length)} shown${this.next === null ? ", all there are" : ", the newest"}.` : "Nothing was changed yet.");
    } catch (trouble) {
      this.more.hidden = true;
      say(this.state, `Not shown: ${visible(trouble.message)}.`);
    }
  }

  async download() {
    try {
      const { changes, before } = await get(`changes?limit=${FILE_MAX}`, { token: this.token });
      const rows = changes.map((each) => FILE.map((name) => (name === "time" ? new Date(each.time_ms).toISOString() : name === "after" && each.removed ? "removed" : each[name])));
      const url = URL.createObjectURL(new Blob([csv({ columns: FILE, types: FILE.map(() => "String"), rows })], { type: "text/csv" }));
      h("a", { href: url, download: "trainfare-changes.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
      if (before !== null) say(this.state, `The file has the newest ${count(FILE_MAX)}: trainfare audit changes --format csv has all.`);
    } catch (trouble) {
      say(this.state, `Not written: ${visible(trouble.message)}.`);
    }
  }
}

function cells(each) {
  const proof = each.proof || "topic";
  const who = h("span", { title: `proven by: ${visible(proof)}` }, text(each.by || proof));
  return [instant(each.time_ms), who, text(each.address), text(each.kind), text(each.name), code(each.before), each.removed ? "removed" : code(each.after), text(each.comment)];
}
