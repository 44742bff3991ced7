// What finance asks each month: what the month will cost, who answers for cost, what could be saved, commitments, carbon. Its state is in the address.

import { dollars, foreign, h, row, say, table, visible } from "../dom.js";
import { get } from "../feed.js";
import { count, money, percent, plural, roughly } from "../format.js";
import { address, go } from "../route.js";
import { Commitments } from "./commitments.js";
import { hoursOf } from "./idle.js";

const SPANS = { month: "this month", "30d": "30 days", "7d": "7 days", all: "all there is" };
const PERIODS = { month: "month", week: "week", day: "day" };
const LEVELS = { team: "team", project: "project", owner: "owner", experiment: "experiment" };
const CARBON = { region: "region", team: "team", project: "project", owner: "owner" };
const NAMES = { owner: "owner", team: "team", project: "project", cost_centre: "cost centre" };
const SAVINGS = { idle_nodes: "idle nodes", unused_gpus: "unused GPUs", spot_realised: "saved by spot" };
const HOLDS = { yes: "holds", unsure: "may not hold", no: "does not hold" };
const USUAL = { range: "month", per: "month", by: "team", carbon: "region" };
const SHOWN = 50;

const named = (value, none) => (value ? foreign(visible(String(value))) : h("span", { class: "dim" }, none));
const columnsOf = (...titles) => titles.map(([title, name = "num"]) => ({ title, class: name }));
const begins = (each) => String(each.period_start ?? "all").slice(0, 10);

export class Page {
  constructor({ meter, host }) {
    this.meter = meter;
    this.host = host;
    this.turn = null;
    this.commitments = new Commitments();
    const select = (name, title, options) => {
      const element = h("select", { onchange: () => this.choose() }, Object.entries(options).map(([value, words]) => h("option", { value }, words)));
      this[name] = element;
      return h("label", {}, title, element);
    };
    const parts = { forecast: "Forecast of the month", coverage: "Who answers for cost", savings: "Savings", carbon: "Carbon" };
    this.parts = Object.fromEntries(Object.entries(parts).map(([name, title]) => [name, panel(name, title)]));
    this.controls = h("div", { class: "controls" }, select("range", "Time", SPANS), select("per", "Per", PERIODS), select("by", "Forecast by", LEVELS), select("carbon", "Carbon by", CARBON), h("button", { type: "button", onclick: () => this.read() }, "Ask again"));
    this.element = h("div", { class: "finance" }, h("div", { class: "page-head" }, h("h1", {}, "Finance"), h("p", { class: "sub" }, "What the month will cost, who answers for it, what could be saved. Times are UTC.")), this.controls, ...Object.values(this.parts).map((each) => each.element), this.commitments.element);
  }

  open(state) {
    if (!this.element.isConnected) this.host.replaceChildren(this.element);
    for (const [name, options] of Object.entries({ range: SPANS, per: PERIODS, by: LEVELS, carbon: CARBON })) {
      this[name].value = Object.hasOwn(options, state.get(name) ?? "") ? state.get(name) : USUAL[name];
    }
    this.waiting = !this.meter.heard;
    if (!this.waiting) this.read();
  }

  close() {
    this.turn?.abort();
    this.turn = null;
  }

  /** The first figures came: the spans follow the meter's clock. */
  hear() {
    if (!this.waiting || !this.meter.heard) return;
    this.waiting = false;
    this.read();
  }

  choose() {
    go(address("finance", Object.fromEntries(Object.keys(USUAL).map((name) => [name, this[name].value === USUAL[name] ? "" : this[name].value]))));
  }

