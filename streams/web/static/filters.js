// Which jobs are shown and in what order: search, owner, team, state, sort. Kept in the address, so it can be sent on.

import { h } from "./dom.js";
import { LIVE } from "./words.js";

const text = (value) => String(value ?? "");
const number = (value) => (value === null || value === undefined ? -1 : Number(value));

export const SORTS = {
  job: { title: "Job", of: (job) => text(job.job_id), up: true },
  owner: { title: "Owner", of: (job) => `${text(job.owner)}\u0000${text(job.team)}`, up: true },
  state: { title: "State", of: (job) => text(job.state), up: true },
  gpus: { title: "GPUs", of: (job) => number(job.gpu_count) },
  burn: { title: "Burn per hour", of: (job) => number(job.usd_per_hour_now) },
  ratio: { title: "vs expected", of: (job) => number(job.ratio) },
  cost: { title: "Cost so far", of: (job) => number(job.cost_usd) },
  use: { title: "GPU use", of: (job) => number(job.productive_ratio) },
};

const STATES = { all: "All states", live: "Live", alerts: "With alerts", ended: "Ended" };

export class Filters {
  constructor(form, onChange) {
    this.onChange = onChange;
    const asked = new URLSearchParams(location.search);
    this.sort = SORTS[asked.get("sort")] ? asked.get("sort") : "burn";
    this.up = asked.has("up");
    this.search = h("input", { type: "search", name: "q", placeholder: "Search jobs, owners, projects", "aria-label": "Search jobs, owners, teams, projects", autocomplete: "off", spellcheck: "false" });
    this.owner = h("select", { name: "owner", "aria-label": "Owner" });
    this.team = h("select", { name: "team", "aria-label": "Team" });
    this.state = h("select", { name: "state", "aria-label": "State" }, Object.entries(STATES).map(([value, words]) => h("option", { value }, words)));
    this.order = h("select", { name: "sort", class: "order", "aria-label": "Sort by" }, Object.entries(SORTS).map(([value, sort]) => h("option", { value }, `Sort: ${sort.title}`)));
    form.append(this.search, this.owner, this.team, this.state, this.order);
    this.search.value = asked.get("q") ?? "";
    this.options(this.owner, "All owners", [], asked.get("owner"));
    this.options(this.team, "All teams", [], asked.get("team"));
    this.state.value = STATES[asked.get("state")] ? asked.get("state") : "all";
    this.order.value = this.sort;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      if (event.target === this.order) return this.sortBy(this.order.value, false);
      this.changed();
    });
  }

  /** Offer the owners and teams that there are; a choice stays a choice though its jobs went. */
  offer(jobs) {
    this.options(this.owner, "All owners", jobs.map((job) => job.owner), this.owner.value);
    this.options(this.team, "All teams", jobs.map((job) => job.team), this.team.value);
  }

  options(select, all, names, chosen) {
    const wanted = [...new Set([...names, chosen].map(text).filter(Boolean))].sort();
    const present = [...select.options].slice(1).map((option) => option.value);
    if (select.options.length && wanted.join("\u0000") === present.join("\u0000")) return;
    select.replaceChildren(h("option", { value: "" }, all), ...wanted.map((name) => h("option", { value: name }, name)));
    select.value = text(chosen);
  }

  sortBy(name, again = true) {
    this.up = again && name === this.sort ? !this.up : Boolean(SORTS[name].up);
    this.sort = name;
    this.order.value = name;
    this.changed();
  }

  get any() {
    return Boolean(this.search.value || this.owner.value || this.team.value || this.state.value !== "all");
  }

  clear() {
    this.search.value = "";
    this.owner.value = "";
    this.team.value = "";
    this.state.value = "all";
    this.changed();
    this.search.focus();
  }

  changed() {
    const asked = new URLSearchParams();
    for (const field of [this.search, this.owner, this.team]) if (field.value) asked.set(field.name, field.value);
    if (this.state.value !== "all") asked.set("state", this.state.value);
    if (this.sort !== "burn") asked.set("sort", this.sort);
    if (this.up) asked.set("up", "1");
    const query = asked.toString();
    history.replaceState(history.state, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
    this.onChange();
  }

  apply(jobs) {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = jobs.filter((job) => {
      if (this.owner.value && job.owner !== this.owner.value) return false;
      if (this.team.value && job.team !== this.team.value) return false;
      if (this.state.value === "live" && !LIVE.has(job.state)) return false;
      if (this.state.value === "ended" && LIVE.has(job.state)) return false;
      if (this.state.value === "alerts" && !job.alerts?.length) return false;
      const hay = [job.job_id, job.owner, job.team, job.project, job.experiment, job.state, job.gpu_type].map(text).join(" ").toLowerCase();
      return words.every((word) => hay.includes(word));
    });
    const { of } = SORTS[this.sort];
    const way = this.up ? 1 : -1;
    return kept.sort((one, other) => {
      const [a, b] = [of(one), of(other)];
      if (a !== b) return (a < b ? -1 : 1) * way;
      return text(one.job_id) < text(other.job_id) ? -1 : 1;
    });
  }
}
