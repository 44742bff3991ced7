// SQL over the store: written here or brought by a link, run when the reader says so, answered as a table and as a file.

import { foreign, h, say, visible } from "../dom.js";
import { address, go, here } from "../route.js";
import { ask } from "../ask.js";
import { Answer } from "./query_answer.js";
import { fromAddress, Parameters, toAddress } from "./query_parameters.js";
import { Tables } from "./query_tables.js";
import { may } from "../sign_in.js";

const KEY = "trainfare.query-token";
const UNTIL = `${KEY}.until-ms`;
const HISTORY = "trainfare.queries";
const HOUR_MS = 3_600_000;
const KEPT = 30;
const SLOW_MS = 300;
const TYPED_MS = 400;
const MAX_BYTES = 16_384;
const WORDS = "the scope query: web.query_token or web.token (TRAINFARE_WEB_QUERY_TOKEN, TRAINFARE_WEB_TOKEN); of a trainfare serve it is in the file token of its data directory";

/** The line of a statement that is wrong, and a caret under the place. */
export function pointed(sql, { line, column }) {
  const text = (sql.split("\n")[line - 1] ?? "").replaceAll("\t", " ");
  const characters = [...text];
  const first = Math.max(0, column - 1 - 40);
  return `${visible(characters.slice(first, column + 40).join(""))}\n${" ".repeat(visible(characters.slice(first, column - 1).join("")).length)}^`;
}

/** What of a text neither shows nor stands where it seems to; line ends and tabs are no such thing. */
export function hidden(text) {
  const found = visible(text.replace(/[\n\r\t]/g, "")).match(/\\u\{[0-9a-f]+\}/g) ?? [];
  const own = text.match(/\\u\{[0-9a-f]+\}/g) ?? [];
  return [...new Set(found.filter((each) => !own.includes(each)))];
}

/** A statement with its values, to compare it with another one. */
const keyOf = (sql, values = {}) => JSON.stringify([sql, Object.entries(values).filter(([, value]) => value !== "").sort()]);

