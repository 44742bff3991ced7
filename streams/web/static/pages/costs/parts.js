// The parts of the Costs page beside its chart: controls, tiles, the table, what drove the change, the dearest jobs, the CSV file.

import { amount, dollars, even, foreign, h, mark, reconcile, row, s, say, table } from "../../dom.js";
import { count, day, decimal, decimalsOf, exact, money, nano, percent, plural, roughly } from "../../format.js";
import { Choices } from "../../choices.js";
import { COMPONENT_NAMES } from "../../words.js";
import { swatch } from "../../timechart.js";
import { shownName } from "./chart.js";
import { JOBS_SHOWN, valueOf } from "./figures.js";
import { levelName, LEVELS, linkDown, linkTo, MEASURES, midnight, PERIODS, RANGES, SORTS, zoneName } from "./view.js";

const FEW = 100;

export function nameOf(level, name) {
  if (level === "component") return COMPONENT_NAMES[name] ?? name;
  return name === "" ? h("span", { class: "dim" }, `no ${levelName(level)}`) : foreign(name);
}

/** Put other children in; a link that had the focus keeps it if it is still there. */
export function replaced(parent, children) {
  const held = parent.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  parent.replaceChildren(...children);
  if (held !== null) [...parent.querySelectorAll("a")].find((each) => each.getAttribute("href") === held)?.focus({ preventScroll: true });
}

/** Choices: presets are links, all else selects, each a change of the address. */
export class Controls {
  constructor(go) {
    this.go = go;
    const select = (title, options, change) => {
      const element = h("select", { onchange: () => go(linkTo(this.view, change(element.value))) }, Object.entries(options).map(([value, words]) => h("option", { value }, words)));
      return { title, element, label: h("label", {}, title, element) };
    };
    this.by = select("By", LEVELS, (by) => ({ by }));
    this.per = select("Per", PERIODS, (per) => ({ per }));
    this.measure = select("Show", MEASURES, (measure) => ({ measure }));
    this.sort = select("Sort by", SORTS, (sort) => ({ sort }));
    this.currency = select("Currency", { USD: "USD" }, (currency) => ({ currency: currency === "USD" ? null : currency }));
    this.compare = h("input", { type: "checkbox", onchange: () => go(linkTo(this.view, { compare: this.compare.checked })) });
    this.ranges = h("nav", { class: "ranges", "aria-label": "Span of time" });
    const date = (title) => h("input", { type: "date", "aria-label": title, onchange: () => this.own() });
    [this.from, this.until] = [date("From"), date("Last day")];
    this.legend = h("legend", {});
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "What is shown" });
    this.choices = new Choices("Choices", h("div", { class: "controls" }, this.by.label, this.measure.label, this.per.label, this.sort.label, this.currency.label, h("fieldset", { class: "own-range" }, this.legend, this.from, " to ", this.until), h("label", { class: "check" }, this.compare, "Compare with the time before")));
    this.element = h(
      "div",
      { class: "costs-controls" },
      this.crumbs,
      this.ranges,
      this.choices.element,
    );
  }

  own() {
    const at = (text, days) => midnight(...text.split("-").map((part, place) => Number(part) - (place === 1 ? 1 : 0) + (place === 2 ? days : 0)));
    const [from, until] = [at(this.from.value, 0), at(this.until.value, 1)];
    if (from < until) this.go(linkTo(this.view, { own: [from, until] }));
  }

  show(view, level, currencies) {
    this.view = view;
    const codes = [...new Set(["USD", ...currencies, ...(view.currency ? [view.currency] : [])])];
    this.currency.element.replaceChildren(...codes.map((code) => h("option", { value: code }, code)));
    this.currency.element.value = view.currency ?? "USD";
    this.currency.label.hidden = codes.length < 2;
    if (!Object.hasOwn(LEVELS, level) && ![...this.by.element.options].some((each) => each.value === level)) this.by.element.append(h("option", { value: level }, levelName(level)));
    this.by.element.value = level;
    this.per.element.value = view.period;
    this.measure.element.value = view.measure;
    this.sort.element.value = view.sort;
    this.compare.checked = view.compare || Boolean(view.uncomparable);
    say(this.legend, `Own range, days of ${zoneName()}`);
    this.from.value = day(view.fromMs);
    this.until.value = day(view.toMs - 1);
    const link = (key, words) => h("a", { href: linkTo(view, { range: key, own: null, per: null }), "aria-current": !view.own && view.range === key ? "true" : null }, words);
    reconcile(this.ranges, Object.entries(RANGES), ([key]) => key, ([key, words]) => link(key, words), (element, [key]) => {
      element.setAttribute("href", linkTo(view, { range: key, own: null, per: null }));
      mark(element, "aria-current", !view.own && view.range === key ? "true" : null);
    });
    this.showCrumbs(view);
    this.tell(new URLSearchParams(linkTo(view).split("?")[1]));
  }

  /** What the address says of these controls: what is usual is not in it. */
  tell(state) {
    const { by, measure, per, sort, currency } = this;
    const set = Object.entries({ by, measure, per, sort, currency }).filter(([name]) => state.has(name)).map(([, each]) => [each.title, each.element.selectedOptions[0]?.text ?? ""]);
    if (state.has("from")) set.push(["Own range", `${this.from.value} to ${this.until.value}`]);
    if (state.has("compare")) set.push(["Compare", "off"]);
    this.choices.tell(set);
  }

  showCrumbs(view) {
    const parts = [h("a", { href: linkTo(view, { where: [], component: null, by: null }) }, "All costs")];
    if (view.component) parts.push(h("a", { href: linkTo(view, { where: [], by: null }) }, `component: ${COMPONENT_NAMES[view.component] ?? view.component}`));
    view.where.forEach(([level, name], index) => {
      parts.push(h("a", { href: linkTo(view, { where: view.where.slice(0, index + 1), by: null }) }, `${levelName(level)}: `, nameOf(level, name)));
    });
    parts.at(-1).setAttribute("aria-current", "page");
    replaced(this.crumbs, [h("ol", {}, parts.map((each) => h("li", {}, each)))]);
    this.crumbs.hidden = parts.length < 2;
  }
}

