// The page: a stream of snapshots, shown in a band, an alert list and a jobs table; one job by #/job/ID; others by #/NAME.

import { byId, mark, say, visible } from "./dom.js";
import { duration, hour, instant, isLocal, money, showLocal, zone } from "./format.js";
import { Feed, get } from "./feed.js";
import { Meter } from "./meter.js";
import { Band } from "./band.js";
import { Filters } from "./filters.js";
import { Jobs } from "./jobs.js";
import { JobList } from "./joblist.js";
import { Alerts } from "./alerts.js";
import { Acts } from "./acts.js";
import { Budgets } from "./budgets.js";
import { openByLink, showUnlock } from "./unlock.js";
import { learn } from "./sign_in.js";
import { JobView } from "./jobview.js";
import { Pages } from "./pages.js";
import { here } from "./route.js";

const TICK_MS = 250;
const CALM_TICK_MS = 1000;
/** So long the live figures wait for those of the page that the address names: they take the store as long as a page does. */
const PAGE_FIRST_MS = 2000;

const meter = new Meter();
const band = new Band(meter);
const filters = new Filters(byId("filters"));
const jobs = new Jobs(meter, filters);
const list = new JobList(filters, { onPage: (page, isOther) => jobs.show(page, isOther), onTrouble: (error) => jobs.fail(error), onSlow: (isSlow) => jobs.slow(isSlow) });
const acts = new Acts(meter);
const alerts = new Alerts(meter, acts);
const budgets = new Budgets(meter, acts);
const view = new JobView(meter, byId("job"), acts);
const entered = openByLink();
const clock = entered.then(readClock);
const pages = new Pages({ meter, acts, clock });
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let started = false; // before that a token of the address is on its way
let way = "waiting";
let trouble = null;
let last = null;
let opened = null;
let returnTo = null;
let scrolled = 0;
let cameFrom = null;

const feed = new Feed({
  onSnapshot(snapshot, how) {
    [way, trouble, last] = [how, null, snapshot];
    meter.hear(snapshot.burn.as_of_ms, snapshot.speed ?? snapshot.burn.speed);
    acts.allow(snapshot.may_act);
    // Of a viewer of some teams: every figure below is of these alone.
    byId("partial").hidden = !snapshot.partial;
    say(byId("partial"), snapshot.partial ? `only ${visible(snapshot.partial)}` : "", "What is shown is of these teams alone, totals too");
    pages.bind(snapshot.partial ?? "");
    band.show(snapshot.burn, snapshot.alerts);
    alerts.show(snapshot.alerts);
    budgets.hear();
    jobs.hear(snapshot.jobs);
    list.hear(snapshot.burn);
    view.hear(snapshot);
    pages.hear(snapshot);
    status();
  },
  onTrouble(error) {
    trouble = error;
    status();
  },
});

function status() {
  const stale = meter.stale;
  const waiting = last === null;
  document.body.classList.toggle("stale", stale);
  const quiet = meter.quiet && last?.burn.jobs_live > 0;
  const state = waiting ? "waiting" : stale ? "stale" : meter.atRest ? "rest" : quiet ? "quiet" : "live";
  mark(byId("link"), "data-state", state);
  const locked = trouble?.status === 401 && (stale || waiting);
  const words = {
    waiting: locked ? "locked" : trouble ? "no figures" : "connecting",
    stale: `stale: figures are ${duration(meter.ageMs)} old`,
    quiet: "no new figures",
    rest: "read-only: nobody meters",
    live: way === "polling" ? "live (polling)" : "live",
  }[state];
  say(byId("link-text"), words);
  showUnlock(locked);
  const text = trouble && !locked && (stale || waiting) ? `No figures: ${trouble.message}.${trouble.status ? "" : " Is the worker running?"} Trying again.` : "";
  say(byId("notice"), text);
  byId("notice").hidden = !text;
  if (waiting) return;
  const clock = meter.atRest ? `as of ${instant(meter.asOfMs)}` : meter.foreign ? `meter clock ${instant(meter.timeMs)}` : `${hour(meter.timeMs)} ${zone(meter.timeMs)}`;
  say(byId("clock"), meter.speed === 1 || meter.atRest ? clock : `${clock}, ${meter.reportedSpeed ? "" : "about "}${meter.speed}×`, `Instant of the figures: ${instant(meter.asOfMs)}`);
  const firing = last.burn.alerts_firing;
  if (meter.asOfMs === null) say(byId("clock"), "no figures yet", "");
  const title = `${stale ? "stale · " : ""}${firing ? `(${firing}) ` : ""}${money(last.burn.usd_per_hour_now)}/h · trainfare`;
  const shown = view.jobId ?? (pages.name === null ? null : pages.title(pages.name));
  const wanted = shown === null ? title : `${shown} · trainfare`;
  if (document.title !== wanted) document.title = wanted;
}