/** A link's text that is not run unless the reader says so. */
export class Page {
  constructor({ host }) {
    this.host = host;
    this.running = null;
    this.ran = null;
    this.written = null;
    this.tables = new Tables({ onPick: (text) => this.insert(text), onExample: (sql) => this.set(sql, { focus: true }) });
    this.drawn = "";
    this.parameters = new Parameters({ onChange: () => this.typed() });
    this.answer = new Answer({ onChoose: (column) => this.draw(column) });
    this.editor = h("textarea", { id: "query-sql", rows: 9, spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "soft", "aria-describedby": "query-keys", dir: "ltr", placeholder: "SELECT team, sum(cost_usd) AS usd FROM job_costs GROUP BY team ORDER BY usd DESC" });
    this.runButton = h("button", { type: "submit", class: "go" }, "Run");
    this.cancelButton = h("button", { type: "button", hidden: true, onclick: () => this.running?.abort() }, "Cancel");
    this.linkButton = h("button", { type: "button", onclick: () => this.copyLink() }, "Copy the link");
    this.history = h("select", { id: "query-history", onchange: () => this.recall() });
    this.brought = h("p", { class: "notice brought", role: "status", hidden: true });
    this.strange = h("p", { class: "notice", role: "status", hidden: true });
    this.fault = h("div", { class: "notice query-fault", role: "alert", hidden: true });
    this.state = h("p", { class: "sub", role: "status" });
    const form = h(
      "form",
      { class: "query-form" },
      h("label", { for: "query-sql" }, "SQL, one statement that only reads"),
      this.brought,
      this.strange,
      this.editor,
      this.parameters.element,
      h("p", { class: "query-line" }, this.runButton, this.cancelButton, this.linkButton, h("span", { class: "sub", id: "query-keys" }, h("kbd", {}, "Ctrl"), "+", h("kbd", {}, "Enter"), " runs it")),
      h("p", { class: "query-line" }, h("label", { for: "query-history" }, "Asked before in this browser"), this.history, h("button", { type: "button", class: "plain", onclick: () => this.forget() }, "Forget them")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.editor.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      }
    });
    this.editor.addEventListener("input", () => this.typed());
    this.element = h(
      "div",
      { class: "query" },
      h("div", { class: "page-head" }, h("h1", {}, "Query"), h("p", { class: "sub" }, "Read-only SQL over the ledger and its views, within the limits of ", h("code", {}, "query.max_execution_time_ms"), " and ", h("code", {}, "query.max_memory_bytes"), ".")),
      h("div", { class: "query-parts" }, h("div", { class: "query-main" }, h("section", { class: "panel", "aria-label": "Statement" }, form, this.fault), this.state, this.answer.element), this.tables.element),
    );
  }

  open(state) {
    if (!this.element.isConnected) this.host.replaceChildren(this.element);
    this.tables.read();
    this.listHistory();
    const sql = state.get("sql") ?? "";
    this.drawn = state.get("y") ?? "";
    const key = keyOf(sql, fromAddress(state));
    if (key === this.written) this.written = null;
    else if (key !== this.key) {
      this.editor.value = sql;
      this.parameters.show(sql, fromAddress(state));
      this.fault.hidden = true;
      if (this.ran?.key !== key) this.clear();
      // Only what somebody else may have written is pointed out: a link must not make the reader's token read anything.
      const isOwn = sql === "" || this.ran?.key === key || remembered().some((each) => keyOf(each.sql, each.values) === key);
      this.bring(isOwn ? "" : "This query came with the address and has not run. Read it, then press Run.");
    }
    this.look();
  }

  close() {
    this.running?.abort();
    clearTimeout(this.timer);
  }

  get key() {
    return keyOf(this.editor.value, this.parameters.values);
  }

  /** What the reader types stands in the address, so that it can be sent on; the first letter after a run begins a new entry. */
  typed() {
    this.bring("");
    this.parameters.show(this.editor.value);
    this.look();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), TYPED_MS);
  }

  write() {
    clearTimeout(this.timer);
    const { key } = this;
    const { state } = here();
    const shown = keyOf(state.get("sql") ?? "", fromAddress(state));
    const isNext = this.ran !== null && shown === this.ran.key;
    const to = address("query", { sql: this.editor.value, ...toAddress(this.parameters.values), y: key === shown ? this.drawn : "" });
    if (to === location.hash) return;
    this.written = key; // the address says so only later, when more may have been typed
    go(to, { replace: !isNext });
  }

  /** A column was chosen to be drawn. */
  draw(column) {
    this.drawn = column;
    const { state } = here();
    go(address("query", { sql: state.get("sql"), ...toAddress(fromAddress(state)), y: column }), { replace: true });
  }

  set(sql, { focus = false, values = {} } = {}) {
    this.editor.value = sql;
    this.parameters.show(sql, values);
    this.fault.hidden = true;
    this.typed();
    this.write();
    if (focus) this.editor.focus();
  }

  insert(text) {
    const { editor } = this;
    editor.setRangeText(text, editor.selectionStart, editor.selectionEnd, "end");
    editor.focus();
    this.typed();
  }

  bring(words) {
    say(this.brought, words);
    this.brought.hidden = !words;
  }

  /** Say what of the text does not show. */
  look() {
    const found = hidden([this.editor.value, ...Object.values(this.parameters.values)].join("\n"));
    this.strange.hidden = found.length === 0;
    say(this.strange, found.length ? `This text has characters that do not show or turn its direction: ${found.join(" ")}. It may run as something else than it looks like.` : "");
  }

  clear() {
    this.answer.clear();
    say(this.state, "");
  }

  async run() {
    const sql = this.editor.value;
    this.write();
    this.bring("");
    this.fault.hidden = true;
    if (!sql.trim()) return this.fail("There is nothing to run: write a statement, or take an example.");
    if (new TextEncoder().encode(sql).length > MAX_BYTES) return this.fail(`The statement is longer than ${MAX_BYTES.toLocaleString("en-US")} bytes; that is the most that the meter takes.`);
    if (this.running) return;
    const { values } = this.parameters;
    const { json, fault } = this.parameters.sent();
    if (fault) return this.fail(fault);
    const token = await this.token();
    if (token === null) return;
    this.running = new AbortController();
    this.cancelButton.hidden = false;
    this.runButton.disabled = true;
    this.answer.dim(true);
    const began = performance.now();
    const slow = setInterval(() => say(this.state, `Running for ${((performance.now() - began) / 1000).toFixed(1)} s; Cancel ends it.`), SLOW_MS);
    try {
      const { answer, read } = await post(`{"sql":${JSON.stringify(sql)},"parameters":${json}}`, token, this.running.signal);
      const took = performance.now() - began;
      this.keep(token, sql, values);
      this.ran = { sql, key: keyOf(sql, values) };
      this.answer.show(answer, this.drawn);
      say(this.state, this.answer.sentence(took, read));
    } catch (trouble) {
      say(this.state, "");
      if (trouble.name === "AbortError") say(this.state, "Cancelled.");
      else this.refused(trouble, sql);
    } finally {
      clearInterval(slow);
      this.answer.dim(false);
      this.running = null;
      this.cancelButton.hidden = true;
      this.runButton.disabled = false;
    }
  }

  refused(trouble, sql) {
    this.clear();
    if (trouble.status === 401 || trouble.status === 403) {
      sessionStorage.removeItem(KEY);
      return this.fail(`Not run: ${trouble.message}. SQL needs a token with ${WORDS}. Press Run to give another.`);
    }
    const again = [0, 429, 503].includes(trouble.status) ? " Try again in a few seconds." : "";
    this.fail(`${trouble.message}${/[.!?]$/.test(trouble.message) ? "" : "."}${again}`, trouble.place ? pointed(sql, trouble.place) : "");
    if (trouble.place) this.point(sql, trouble.place);
  }

  /** Put the cursor where the statement does not parse. */
  point(sql, { line, column }) {
    const lines = sql.split("\n");
    const before = lines.slice(0, line - 1).reduce((all, each) => all + each.length + 1, 0);
    const at = before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    this.editor.focus();
    this.editor.setSelectionRange(at, at);
  }

  fail(words, caret = "") {
    this.fault.replaceChildren(h("p", {}, foreign(visible(words))), ...(caret ? [h("pre", { class: "caret" }, caret)] : []));
    this.fault.hidden = false;
  }

  /** The token that may ask SQL: asked for once, kept for this tab alone until an hour after the last query. */
  async token() {
    if (Number(sessionStorage.getItem(UNTIL) ?? Infinity) < Date.now()) sessionStorage.removeItem(KEY);
    const kept = sessionStorage.getItem(KEY);
    if (kept) return kept;
    if (may("query")) return ""; // the cookie says who asks
    const given = await ask("SQL needs a token of its own", [{ name: "token", label: `Token with ${WORDS}`, type: "password", required: true }], "Run");
    return given?.token ?? null;
  }

  keep(token, sql, values) {
    if (token) sessionStorage.setItem(KEY, token);
    sessionStorage.setItem(UNTIL, String(Date.now() + HOUR_MS));
    const key = keyOf(sql, values);
    const others = remembered().filter((each) => keyOf(each.sql, each.values) !== key);
    const given = Object.keys(values).length ? { values } : {};
    store([{ sql, ...given, at_ms: Date.now() }, ...others].slice(0, KEPT));
    this.listHistory();
  }

  listHistory() {
    const all = remembered();
    const first = h("option", { value: "" }, all.length ? `${all.length} ${all.length === 1 ? "query" : "queries"}` : "none yet");
    this.history.replaceChildren(first, ...all.map(({ sql, values }, at) => h("option", { value: String(at) }, visible(`${sql.replace(/\s+/g, " ").slice(0, 100)}${values ? ` (${Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", ").slice(0, 60)})` : ""}`))));
    this.history.disabled = all.length === 0;
  }

  recall() {
    const found = remembered()[Number(this.history.value)];
    if (this.history.value !== "" && found) this.set(found.sql, { focus: true, values: found.values });
    this.history.value = "";
  }

  forget() {
    store([]);
    this.listHistory();
  }

  async copyLink() {
    this.write();
    try {
      await navigator.clipboard.writeText(location.href);
      say(this.state, "The link is copied. Whoever opens it sees the statement; it does not run by itself.");
    } catch {
      say(this.state, "Copy the link from the address bar: this browser gives no clipboard here.");
    }
  }
}