/** A change in dollars and percent, with a sign and an arrow. */
export function changeText(entry, text = money(entry.change)) {
  if (entry.changeNano === null) return "–";
  const sign = entry.changeNano > 0n ? "▲ +" : entry.changeNano < 0n ? "▼ " : "= ";
  const share = entry.changeRatio === null ? (entry.nano ? " (new)" : "") : ` (${entry.changeRatio > 0 ? "+" : entry.changeRatio < 0 ? "−" : ""}${percent(Math.abs(entry.changeRatio))})`;
  return `${sign}${text}${share}`;
}

const PENDING = "…";

export class Tiles {
  constructor() {
    this.facts = {};
    const tile = (name, title) => {
      this.facts[name] = { value: h("dd", { class: "figure" }, "–"), sub: h("dd", { class: "sub" }) };
      return h("div", { class: "tile", "data-fact": name }, h("dt", {}, title), this.facts[name].value, this.facts[name].sub);
    };
    this.element = h("dl", { class: "tiles facts" }, tile("cost", "Cost"), tile("hour", "Per training hour"), tile("gpu", "Per GPU-hour"), tile("idle", "Idle and unallocated"), tile("month", "This month"));
  }

  total(view, total, rate) {
    const { cost, hour, gpu } = this.facts;
    say(cost.value, costText(total, total.usd), exact(total.usd));
    const inCurrency = rate && total.converted !== null ? `${inUnits(money(total.converted, decimalsOf(rate.currency)))} ${rate.currency} at ${rate.words}` : "";
    say(cost.sub, [inCurrency, view.compare ? `${changeText(total)} on the time before` : ""].filter(Boolean).join("; "), exact(total.change));
    const [perHour, perGpu] = [valueOf(total, "hour"), valueOf(total, "gpu_hour")];
    say(hour.value, perHour === null ? "–" : money(perHour));
    say(gpu.value, perGpu === null ? "–" : money(perGpu));
    say(gpu.sub, `${count(total.gpuHours)} GPU-hours${total.unpricedHours > 0 ? `, ${count(total.unpricedHours)} of them without a price` : ""}`);
    say(hour.sub, `${count(total.hours)} hours of training`);
  }

  /** What is not known yet says so, rather than what it was of another time. */
  wait(isWaiting) {
    for (const { value, sub } of [this.facts.idle, this.facts.month]) {
      if (!isWaiting && value.textContent !== PENDING) continue;
      say(value, isWaiting ? PENDING : "–", "");
      say(sub, isWaiting ? "asked for" : "", "");
    }
  }

