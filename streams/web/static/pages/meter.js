// Whether the meter can be trusted now: what is wrong with what mends it, how far it is, what it left out.

import { foreign, h, row, say, table, visible } from "../dom.js";
import { address } from "../route.js";
import { get } from "../feed.js";
import { count, duration, instant, plural, stamp } from "../format.js";

const EVERY_MS = 5_000;
const SLOW_MS = 300;
const SHARDS = 64;
const BOOKS = 64;
const LETTERS_SQL = "SELECT topic, partition, offset, time, reason, detail\nFROM dead_letters\nORDER BY time DESC\nLIMIT 100";
const UNPRICED_SQL = "SELECT job_id, component, unit, sum(quantity) AS quantity\nFROM ledger\nWHERE sku = ''\nGROUP BY ALL\nORDER BY quantity DESC\nLIMIT 100";

/** What there is to say where nobody meters. */
const AT_REST = new Set(["Newest event", "Last audit", "Messages"]);
const BYTES = ["B", "KiB", "MiB", "GiB"];
const OUTCOMES = { applied: "metered", unattributed: "samples of GPUs that no job has", duplicate: "duplicates", too_late: "too late", dead_lettered: "refused" };

function size(bytes) {
  const power = bytes < 1 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${count(bytes / 2 ** (10 * power))} ${BYTES[power]}`;
}

const ago = (ms) => (ms === null || ms === undefined ? "not yet" : duration(Math.max(0, ms)));
const shown = (text) => foreign(visible(String(text)));

/** A mark in words and shape, so that colour is not alone. */
function sign(ok, words = ok ? "holds" : "does not hold") {
  return h("span", { class: "sign", "data-ok": ok ? "yes" : "no" }, `${ok ? "✓" : "✗"} ${words}`);
}

/** Where more stands about a fault: a link where the address of the documentation is set, else the path. */
function docsLink(docsUrl, path) {
  const place = h("code", {}, path);
  return docsUrl ? h("a", { href: `${docsUrl}/${path.replace(/^docs\//, "")}`, rel: "noreferrer" }, "How to mend it: ", place) : place;
}

function panel(title, id, ...rest) {
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...rest);
}

function scroller(id, element) {
  return h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": id }, element);
}

export class Page {
  constructor({ host }) {
    this.host = host;
    this.state = h("p", { class: "sub", role: "status" });
    this.fault = h("p", { class: "notice", role: "alert", hidden: true });
    this.parts = h("div", { class: "meter-parts" });
    this.element = h("div", { class: "meter" }, h("div", { class: "page-head" }, h("h1", {}, "Meter"), this.state), this.fault, this.parts);
    this.report = null;
    this.drawn = "";
  }

  open() {
    if (!this.element.isConnected) this.host.replaceChildren(this.element);
    if (this.timer === undefined) this.round();
  }

  close() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  async round() {
    this.timer = null;
    await this.read();
    if (this.timer === null) this.timer = setTimeout(() => this.round(), EVERY_MS);
  }

  async read() {
    if (document.hidden && this.report) return;
    const slow = setTimeout(() => {
      if (this.report === null) say(this.state, "Asking the meter…");
      else if (this.fault.hidden) this.parts.classList.add("dimmed");
    }, this.report === null ? SLOW_MS : 10 * SLOW_MS);
    try {
      this.report = await get("meter");
      this.fault.hidden = true;
      this.draw();
    } catch (trouble) {
      this.fault.hidden = trouble.status === 401; // the page asks for the token
      say(this.fault, `The meter does not say how it is: ${visible(trouble.message)}. ${trouble.status === 0 ? "See that the worker runs." : "It is asked again."}`);
      if (this.report) say(this.state, "The figures below are older.");
    } finally {
      clearTimeout(slow);
      this.parts.classList.remove("dimmed");
    }
  }

  draw() {
    const { report } = this;
    const wrong = report.wrong.length;
    say(this.state, `version ${report.version}, Python ${report.python}${report.as_of_ms ? `, figures of ${instant(report.as_of_ms)}` : ""}`);
    const key = JSON.stringify(report);
    if (key === this.drawn) return;
    this.drawn = key;
    // What is open, or has the focus, stays so though its figures are new.
    const open = new Set([...this.parts.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    const focused = this.parts.contains(document.activeElement) ? document.activeElement.dataset.key ?? document.activeElement.getAttribute("href") : null;
    this.parts.replaceChildren(
      this.verdict(report, wrong),
      this.tiles(report),
      this.lag(report),
      this.audit(report),
      this.sources(report),
      this.letters(report),
      this.unpriced(report),
      this.rest(report),
    );
    for (const each of this.parts.querySelectorAll("details")) each.open = open.has(each.dataset.key);
    if (focused) [...this.parts.querySelectorAll("[data-key], a[href]")].find((each) => (each.dataset.key ?? each.getAttribute("href")) === focused)?.focus({ preventScroll: true });
  }

  verdict({ wrong, store_fault: storeFault, ready, docs_url: docsUrl }) {
    const all = storeFault === null ? wrong : [{ what: "store", said: `The store does not answer: ${storeFault}`, mends: "what it knows (sources, dead letters, unpriced quantities, messages) is missing below; see that ClickHouse runs", docs: "docs/trouble.md#store-unavailable" }, ...wrong];
    const words = all.length ? `${plural(all.length, "thing")} to mend` : "Nothing is wrong that the meter knows of";
    const items = all.map(({ said, mends, docs }) => h("li", {}, h("p", { class: "said" }, "✗ ", shown(said)), h("p", { class: "mends" }, h("b", {}, "What mends it: "), shown(mends)), h("p", { class: "sub" }, docsLink(docsUrl, docs))));
    return h("section", { class: "panel meter-verdict", "data-ok": all.length ? "no" : "yes", "aria-label": "Verdict" }, h("h2", {}, sign(!all.length, words)), h("p", { class: "sub" }, ready ? "It is ready: every check of /readyz holds." : "It is not ready: a check of /readyz does not hold."), all.length ? h("ol", { class: "meter-wrong" }, items) : null, all.length && !docsUrl ? h("p", { class: "sub" }, "Set ", h("code", {}, "alerts.docs_url"), " to have these pages as links.") : null);
  }

  tiles(report) {
    const { canary, audit } = report;
    const canaryWords = !canary.enabled ? ["off", "canary.enabled is not set"] : canary.runs === null ? ["elsewhere", "another worker owns shard 0"] : [canary.right_age_ms === null ? "not yet" : `right ${ago(canary.right_age_ms)} ago`, `${plural(canary.runs, "run")}, ${count(canary.wrong)} wrong, ${count(canary.late)} late`];
    const facts = [
      ["Newest event", report.speed === 0 ? "as stored" : (report.speed ?? 1) !== 1 ? `time at ${report.speed}×` : report.watermark_age_ms === null ? "none yet" : `${ago(report.watermark_age_ms)} ago`, report.speed === 0 ? "nobody meters into this store" : (report.speed ?? 1) !== 1 ? "of a simulated log: its records have no age" : "it ages also while no events come"],
      ["Last checkpoint", report.checkpoint_age_ms === null ? "none yet" : `${ago(report.checkpoint_age_ms)} ago`, `${size(report.backlog_bytes)} of ${size(report.max_backlog_bytes)} wait${report.reading_paused ? ", reading pauses" : ""}`],
      ["Last audit", audit === null ? "none yet" : audit.ok ? "✓ balances" : "✗ does not balance", audit === null ? report.speed === 0 ? "it is being made" : "30 s after the start" : `${ago(audit.age_ms)} ago, ${plural(audit.books.length, "partition")}`],
      ["Canary", ...canaryWords],
      ["Partitions", plural(report.shards_held, "shard"), `${report.shards_restoring} are being loaded, ${report.shards_unowned} have no owner`],
      ["Messages", report.notifier_pending === null ? "off" : `${count(report.notifier_pending)} waiting`, Object.entries(report.deliveries ?? {}).map(([outcome, number]) => `${count(number)} ${outcome.replaceAll("_", " ")}`).join(", ") || "none was sent yet"],
      ["Clock", Math.abs(report.clock_ahead_ms) < 1000 ? "with the log" : `${duration(Math.abs(report.clock_ahead_ms))} ${report.clock_ahead_ms > 0 ? "ahead" : "behind"}`, "of this machine, by Kafka’s log"],
    ];
    const shown = report.speed === 0 ? facts.filter(([name]) => AT_REST.has(name)) : facts;
    return h("dl", { class: "meter-tiles" }, shown.map(([name, figure, sub]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", { class: "figure" }, figure), h("dd", { class: "sub" }, sub))));
  }

  lag({ topics, partitions, checks, speed }) {
    const columns = [{ title: "Topic", class: "" }, { title: "Records behind", class: "num" }, { title: "Oldest of them", class: "num" }, { title: "In an open transaction", class: "num" }];
    const byTopic = table(columns, { caption: "Lag by topic" });
    byTopic.body.append(...topics.map((each) => row(columns, [each.topic, count(each.records), each.records ? ago(each.age_ms) : "–", count(each.in_transaction)])));
    const late = [...partitions].sort((a, b) => b.records - a.records || a.shard - b.shard).slice(0, SHARDS);
    const shardColumns = [{ title: "Partition", class: "num" }, { title: "Records behind", class: "num" }, { title: "Oldest of them", class: "num" }, { title: "Without progress", class: "num" }];
    const byShard = table(shardColumns, { caption: "Lag by partition" });
    byShard.body.append(...late.map((each) => row(shardColumns, [String(each.shard), count(each.records), each.records ? ago(each.age_ms) : "–", each.idle_ms && each.records ? ago(each.idle_ms) : "–"])));
    const rest = partitions.length - late.length;
    return panel(
      "How far it is",
      "meter-lag",
      topics.length ? scroller("meter-lag", byTopic.element) : h("p", { class: "empty" }, speed === 0 ? "Nothing is metered: the store is served with --read-only." : "No partition is metered here yet: the worker waits for its group or for the store; the checks below say for what."),
      partitions.length ? h("details", { "data-key": "shards" }, h("summary", { "data-key": "shards-line" }, `${plural(partitions.length, "partition")} of this worker`), scroller("meter-lag", byShard.element), rest ? h("p", { class: "sub" }, `${rest} more, which are not further behind`) : null) : null,
      h("ul", { class: "meter-checks" }, checks.map((check) => h("li", {}, sign(check.ok, check.name), " ", h("span", { class: "dim" }, shown(check.detail))))),
    );
  }

  audit({ audit, records, speed }) {
    const counted = Object.entries(records).map(([outcome, number]) => `${count(number)} ${OUTCOMES[outcome] ?? outcome}`).join(", ");
    const lead = h("p", { class: "sub" }, counted ? `Records since the worker began: ${counted}.` : speed === 0 ? "The books of the store as it stands." : "No record since the worker began.");
    if (audit === null) return panel("Do the books balance", "meter-audit", lead, h("p", { class: "empty" }, speed === 0 ? "The books are being audited." : "This worker has not audited its books yet; the first look is 30 s after its start."));
    const columns = [{ title: "Partition", class: "" }, { title: "Records in", class: "num" }, { title: "Applied", class: "num" }, { title: "Unattributed", class: "num" }, { title: "Duplicate", class: "num" }, { title: "Too late", class: "num" }, { title: "Refused", class: "num" }, { title: "Balance", class: "num" }];
    const books = table(columns, { caption: "Record accounting by partition" });
    const sorted = [...audit.books].sort((a, b) => Math.abs(b.balance) - Math.abs(a.balance));
    books.body.append(...sorted.slice(0, BOOKS).map((each) => row(columns, [`${each.topic}/${each.partition}`, ...[each.records_in, each.applied, each.unattributed, each.duplicate, each.too_late, each.dead_lettered].map(count), each.balance === 0 ? "✓ ok" : `✗ ${each.balance}`])));
    const rest = sorted.length - BOOKS;
    return panel(
      "Do the books balance",
      "meter-audit",
      h("p", {}, sign(audit.ok, audit.ok ? "everything balances" : "not balanced"), h("span", { class: "dim" }, ` ${ago(audit.age_ms)} ago; trainfare audit looks now, trainfare audit --recount compares the ledger with the log`)),
      lead,
      h("ul", { class: "meter-checks" }, audit.findings.map((each) => h("li", {}, sign(each.ok, each.check.replaceAll("_", " ")), " ", h("span", { class: "dim" }, shown(each.detail))))),
      h("details", { "data-key": "books" }, h("summary", { "data-key": "books-line" }, `${plural(audit.books.length, "book")}, one a topic and partition`), scroller("meter-audit", books.element), rest > 0 ? h("p", { class: "sub" }, `${rest} more, which balance as well as these`) : null),
    );
  }

  sources({ sources, store_fault: storeFault }) {
    if (sources === null) return panel("Coverage of sources", "meter-sources", h("p", { class: "empty" }, `Unknown: ${storeFault}.`));
    if (!sources.length) return panel("Coverage of sources", "meter-sources", h("p", { class: "empty" }, "No source has said what it read: collectors and ", h("code", {}, "trainfare prices load"), " do, once they publish."));
    const columns = [{ title: "Source", class: "" }, { title: "Read", class: "num" }, { title: "Metered", class: "num" }, { title: "Free", class: "num" }, { title: "Not understood", class: "num" }, { title: "Last poll", class: "fix" }];
    const made = table(columns, { caption: "Sources and what became of their entries" });
    made.body.append(...sources.map((each) => row(columns, [shown(each.name), count(Number(each.read)), count(Number(each.metered)), count(Number(each.free)), Number(each.not_understood) ? h("span", { class: "lost" }, `✗ ${count(Number(each.not_understood))}`) : "0", h("time", { title: instant(each.polled) }, stamp(each.polled))])));
    const open = sources.flatMap((each) => each.entries.map((entry) => ({ ...entry, source: each.name })));
    const item = (entry) => h("li", {}, h("p", {}, entry.entry_class === "free" ? "" : "✗ ", shown(entry.source), `: ${count(Number(entry.entries))} `, h("code", {}, shown(entry.reason)), entry.standing ? "" : " (no more)", entry.example ? [", first: ", shown(entry.example)] : ""), h("p", { class: "sub" }, entry.entry_class === "free" ? "Free by rule: " : h("b", {}, "What mends it: "), shown(entry.says)));
    const wrong = open.filter((each) => each.entry_class !== "free");
    const free = open.filter((each) => each.entry_class === "free");
    return panel(
      "Coverage of sources",
      "meter-sources",
      scroller("meter-sources", made.element),
      wrong.length ? h("ul", { class: "meter-causes" }, wrong.map(item)) : h("p", { class: "sub" }, "✓ Every entry is metered, or free by a rule."),
      free.length ? h("details", { "data-key": "free" }, h("summary", { "data-key": "free-line" }, `${plural(free.length, "rule")} by which entries are free`), h("ul", { class: "meter-causes" }, free.map(item))) : null,
      h("p", { class: "sub" }, "trainfare sources says the same."),
    );
  }

  letters({ dead_letters: letters, store_fault: storeFault, refused_events: refused = [] }) {
    const overHttp = refused.length
      ? [
          h("p", {}, "Events that this process refused over HTTP since it started; their senders got the reason, and they are not dead letters:"),
          h("ul", { class: "meter-causes" }, refused.map((each) => h("li", {}, h("p", {}, h("b", {}, `${count(each.events)}: `), h("code", {}, each.reason)), h("p", { class: "sub" }, "Newest: ", shown(each.example))))),
        ]
      : [];
    if (letters === null) return panel("Dead letters", "meter-letters", h("p", { class: "empty" }, `Unknown: ${storeFault}.`), ...overHttp);
    if (!letters.length) return panel("Dead letters", "meter-letters", h("p", { class: "sub" }, "✓ No record of the log was refused."), ...overHttp);
    const item = (each) =>
      h(
        "li",
        {},
        h("p", {}, h("b", {}, `${count(Number(each.records))} of ${each.topic}: `), h("code", {}, each.reason), h("span", { class: "dim" }, ` ${instant(each.first)} to ${instant(each.last)}; ${count(Number(each.stored))} stored, ${count(Number(each.replayed))} sent again`)),
        h("p", { class: "sub" }, "Newest: ", shown(each.example)),
        h("p", {}, h("b", {}, "What mends it: "), shown(each.advice || "see docs/dead_letters.md#dead-letters of the version that says it")),
        h("p", { class: "sub" }, h("code", {}, each.command)),
      );
    return panel("Dead letters", "meter-letters", h("ul", { class: "meter-causes" }, letters.map(item)), h("p", {}, h("a", { href: address("query", { sql: LETTERS_SQL }) }, "Open the newest in Query")), ...overHttp);
  }

  unpriced({ unpriced, store_fault: storeFault }) {
    if (unpriced === null) return panel("Quantities without a price", "meter-unpriced", h("p", { class: "empty" }, `Unknown: ${storeFault}.`));
    if (!unpriced.length) return panel("Quantities without a price", "meter-unpriced", h("p", { class: "sub" }, "✓ All that jobs used in the last seven days of the log has a price."));
    const columns = [{ title: "Component", class: "" }, { title: "GPU or instance", class: "" }, { title: "Amount", class: "num" }, { title: "Jobs", class: "num" }, { title: "For example", class: "" }];
    const made = table(columns, { caption: "Quantities without a price, the last seven days of the log" });
    made.body.append(...unpriced.map((each) => row(columns, [each.component, shown(each.gpu_type || each.instance_type || "–"), each.amount, count(Number(each.jobs)), h("a", { href: `#/job/${encodeURIComponent(each.example)}` }, shown(each.example))])));
    return panel("Quantities without a price", "meter-unpriced", scroller("meter-unpriced", made.element), h("p", {}, h("b", {}, "What mends it: "), unpriced[0].mends), h("p", {}, h("a", { href: address("query", { sql: UNPRICED_SQL }) }, "Open all in Query")));
  }

  rest({ settings }) {
    const names = Object.keys(settings);
    if (!names.length) return panel("Settings that matter", "meter-settings", h("p", { class: "empty" }, "This server does not say its settings."));
    return panel("Settings that matter", "meter-settings", h("dl", { class: "meter-settings" }, names.map((name) => h("div", {}, h("dt", {}, h("code", {}, name)), h("dd", {}, /_ms$/.test(name) ? `${count(settings[name])} (${duration(settings[name])})` : String(settings[name]))))));
  }
}
