// A job beside others: similar jobs that were completed lately, the same job at other places of the price list, and its receipt.

import { amount, dollars, foreign, h, row, s, table, visible } from "./dom.js";
import { count, duration, exact, money, percent, plural, price, stamp, times } from "./format.js";

const PICTURE = { width: 320, height: 26, pad: 6, middle: 13 };
const PLACES_FIRST = 12;
const ENDED = ["completed", "cancelled", "preempted", "failed"];
const FAR = 3; // from so many times the median on it is said as a multiple, as in receipts

const FIGURES = [
  { name: "usd_per_hour", title: "Cost per training hour", shown: (value) => `${money(value)}/h` },
  { name: "cost_usd", title: "Total", soFar: "Cost so far", shown: money },
  { name: "wall_clock_ms", title: "Duration", soFar: "Running time so far", shown: duration },
];

const FIELDS = { cloud: "cloud", region: "region", zone: "zone", cluster: "cluster", account: "account", instance_type: "instance", gpu_type: "GPU", purchase: "purchase", team: "team", project: "project", experiment: "experiment", gpus: "GPUs" };

/** Price fields and names as a line: GPU H100, region eu-1. */
function named(fields) {
  return Object.entries(fields).map(([name, value]) => `${FIELDS[name] ?? name} ${visible(String(value))}`).join(", ");
}

/** A figure against the median of similar jobs, in words. */
export function against(ratio) {
  if (ratio === null) return "";
  if (ratio >= FAR) return `${times(ratio)} the median`;
  const off = Math.round(100 * (ratio - 1));
  return off ? `${Math.abs(off)} % ${off > 0 ? "over" : "under"} the median` : "at the median";
}

/** Where a figure lies among those of others: their range, the half in the middle, the median and the 95th percentile. */
function picture(figure, words) {
  const { width, height, pad, middle } = PICTURE;
  const most = Math.max(Number(figure.most), Number(figure.job), Number.MIN_VALUE);
  const x = (value) => pad + (Number(value) / most) * (width - 2 * pad);
  const box = { x: x(figure.p25), width: Math.max(1, x(figure.p75) - x(figure.p25)) };
  return s(
    "svg",
    { class: "similar-picture", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words },
    s("line", { class: "range", x1: x(figure.least), x2: x(figure.most), y1: middle, y2: middle }),
    s("rect", { class: "half", x: box.x, width: box.width, y: middle - 6, height: 12 }),
    s("line", { class: "median", x1: x(figure.median), x2: x(figure.median), y1: middle - 8, y2: middle + 8 }),
    s("line", { class: "p95", x1: x(figure.p95), x2: x(figure.p95), y1: middle - 8, y2: middle + 8 }),
    s("circle", { class: "this", cx: x(figure.job), cy: middle, r: 5 }),
  );
}

export class Similar {
  constructor() {
    this.said = h("p", { class: "sub" }, "Reading similar jobs…");
    this.list = h("ul", { class: "similar-list" });
    this.key = h("p", { class: "sub", hidden: true }, "Line: their range. Bar: the half in the middle. Tick: the median, dashed the 95th percentile. Dot: this job.");
    this.element = h("section", { class: "panel wide names", "aria-labelledby": "similar-title" }, h("h3", { id: "similar-title" }, "Beside similar jobs"), this.said, this.list, this.key);
  }

  fail(trouble) {
    this.said.textContent = `Could not read similar jobs: ${trouble.message}. Trying again.`;
  }

  show({ jobs, kind, is_over: isOver, figures }) {
    this.key.hidden = !jobs;
    const when = `completed in the 30 days before ${isOver ? "its end" : "now"}`;
    if (!jobs) {
      this.said.textContent = `Fewer than 5 similar jobs were ${when}: there is nothing to compare it with.`;
      this.list.replaceChildren();
      return;
    }
    this.said.replaceChildren(`${plural(jobs, "job")} of its kind, ${when}: `, foreign(named(kind)), ".");
    this.list.replaceChildren(...FIGURES.map((each) => this.figure(each, figures[each.name], isOver)));
  }