  rates(rates) {
    const all = rates?.all;
    if (!all) return;
    say(this.facts.hour.sub, all.median_usd_per_hour === null ? "no job ran" : `median ${money(all.median_usd_per_hour)}, p95 ${money(all.p95_usd_per_hour)} of ${plural(all.jobs, "job")}${Number(all.compliance_cost_usd) ? `; ${money(all.compliance_usd_per_hour)} of it compliance` : ""}`);
  }

  idle(idle, known) {
    const { value, sub } = this.facts.idle;
    if (!idle) {
      say(value, "–", "");
      if (idle === undefined) return say(sub, "idle time is of all teams, and not yours to see");
      return say(sub, known ? "no node was paid for" : "idle time is known of nodes, not of what is chosen here");
    }
    say(value, money(idle.usd), exact(idle.usd));
    return say(sub, `${percent(idle.ratio)} of the nodes idle or unallocated; ${money(idle.unattributedUsd)} used by no known job`, exact(idle.unattributedUsd));
  }

  month(month) {
    const { value, sub } = this.facts.month;
    if (!month || month.forecast_usd === null) {
      say(value, month ? money(month.spent_usd) : "–", exact(month?.spent_usd));
      return say(sub, month ? `spent in ${month.month}; ${month.basis}` : "");
    }
    say(value, `≈ ${roughly(Number(month.forecast_usd))}`, exact(month.forecast_usd));
    return say(sub, `${month.month}: ${money(month.spent_usd)} so far, ${roughly(Number(month.low_usd))} to ${roughly(Number(month.high_usd))}${month.share ? ` (${month.share})` : ""} by ${plural(month.basis_days, "day")} ${month.share ? "of costs" : "before today"}`, `Forecast: ${month.basis}.`);
  }
}

/** An amount of another currency, as dollars are written, without the sign. */
const inUnits = (text) => text.replace("$", "");

/** Never a zero, nor a plain amount, for what lacks a price. */
export function costText(entry, usd, text = money(usd)) {
  if (!(entry.unpricedHours > 0)) return text;
  return nano(usd) > 0n ? `≥ ${text}` : "unpriced";
}

const COLUMNS = [
  ["Name", "wide"],
  ["Cost", "num"],
  ["In currency", "num converted"],
  ["Share", "num"],
  ["Before", "num compared"],
  ["Change", "num compared"],
  ["Training h", "num more"],
  ["$ / training h", "num"],
  ["Median", "num more"],
  ["p95", "num more"],
  ["GPU-h", "num more"],
  ["$ / GPU-h", "num"],
  ["Lost", "num more"],
].map(([title, name]) => ({ title, class: name }));