const isTexts = (values) => typeof values === "object" && values !== null && Object.values(values).every((each) => typeof each === "string");

/** The queries that this browser has run, the last first. */
function remembered() {
  try {
    const found = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.sql === "string" && (each.values === undefined || isTexts(each.values))) : [];
  } catch {
    return [];
  }
}

function store(queries) {
  try {
    if (queries.length) localStorage.setItem(HISTORY, JSON.stringify(queries));
    else localStorage.removeItem(HISTORY);
  } catch {
    // Full, or switched off: the query ran, it is only not remembered.
  }
}

async function post(body, token, signal) {
  let response;
  try {
    response = await fetch("api/v1/query", { method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) }, body, cache: "no-store", signal });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw Object.assign(new Error(`the meter at ${location.host} does not answer`), { status: 0 });
  }
  const answer = await response.json().catch((fault) => {
    if (fault.name === "AbortError") throw fault;
    return null;
  });
  if (response.ok && answer !== null) {
    const header = (name) => (response.headers.has(name) ? Number(response.headers.get(name)) : null);
    return { answer, read: { rows: header("X-Rows-Read"), bytes: header("X-Bytes-Read") } };
  }
  const { message, line, column } = answer?.error ?? {};
  throw Object.assign(new Error(message ?? `the meter answered ${response.status}`), { status: response.status, place: line ? { line, column } : null });
}