function tick() {
  status();
  if (document.hidden) return;
  if (last && !meter.stale) {
    band.tick();
    if (!view.jobId && pages.name === null) jobs.tick();
    view.tick();
    pages.tick();
  }
}

function loop() {
  tick();
  setTimeout(loop, calm.matches ? CALM_TICK_MS : TICK_MS);
}

/** The instant of the meter's figures, which comes before they do: the ranges of pages end there. */
async function readClock() {
  if (pages.name === null) return;
  try {
    const { as_of_ms: asOfMs, speed } = await get("clock");
    meter.hear(asOfMs, speed);
  } catch {
    // The stream says what the matter is.
  }
}

/** Show what the address names: a job, a page, or else the board, which keeps where the reader was. */
function route() {
  const { page, rest, state } = here();
  const jobId = page === "job" && rest ? rest : null;
  const name = jobId === null && pages.has(page) ? page : null;
  const before = view.jobId;
  const onBoard = !byId("board").hidden;
  const toBoard = jobId === null && name === null;
  if (jobId !== before && before !== null) view.close();
  if (onBoard && !toBoard) {
    returnTo = document.activeElement;
    scrolled = scrollY;
  }
  byId("board").hidden = !toBoard;
  document.body.classList.toggle("one-job", jobId !== null);
  document.body.classList.toggle("on-page", name !== null);
  if (toBoard) {
    filters.read(state);
    if (started && (filters.asked !== list.asked || !onBoard)) list.ask();
    if (started && !onBoard) budgets.read();
  }
  const changed = name !== pages.name;
  opened = pages.show(name, state, rest);
  if (jobId !== null && jobId !== before) {
    view.open(jobId);
    if (last) view.hear(last);
    scrollTo(0, 0);
  } else if (name !== null && changed) {
    scrollTo(0, 0);
  } else if (toBoard && !onBoard) {
    jobs.render();
    jobs.awaited = before; // its row comes with the list
    scrollTo(0, scrolled);
    const target = returnTo?.isConnected && returnTo !== document.body ? returnTo : before === null ? null : jobs.linkOf(before);
    (target ?? byId("main")).focus({ preventScroll: Boolean(target) });
    returnTo = null;
  }
  status();
}

function leave() {
  if (cameFrom !== null) history.back();
  else location.hash = "#/";
}

addEventListener("hashchange", (event) => {
  // From one job to the next, "back" is still where the first one was opened.
  const before = new URL(event.oldURL).hash;
  if (here().page !== "job") cameFrom = null;
  else if (!before.startsWith("#/job/")) cameFrom = before;
  route();
});

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && view.jobId !== null) {
    event.preventDefault();
    leave();
  } else if (event.key === "/" && view.jobId === null && !event.target.closest("input, select, textarea")) {
    const search = pages.name === null ? filters.search : byId("page").querySelector("[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  }
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-leave]")) return;
  event.preventDefault();
  leave();
});

// The skip link must not become a route.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

/** One switch for the times of all that is shown: what is open is drawn anew. */
function showZone() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  say(byId("zone"), isLocal() ? `Times: ${name || "local"}` : "Times: UTC", isLocal() ? "Show times in UTC" : `Show times by this computer's clock (${name || "local"})`);
}

addEventListener("zonechange", () => {
  showZone();
  if (last) feed.onSnapshot(last, way);
  if (view.jobId !== null) view.open(view.jobId);
  const { page, rest, state } = here();
  if (pages.name !== null && pages.has(page)) pages.show(page, state, rest);
});

byId("zone").addEventListener("click", () => showLocal(!isLocal()));

showZone();
route();
Promise.all([entered.then(learn), clock]).then(async () => {
  started = true;
  if (!byId("board").hidden) list.ask();
  await Promise.race([opened, new Promise((resolve) => setTimeout(resolve, PAGE_FIRST_MS))]);
  feed.start();
  budgets.start();
});
loop();