  figure({ name, title, soFar, shown }, figure, isOver) {
    const label = isOver || !soFar ? title : soFar;
    const tip = (value) => (name === "wall_clock_ms" ? `${value} ms` : exact(value));
    const others = h("span", { class: "dim" }, "median ", h("span", { title: tip(figure.median) }, shown(figure.median)), ", p95 ", h("span", { title: tip(figure.p95) }, shown(figure.p95)));
    if (figure.job === null) return h("li", {}, h("b", {}, label), h("span", {}, "it has not run"), others);
    const isFar = Number(figure.job) > Number(figure.p95);
    const verdict = [against(figure.ratio), isFar ? "above the 95th percentile" : ""].filter(Boolean).join(", ");
    const words = `${label} ${shown(figure.job)}, ${verdict}: similar jobs from ${shown(figure.least)} to ${shown(figure.most)}, half of them ${shown(figure.p25)} to ${shown(figure.p75)}`;
    return h(
      "li",
      { "data-figure": name, "data-far": isFar ? "yes" : null },
      h("b", {}, label),
      h("span", {}, h("span", { class: "money strong", title: tip(figure.job) }, shown(figure.job)), h("span", { class: "verdict" }, ` ${verdict}`)),
      picture(figure, words),
      others,
    );
  }
}

const COLUMNS = [
  { title: "Where", class: "wide" },
  { title: "Price", class: "" },
  { title: "GPU hours", class: "num" },
  { title: "Cost", class: "num" },
  { title: "Difference", class: "num" },
  { title: "Same cost at", class: "num" },
];