export class Rows {
  constructor(light) {
    this.table = table(COLUMNS, { caption: "Costs by name" });
    this.foot = h("tfoot", { role: "rowgroup" });
    this.table.element.append(this.foot);
    this.light = light;
    this.said = h("p", { class: "sub", role: "status" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.showMore() });
    this.save = h("button", { type: "button", onclick: () => this.download() }, "Download CSV");
    this.title = h("h2", { id: "costs-rows" });
    this.element = h("section", { class: "panel costs-rows", "aria-labelledby": "costs-rows" }, h("div", { class: "panel-head" }, this.title, this.save), h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "costs-rows" }, this.table.element), this.said, this.more);
    this.shown = FEW;
  }

  show(view, level, found, names, rates, idle) {
    Object.assign(this, { view, level, found, names, rates, idle });
    say(this.title, `By ${levelName(level)}`);
    mark(this.element, "data-compare", view.compare ? "yes" : "no");
    mark(this.element, "data-currency", found.rate?.currency ?? null);
    const title = found.rate ? `In ${found.rate.currency}` : "In currency";
    say([...this.table.head.children].find((each) => each.classList.contains("converted")), title, found.rate?.words ?? "");
    this.render();
  }

  showMore() {
    this.shown += 5 * FEW;
    this.render();
  }

  render() {
    const { view, level, found, names, rates, idle } = this;
    const looks = new Map(names.map(({ name, look }) => [name, look]));
    const entries = sorted(found.rows, view.sort);
    const kind = view.measure === "cost" || level === "component" ? "block" : "line";
    const rows = entries.slice(0, this.shown).map((entry) => this.row(entry, looks.get(entry.name) ? swatch({ kind, ...looks.get(entry.name) }) : null, rates?.of.get(entry.name)));
    replaced(this.table.body, rows);
    const left = entries.length - rows.length;
    this.more.hidden = left <= 0;
    say(this.more, `Show ${Math.min(left, 5 * FEW)} more of ${left}`);
    const beyond = found.isCut ? found.rows.reduce((rest, each) => rest - each.nano, found.total.nano) : 0n;
    const cut = found.isCut ? `Cut: ${found.leftOut === null ? "more" : plural(found.leftOut, "name")} that cost ${money(decimal(beyond))} together are left out; filter, or take a shorter time.` : "";
    // A file of some rows alone would look as if it had all.
    this.save.disabled = Boolean(found.rest);
    say(this.said, found.rest ? `The ${plural(entries.length, "row")} that cost most; the others are asked for.` : [`${plural(entries.length, "row")}.`, cut].filter(Boolean).join(" "));
    this.foot.replaceChildren(...this.sums(found.total, rates?.all, idle));
    even(this.table.element);
  }

  row(entry, sign, rate) {
    const { view, level } = this;
    const total = this.found.total.nano;
    const link = h("a", { href: linkDown(view, level, entry.name), class: "down" }, nameOf(level, entry.name));
    const text = shownName(level, entry.name);
    const lit = (on) => () => this.light(on ? (level === "component" ? entry.name : text) : null);
    return row(COLUMNS, this.cells(entry, h("span", { class: "named" }, sign ?? h("span", { class: "no-swatch" }), link), rate, total > 0n ? Number(entry.nano) / Number(total) : null), { onpointerenter: lit(true), onpointerleave: lit(false), onfocusin: lit(true), onfocusout: lit(false) });
  }

  cells(entry, name, rate, share) {
    return [
      name,
      dollars(entry.usd, { words: (text) => costText(entry, entry.usd, text) }),
      dollars(entry.converted, { words: inUnits, currency: this.found.rate?.currency, tip: `${entry.converted} ${this.found.rate?.currency ?? ""}` }),
      share === null ? "–" : percent(share),
      dollars(entry.previous),
      entry.changeNano === null ? "–" : dollars(entry.change, { class: "money change", "data-sign": entry.changeNano > 0n ? "up" : entry.changeNano < 0n ? "down" : "even", words: (text) => changeText(entry, text) }),
      count(entry.hours),
      dollars(valueOf(entry, "hour")),
      dollars(rate?.median_usd_per_hour),
      dollars(rate?.p95_usd_per_hour),
      count(entry.gpuHours),
      dollars(valueOf(entry, "gpu_hour")),
      dollars(entry.lost),
    ];
  }

  sums(total, rate, idle) {
    const rows = [row(COLUMNS, this.cells(total, h("b", {}, "All jobs"), rate, total.nano > 0n ? 1 : null), { class: "sum" })];
    const blank = new Array(COLUMNS.length - 2).fill("");
    if (idle) {
      rows.push(row(COLUMNS, [h("span", {}, "Used by no known job ", h("span", { class: "dim" }, "(not in the sum)")), dollars(idle.unattributedUsd), ...blank], { class: "beside" }));
      rows.push(row(COLUMNS, [h("span", {}, "Idle nodes ", h("span", { class: "dim" }, "(not in the sum)")), dollars(idle.unusedUsd), ...blank], { class: "beside" }));
    }
    return rows;
  }

  /** The rows as they came, with every digit. */
  download() {
    const { found, view, level, rates } = this;
    const lines = sorted(found.rows, view.sort).map((entry) => ({ [level]: entry.name, cost_usd: entry.usd, ...(found.rate ? { cost: entry.converted, currency: found.rate.currency, rate: found.rate.words } : {}), ...(entry.previous === null ? {} : { previous_cost_usd: entry.previous, change_usd: entry.change }), wall_clock_h: entry.hours, gpu_h: entry.gpuHours, lost_cost_usd: entry.lost, unpriced_gpu_h: entry.unpricedHours, ...picked(rates?.of.get(entry.name)) }));
    const columns = [...new Set(lines.flatMap((line) => Object.keys(line)))];
    const text = [columns, ...lines.map((line) => columns.map((name) => line[name]))].map((cells) => cells.map(quoted).join(",")).join("\r\n");
    const url = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
    const days = [view.fromMs, view.toMs - 1].map((ms) => new Date(ms).toISOString().slice(0, 10)).join("_");
    h("a", { href: url, download: `trainfare-costs-by-${level.replaceAll(/\W/g, "-")}-${days}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
}

function picked(rate) {
  return rate ? { jobs: rate.jobs, usd_per_hour: rate.usd_per_hour, median_usd_per_hour: rate.median_usd_per_hour, p95_usd_per_hour: rate.p95_usd_per_hour } : {};
}

/** A field of a CSV file; a name that a spreadsheet would take for a formula is kept a text. */
function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function sorted(entries, sort) {
  const by = {
    cost: (one, other) => compare(other.nano, one.nano),
    rise: (one, other) => compare(other.changeNano ?? 0n, one.changeNano ?? 0n),
    fall: (one, other) => compare(one.changeNano ?? 0n, other.changeNano ?? 0n),
    hour: (one, other) => (valueOf(other, "hour") ?? -1) - (valueOf(one, "hour") ?? -1),
    name: (one, other) => compare(one.name, other.name),
  }[sort];
  return [...entries].sort((one, other) => by(one, other) || compare(one.name, other.name));
}

function compare(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

const DRIVER_COLUMNS = [
  ["What", "wide"],
  ["Before", "num"],
  ["Now", "num"],
  ["Change", "num"],
  ["by price", "num"],
  ["by quantity", "num"],
].map(([title, name]) => ({ title, class: name }));

/** What drove the change: who rose and fell most, in words, and each driver by price and quantity. */
export class Drivers {
  constructor() {
    this.words = h("p", { class: "movers" });
    this.table = table(DRIVER_COLUMNS, { caption: "What drove the change" });
    this.said = h("p", { class: "sub" });
    this.element = h("section", { class: "panel costs-drivers", "aria-labelledby": "costs-drivers" }, h("h2", { id: "costs-drivers" }, "What drove the change"), this.words, h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "costs-drivers" }, this.table.element), this.said);
  }

  movers(view, level, rows) {
    this.element.hidden = !view.compare;
    const rise = sorted(rows, "rise")[0];
    const fall = sorted(rows, "fall")[0];
    const said = (words, entry) => [h("span", {}, words), h("a", { href: linkDown(view, level, entry.name), class: "down" }, nameOf(level, entry.name)), ` ${changeText(entry)}`];
    const parts = [];
    if (rise?.changeNano > 0n) parts.push(h("span", { class: "mover" }, said("Rose most: ", rise)));
    if (fall?.changeNano < 0n) parts.push(h("span", { class: "mover" }, said("Fell most: ", fall)));
    replaced(this.words, parts.length ? parts : ["Nothing rose or fell."]);
  }

  fail(words) {
    this.table.body.replaceChildren();
    say(this.said, `Not explained: ${words.replace(/^drivers: /, "")}.`);
  }

  show(level, drivers) {
    const key = level === "component" ? "job" : level;
    const rows = drivers.map((each) => {
      const isRest = each.component === "others";
      const what = isRest ? "all others" : h("span", {}, nameOf(key, each[key]), " · ", COMPONENT_NAMES[each.component] ?? each.component);
      const usd = (name) => dollars(each[name]);
      return row(DRIVER_COLUMNS, [what, usd("previous_cost_usd"), usd("cost_usd"), usd("change_usd"), usd("price_effect_usd"), usd("quantity_effect_usd")]);
    });
    this.table.fill(rows);
    say(this.said, rows.length ? "By quantity: more or less was used at the price before; by price: the rest. They add up to the change." : "Neither span of time has costs.");
  }
}

/** The dearest jobs of what is shown, each a link to its page. */
export class DearestJobs {
  constructor() {
    this.list = h("ol", { class: "dearest" });
    this.said = h("p", { class: "sub" });
    this.element = h("section", { class: "panel costs-jobs", "aria-labelledby": "costs-jobs" }, h("h2", { id: "costs-jobs" }, "Dearest jobs"), this.list, this.said);
  }

  show(view, entries, isCut) {
    const shown = sorted(entries, "cost").filter((each) => each.nano !== 0n).slice(0, JOBS_SHOWN);
    const most = shown.length ? Number(shown[0].nano) : 1;
    replaced(this.list, shown.map((entry) => {
      const bar = s("svg", { class: "bar-line", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: "fill", width: Math.max(0.5, (Number(entry.nano) / most) * 100).toFixed(2), height: 4 }));
      return h("li", {}, h("a", { href: linkDown(view, "job", entry.name) }, foreign(entry.name)), amount(costText(entry, entry.usd), exact(entry.usd)), bar);
    }));
    this.said.replaceChildren(...(shown.length ? [h("a", { href: linkTo(view, { by: "job" }) }, isCut || entries.length > shown.length ? "All jobs with their amounts" : "These jobs with their amounts")] : ["No job cost anything in this time."]));
  }
}
