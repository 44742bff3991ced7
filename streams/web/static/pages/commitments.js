// What was bought for a time: its cost by month, what of it nobody used, and whose that is. Hidden where nothing was bought.

import { dollars, foreign, h, row, say, table, visible } from "../dom.js";
import { percent } from "../format.js";
import { get } from "../feed.js";

const COLUMNS = [
  { title: "Month", class: "fix" },
  { title: "Commitment", class: "wide" },
  { title: "Owner", class: "" },
  { title: "Cost", class: "num" },
  { title: "Unused", class: "num" },
  { title: "Utilization", class: "num" },
];
const COVERED = [
  { title: "Month", class: "fix" },
  { title: "GPU-time covered (file)", class: "num" },
  { title: "List cost covered (bills)", class: "num" },
];
const SHOWN = 24;

const share = (ratio) => (ratio === null ? "–" : percent(ratio));
const month = (each) => String(each.period_start).slice(0, 7);

export class Commitments {
  constructor() {
    this.said = h("p", { class: "sub", role: "status" });
    this.body = h("div", {});
    this.element = h("section", { class: "panel", "aria-labelledby": "commitments-title", hidden: true }, h("h2", { id: "commitments-title" }, "Commitments"), this.said, this.body);
  }

  async read() {
    try {
      this.show(await get("commitments?per=month&limit=1000&tz=UTC&fiscal=0"));
    } catch (trouble) {
      this.element.hidden = [401, 403, 404].includes(trouble.status); // 403: contracts are of all teams
      say(this.said, `Could not read the commitments: ${visible(trouble.message)}.`);
    }
  }

  show({ rows, coverage, is_cut: isCut }) {
    this.element.hidden = !rows.length;
    if (!rows.length) return;
    const newest = [...rows].reverse().sort((one, other) => (month(one) < month(other) ? 1 : month(one) > month(other) ? -1 : Number(other.unused_usd) - Number(one.unused_usd)));
    say(this.said, `Reservations, savings plans, committed use and owned machines, by month (UTC); the newest first${isCut || newest.length > SHOWN ? `, ${SHOWN} shown: trainfare commitments show has all` : ""}.`);
    const made = table(COLUMNS, { caption: "Commitments by month" });
    made.fill(newest.slice(0, SHOWN).map((each) => row(COLUMNS, [month(each), foreign(visible(each.commitment_id)), each.team ? foreign(visible(each.team)) : h("span", { class: "dim" }, "unallocated"), dollars(each.cost_usd), dollars(each.unused_usd), share(each.utilization_ratio)])));
    const covered = table(COVERED, { caption: "How much of the use commitments cover" });
    covered.fill([...coverage].reverse().slice(0, SHOWN).map((each) => row(COVERED, [month(each), share(each.gpu_coverage_ratio), share(each.list_coverage_ratio)])));
    const part = (element, label) => h("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": label }, element);
    this.body.replaceChildren(part(made.element, "Commitments by month"), part(covered.element, "How much of the use commitments cover"));
  }
}