  /** One after the other: each is a question to the whole ledger. */
  async read() {
    this.turn?.abort();
    this.turn = new AbortController();
    const { signal } = this.turn;
    const [from, to] = hoursOf(this.range.value, this.meter.timeMs);
    const span = from === null ? [] : [["from", new Date(from).toISOString().slice(0, 16)], ["to", new Date(to).toISOString().slice(0, 16)]];
    const query = (...more) => new URLSearchParams([["tz", "UTC"], ["fiscal", "0"], ...span, ...more]);
    await this.fill("forecast", `forecast?${new URLSearchParams({ by: this.by.value, tz: "UTC", fiscal: "0" })}`, (found) => this.forecast(found), signal);
    await this.fill("coverage", `coverage?${query(["per", this.per.value])}`, (found) => this.coverage(found), signal);
    await this.fill("savings", `savings?${query(["limit", String(SHOWN)])}`, (found) => this.savings(found), signal);
    await this.fill("carbon", `carbon?${query(["by", this.carbon.value], ["per", this.per.value], ["limit", String(SHOWN)])}`, (found) => this.carbonRows(found), signal);
    if (!signal.aborted) await this.commitments.read();
  }

  async fill(name, path, draw, signal) {
    const { body, said } = this.parts[name];
    if (signal.aborted) return;
    say(said, "Asking the store…");
    try {
      const found = await get(path, { signal });
      body.replaceChildren(...draw(found).filter(Boolean));
      say(said, "");
    } catch (trouble) {
      if (signal.aborted) return;
      if (trouble.status === 404) body.replaceChildren();
      say(said, trouble.status === 401 ? "This page needs a token: unlock it above." : `No figures: ${visible(trouble.message)}.`);
    }
  }

  forecast(found) {
    const { total, rows, by } = found;
    const said = found.left_h === 0 ? `${found.month} is over: it cost ${money(total.spent_usd)}.` : total.forecast_usd === null ? `${found.month}: ${money(total.spent_usd)} so far; no whole day has costs yet, so nothing is forecast.` : `${found.month} will have cost ${roughly(Number(total.forecast_usd))}, in four cases of five ${roughly(Number(total.low_usd))} to ${roughly(Number(total.high_usd))}. By ${plural(found.basis_days, "day")} and ${plural(found.earlier_forecasts, "earlier forecast")}; ${plural(found.left_h, "hour")} left.`;
    const plans = Number(total.planned_usd) > 0;
    const columns = columnsOf([LEVELS[by].replace(/^./, (first) => first.toUpperCase()), "wide"], ["Spent"], ...(plans ? [["Planned"]] : []), ["Forecast"], ["Low (80 %)"], ["High (80 %)"], ["Budgets", "wide"]);
    const cells = (name, each) => [name, dollars(each.spent_usd), ...(plans ? [dollars(each.planned_usd)] : []), dollars(each.forecast_usd), dollars(each.low_usd), dollars(each.high_usd), each.budgets.length ? each.budgets.map((one) => h("span", { class: "finance-budget" }, foreign(visible(one.budget)), ` ${money(one.limit_usd)}: ${HOLDS[one.holds] ?? "not known"} `)) : "–"];
    const made = table(columns, { caption: "Forecast of the month" });
    made.fill([...rows.slice(0, SHOWN).map((each) => row(columns, cells(named(each[by], `no ${LEVELS[by]}`), each))), row(columns, cells(h("b", {}, found.partial ? foreign(`All of ${visible(found.partial)}`) : "All"), total), { class: "sum" })]);
    return [h("p", {}, said), scroller("forecast", made.element), leftOut(found.left_out + Math.max(rows.length - SHOWN, 0), "forecast")];
  }

