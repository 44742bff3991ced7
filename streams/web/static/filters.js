// Which jobs are listed and in what order: search, owner, team, state, sweeps, sort. All of it is in the address, so it can be sent on.

import { h, say } from "./dom.js";
import { address, go, here } from "./route.js";

const text = (value) => String(value ?? "");

export const SORTS = {
  job: { title: "Job", up: true },
  owner: { title: "Owner", up: true },
  state: { title: "State", up: true },
  gpus: { title: "GPUs" },
  burn: { title: "Burn per hour" },
  ratio: { title: "vs expected" },
  cost: { title: "Cost so far" },
  use: { title: "GPU use" },
};

const STATES = { live: "Live", all: "All states", alerts: "With alerts", ended: "Ended" };
const ASKED = { live: { state: "live" }, all: {}, alerts: { firing: "1" }, ended: { state: "ended" } };
export const STATE_WORDS = { live: "live jobs", all: "jobs", alerts: "jobs", ended: "ended jobs" };
const TYPED_MS = 200;
/** Names that are offered: of the jobs that were seen, not of all that there are. */
const OFFERED = 300;

export class Filters {
  constructor(form) {
    this.names = { owner: new Set(), team: new Set() };
    this.search = h("input", { type: "search", name: "q", maxlength: 256, placeholder: "Search jobs, owners, nodes", "aria-label": "Search jobs, owners, teams, projects, experiments, nodes", autocomplete: "off", spellcheck: "false" });
    this.owner = h("select", { name: "owner", "aria-label": "Owner" });
    this.team = h("select", { name: "team", "aria-label": "Team" });
    this.state = h("select", { name: "state", "aria-label": "State" }, Object.entries(STATES).map(([value, words]) => h("option", { value }, words)));
    this.order = h("select", { name: "sort", class: "order", "aria-label": "Sort by" }, Object.entries(SORTS).map(([value, sort]) => h("option", { value }, `Sort: ${sort.title}`)));
    this.grouped = h("input", { type: "checkbox", name: "group" });
    this.sweepName = h("bdi");
    this.leaveSweep = h("a", { class: "sweep-leave" }, "× All jobs");
    this.sweep = h("p", { class: "sweep", hidden: true }, "Jobs of the sweep ", this.sweepName, " ", this.leaveSweep);
    form.append(this.search, this.owner, this.team, this.state, this.order, h("label", { class: "grouped" }, this.grouped, " Group sweeps"), this.sweep);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.typed();
    });
    form.addEventListener("input", (event) => {
      if (event.target === this.order) this.sortBy(this.order.value, false);
      else if (event.target === this.search) this.typing();
      else this.changed();
    });
    this.read(here().state);
  }

  /** Take what the address says; what is being typed is not overwritten. */
  read(state) {
    this.sort = SORTS[state.get("sort")] ? state.get("sort") : "burn";
    this.up = state.has("dir") ? state.get("dir") === "asc" : Boolean(SORTS[this.sort].up);
    this.cursor = state.get("cursor") ?? "";
    this.sweepKey = state.get("sweep") ?? "";
    if (!this.timer && this.search.value.trim() !== (state.get("q") ?? "")) this.search.value = state.get("q") ?? "";
    this.state.value = STATES[state.get("state")] ? state.get("state") : "live";
    this.grouped.checked = state.get("group") !== "off";
    this.grouped.disabled = this.sweepKey !== "";
    this.order.value = this.sort;
    this.options("owner", "All owners", state.get("owner"));
    this.options("team", "All teams", state.get("team"));
    this.sweep.hidden = this.sweepKey === "";
    say(this.sweepName, sweepName(this.sweepKey));
    this.leaveSweep.href = this.address({ sweep: "", cursor: "" });
  }

  /** Offer the owners and teams of the jobs that are shown; a choice stays a choice though its jobs went. */
  offer(jobs) {
    for (const name of ["owner", "team"]) {
      for (const job of jobs) if (job[name] && this.names[name].size < OFFERED) this.names[name].add(job[name]);
    }
    this.options("owner", "All owners", this.owner.value);
    this.options("team", "All teams", this.team.value);
  }

  options(name, all, chosen) {
    const select = this[name];
    const wanted = [...new Set([...this.names[name], text(chosen)].filter(Boolean))].sort();
    const present = [...select.options].slice(1).map((option) => option.value);
    if (!select.options.length || wanted.join("\u0000") !== present.join("\u0000")) {
      select.replaceChildren(h("option", { value: "" }, all), ...wanted.map((each) => h("option", { value: each }, each)));
    }
    if (select.value !== text(chosen)) select.value = text(chosen);
  }

  typing() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.typed(), TYPED_MS);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = null;
    go(this.address({ cursor: "" }), { replace: true });
  }

  changed() {
    this.typed();
  }

  sortBy(name, again = true) {
    this.up = again && name === this.sort ? !this.up : Boolean(SORTS[name].up);
    this.sort = name;
    this.changed();
  }

  /** The address of the board as it is chosen, but for some values. */
  address(changes = {}) {
    const dir = this.up === Boolean(SORTS[this.sort].up) ? "" : this.up ? "asc" : "desc";
    return address("", {
      q: this.search.value.trim(),
      owner: this.owner.value,
      team: this.team.value,
      state: this.state.value === "live" ? "" : this.state.value,
      group: this.grouped.checked ? "" : "off",
      sweep: this.sweepKey,
      sort: this.sort === "burn" ? "" : this.sort,
      dir,
      cursor: this.cursor,
      ...changes,
    });
  }

  /** What the meter is asked for. */
  get asked() {
    const asked = {
      ...ASKED[this.state.value],
      q: this.search.value.trim(),
      owner: this.owner.value,
      team: this.team.value,
      sweep: this.sweepKey,
      group: this.grouped.checked && !this.sweepKey ? "sweep" : "",
      order: this.sort,
      dir: this.up ? "asc" : "desc",
      cursor: this.cursor,
    };
    return new URLSearchParams(Object.entries(asked).filter(([, value]) => value)).toString();
  }

  get any() {
    return Boolean(this.search.value.trim() || this.owner.value || this.team.value || this.sweepKey || this.state.value !== "live");
  }

  clear() {
    this.search.value = "";
    this.owner.value = "";
    this.team.value = "";
    this.sweepKey = "";
    this.state.value = "live";
    this.cursor = "";
    this.changed();
    this.search.focus();
  }
}

/** The name of a sweep by its key: `experiment:TEAM/PROJECT/NAME` or `name:OWNER/TEMPLATE`. */
export function sweepName(key) {
  const [, kind, rest] = /^(experiment|name):(.*)$/s.exec(key) ?? [];
  if (!kind) return key;
  return rest.split("/").slice(kind === "experiment" ? 2 : 1).join("/");
}
