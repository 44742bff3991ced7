// The pages beside the board and the job, in the order of the navigation. Each is loaded when it is first asked for.
//
// A page is a module with `class Page`, made once with {meter, acts, clock, host}:
//   open(state, rest)  the address names the page: URLSearchParams of its state, and what follows its name; may return a
//                      promise that is kept once the page shows what it was asked for
//   close()            the address names another page
//   hear(snapshot)     optional: figures of the stream came while the page is open
//   tick()             optional: called some times a second while the page is open and its figures are not stale

import { byId, h, visible } from "./dom.js";
import { address, here } from "./route.js";

export const PAGES = {
  costs: { title: "Costs", load: () => import("./pages/costs.js") },
  finance: { title: "Finance", load: () => import("./pages/finance.js") },
  idle: { title: "Idle", ofAll: "What no job uses is nobody's in particular", load: () => import("./pages/idle.js") },
  budgets: { title: "Budgets", load: () => import("./pages/budgets.js") },
  alerts: { title: "Alerts", load: () => import("./pages/alerts.js") },
  experiments: { title: "Experiments", load: () => import("./pages/experiments.js") },
  dashboards: { title: "Dashboards", load: () => import("./pages/dashboards.js") },
  query: { title: "Query", load: () => import("./pages/query.js") },
  changes: { title: "Changes", ofAll: "The audit trail is of all teams", load: () => import("./pages/changes.js") },
  meter: { title: "Meter", ofAll: "The meter's faults name jobs and nodes of every team", load: () => import("./pages/meter.js") },
};

export class Pages {
  constructor(parts) {
    this.parts = parts;
    this.host = byId("page");
    this.made = new Map();
    this.name = null;
    this.page = null;
    this.links = new Map();
    this.partial = "";
    const entries = [["", "Live"], ...Object.entries(PAGES).map(([name, { title }]) => [name, title])];
    const nav = byId("pages");
    nav.hidden = entries.length < 2;
    for (const [name, title] of entries) {
      const link = h("a", { href: address(name) }, title);
      this.links.set(name, link);
      nav.append(link);
    }
  }

  has(name) {
    return Object.hasOwn(PAGES, name);
  }

  title(name) {
    return PAGES[name].title;
  }

  /** Whose figures alone the reader sees; "": of all. Pages that are made of all teams' are then for others. */
  bind(partial) {
    if (partial === this.partial) return;
    this.partial = partial;
    for (const [name, link] of this.links) link.hidden = Boolean(partial && PAGES[name]?.ofAll);
    if (!PAGES[this.name]?.ofAll) return;
    const name = this.name;
    const { state, rest } = here();
    this.show(null).then(() => this.show(name, state, rest));
  }

  /** Show the page that the address names, or none. */
  async show(name, state, rest) {
    for (const [each, link] of this.links) {
      if (each !== (name ?? "")) {
        link.removeAttribute("aria-current");
        continue;
      }
      link.setAttribute("aria-current", "page");
      // On a phone the navigation scrolls: the page that is open stays in sight.
      const nav = link.parentElement;
      nav.scrollLeft = link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.clientWidth) / 2;
    }
    if (name !== this.name) {
      this.page?.close();
      this.page = null;
      this.name = name;
      this.host.replaceChildren();
      this.host.hidden = name === null;
      if (name === null) return;
      this.host.className = `page page-${name}`;
      this.host.setAttribute("aria-label", this.title(name));
      if (this.partial && PAGES[name].ofAll) {
        const words = `${PAGES[name].ofAll}, and you see ${visible(this.partial)} alone. Somebody who sees all teams can look.`;
        this.host.replaceChildren(h("div", { class: "page-head" }, h("h1", {}, this.title(name))), h("p", { class: "notice", role: "status" }, words));
        return;
      }
      const page = await this.module(name);
      await this.parts.clock;
      // Another page may have been asked for while this one was loaded.
      if (this.name !== name) return;
      this.page = page;
      ({ state, rest } = here());
    }
    await this.page?.open(state, rest);
  }

  async module(name) {
    if (!this.made.has(name)) {
      const { Page } = await PAGES[name].load();
      this.made.set(name, new Page({ ...this.parts, host: this.host }));
    }
    return this.made.get(name);
  }

  hear(snapshot) {
    this.page?.hear?.(snapshot);
  }

  tick() {
    this.page?.tick?.();
  }
}