  coverage({ rows, worst }) {
    if (!rows.length) return [h("p", { class: "empty" }, "Nothing cost anything in this time.")];
    const columns = columnsOf(["From", "fix"], ["Cost"], ...Object.values(NAMES).map((name) => [`With ${name}`]));
    const made = table(columns, { caption: "Share of cost with a name" });
    made.fill(rows.slice(-SHOWN).reverse().map((each) => row(columns, [begins(each), dollars(each.cost_usd), ...Object.keys(NAMES).map((name) => share(each[`${name}_ratio`]))])));
    const sources = columnsOf(["Without", ""], ["Source", "wide"], ["Cluster", ""], ["Jobs"], ["Cost"], ["Dearest job", "wide"]);
    const listed = table(sources, { caption: "Where cost without a name comes from" });
    listed.fill(worst.map((each) => row(sources, [NAMES[each.name], named(each.source, "not named"), named(each.cluster, "not named"), count(Number(each.jobs)), dollars(each.cost_usd), h("a", { href: address("job", {}, each.dearest_job) }, foreign(visible(each.dearest_job)))])));
    return [scroller("coverage", made.element), worst.length ? h("h3", {}, "Where the rest comes from") : h("p", { class: "sub" }, "✓ All cost names owner, team, project and cost centre."), worst.length ? scroller("coverage", listed.element) : null];
  }

  savings({ rows, spot, hours, left_out: left, partial }) {
    const all = [...spot.rows, ...rows];
    const why = spot.reason ? h("p", { class: "notice" }, `${spot.left_out ? `${plural(spot.left_out, "job")} on spot left out: ` : "What spot saved is not shown: "}${visible(spot.reason)}.`) : null;
    if (!all.length) return [h("p", { class: "sub" }, partial ? "✓ No unused GPU, and no job on spot in this time. Idle nodes are of all teams, and not yours to see." : "✓ Nothing idle, no unused GPU, and no job on spot in this time."), why];
    const columns = columnsOf(["Saving", ""], ["Of", "wide"], ["Team", ""], ["In this time"], ["In a month"], ["Evidence", "wide"]);
    const made = table(columns, { caption: "What could be saved, and what spot saved" });
    made.fill(all.map((each) => row(columns, [SAVINGS[each.saving], each.saving === "unused_gpus" ? h("a", { href: address("job", {}, each.name) }, foreign(visible(each.name))) : named(each.name, "–"), named(each.team, "not named"), dollars(each.usd), dollars(each.usd_per_month), foreign(visible(each.evidence))])));
    return [h("p", { class: "sub" }, `By ${plural(hours, "hour")} of the ledger${hours < 168 ? ", less than a week: nights and weekends may be others" : ""}; a month has 730.`), scroller("savings", made.element), leftOut(left, "savings"), why];
  }

  carbonRows({ rows, by, is_cut: isCut }) {
    if (!rows.length) return [h("p", { class: "empty" }, "No energy was metered in this time. Prices of watts and intensities by region make it known: ", h("code", {}, "trainfare carbon load"), ".")];
    const columns = columnsOf(["From", "fix"], [CARBON[by].replace(/^./, (first) => first.toUpperCase()), "wide"], ["Energy, kWh"], ["Without intensity, kWh"], ["CO2e, kg"], ["Cost of energy"]);
    const made = table(columns, { caption: "Energy and its CO2 equivalent" });
    const thousands = (value) => h("span", { title: String(value) }, count(Number(value) / 1_000));
    made.fill(rows.map((each) => row(columns, [begins(each), named(each[by], "not named"), thousands(each.energy_wh), thousands(each.without_intensity_wh), thousands(each.co2e_g), dollars(each.cost_usd)])));
    return [scroller("carbon", made.element), isCut ? h("p", { class: "sub" }, `The first ${SHOWN}: trainfare carbon show has all.`) : null];
  }
}

function panel(name, title) {
  const [said, body] = [h("p", { class: "sub", role: "status" }), h("div", {})];
  const id = `finance-${name}`;
  return { said, body, element: h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), said, body) };
}

function scroller(name, element) {
  return h("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": element.querySelector("caption").textContent, "data-of": name }, element);
}

const share = (ratio) => (ratio === null ? "–" : percent(ratio));
const leftOut = (left, command) => (left ? h("p", { class: "sub" }, `${plural(left, "row")} more: `, h("code", {}, `trainfare ${command}`), " has all.") : null);