export class Elsewhere {
  constructor() {
    this.isWhole = false;
    this.said = h("p", { class: "sub" }, "Pricing it elsewhere…");
    this.table = table(COLUMNS, { caption: "What the job would have cost elsewhere, the cheapest first" });
    this.scroller = h("div", { class: "scroller", tabindex: 0, role: "group", "aria-labelledby": "elsewhere-title", hidden: true }, this.table.element);
    this.more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.showAll() });
    this.notes = h("ul", { class: "notes sub" });
    this.element = h("section", { class: "panel wide names", "aria-labelledby": "elsewhere-title" }, h("h3", { id: "elsewhere-title" }, "What it would cost elsewhere"), this.said, this.scroller, this.more, this.notes);
  }

  fail(trouble) {
    this.said.textContent = `Could not price it elsewhere: ${trouble.message}. Trying again.`;
  }

  showAll() {
    this.isWhole = true;
    this.render();
    this.scroller.focus();
  }

  show(answer) {
    this.answer = answer;
    this.render();
  }

  render() {
    const { reason, places, as_it_ran: ran } = this.answer;
    this.scroller.hidden = !places.length;
    this.more.hidden = true;
    this.notes.replaceChildren();
    if (reason) {
      this.said.textContent = `Not known: ${visible(reason)}.`;
      return;
    }
    this.notes.replaceChildren(...this.noted().map((words) => h("li", {}, words)));
    if (!places.length) {
      this.said.textContent = "The price list has no price of GPU-time elsewhere that held while it ran.";
      return;
    }
    const cheaper = places.filter((each) => Number(each.difference_usd) < 0).length;
    const [best] = places;
    this.said.replaceChildren(...(cheaper ? [`Of ${plural(places.length, "place")} of the price list ${cheaper} would have been cheaper, at best by `, amount(money(-Number(best.difference_usd)), exact(best.difference_usd).replace("−", "")), ": ", foreign(named(best.different)), "."] : [`Nowhere cheaper: ${plural(places.length, "place")} of the price list compared.`]));
    const shown = this.isWhole ? places : places.slice(0, PLACES_FIRST);
    this.table.fill([this.line(ran, null, ran), ...shown.map((each) => this.line(each, each.different, ran))]);
    this.more.hidden = shown.length === places.length;
    this.more.textContent = `Show all ${places.length} places`;
  }

  line(side, different, ran) {
    const prices = side.prices.filter((each) => each.component === "gpu");
    const shown = prices.map((each) => h("div", {}, each.price_usd === null ? "" : price(each.price_usd, each.per.replace(/ of (\d+) GPUs?$/, "/$1")), h("div", { class: "dim sku" }, foreign(visible(each.sku)))));
    if (!different) return row(COLUMNS, [h("b", {}, "As it ran"), h("span", {}, shown), count(Number(side.gpu_h)), dollars(side.cost_usd), "", ""], { class: "as-it-ran" });
    const more = Number(side.difference_usd);
    const share = Number(ran.cost_usd) > 0 ? ` (${more < 0 ? "−" : "+"}${percent(Math.abs(more) / Number(ran.cost_usd))})` : "";
    const words = (text) => (more ? `${more > 0 ? "+" : ""}${text}${share}` : "the same");
    const at = different.gpu_type && side.break_even_speed_factor !== null ? `${Number(side.break_even_speed_factor)}× the time` : "";
    return row(COLUMNS, [foreign(named(different)), h("span", {}, shown), count(Number(side.gpu_h)), dollars(side.cost_usd), dollars(side.difference_usd, { words, "data-cheaper": more < 0 ? "yes" : null }), at]);
  }

  /** What the table rests on. */
  noted() {
    const { places, left_out: leftOut, later_prices: later } = this.answer;
    const spot = places.filter((each) => each.different.purchase === "spot");
    return [
      places.some((each) => each.different.gpu_type) ? "Another GPU type is priced as if the job took as long there; “Same cost at” is how much longer it may take." : "",
      spot.some((each) => each.spot_jobs) ? "On spot it would have lost what similar completed spot jobs lost." : "",
      spot.some((each) => !each.spot_jobs) ? "Where no similar spot job is known, no preemption is assumed." : "",
      ...[...new Set(places.flatMap((each) => Object.keys(each.not_in_price ?? {})))].map((name) => `Where a price names no ${FIELDS[name] ?? name}, the price of any ${FIELDS[name] ?? name} is taken.`),
      leftOut ? `${plural(leftOut, "more place")} of the price list were not compared; trainfare estimate --of compares one.` : "",
      later ? `${plural(later, "SKU")} of GPU-time began to have a price only after it ran.` : "",
    ].filter(Boolean);
  }
}

export class Receipt {
  constructor(pathOf) {
    this.pathOf = pathOf;
    this.body = h("div", {});
    this.element = h("section", { class: "panel wide names", "aria-labelledby": "receipt-title", hidden: true }, h("h3", { id: "receipt-title" }, "Receipt"), this.body);
  }

  show({ receipt, job }) {
    const isOver = ENDED.includes(job.state);
    this.element.hidden = !receipt && !isOver;
    const key = JSON.stringify([receipt, isOver, job.job_id]);
    if (this.element.hidden || this.shown === key) return;
    this.shown = key;
    const path = `api/v1/${this.pathOf(job.job_id, "/receipt")}`;
    const file = (words, form, ending) => h("a", { href: `${path}${path.includes("?") ? "&" : "?"}format=${form}`, download: `receipt-${receipt?.receipt_id ?? "now"}.${ending}` }, words);
    const downloads = h("p", { class: "downloads" }, file("Download as text", "text", "txt"), file("Download as JSON", "json", "json"));
    if (!receipt) {
      this.body.replaceChildren(h("p", { class: "sub" }, "None was sent. Owners who ask for receipts get one when a job ends; this one is made from the store as it is now."), downloads);
      return;
    }
    this.body.replaceChildren(
      h("p", {}, foreign(visible(receipt.summary))),
      h("p", { class: "sub" }, `Of its end at ${stamp(receipt.ended_ms)}, to `, foreign(visible(receipt.owner)), `: ${receipt.outcomes || "no message yet"}.`),
      downloads,
    );
  }
}
