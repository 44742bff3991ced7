// What the page calls things: rules, severities, states, burn ratios, what became of a message.

import { RULES } from "./rules.js";

export const ruleName = (rule) => RULES[rule] ?? rule;

export const LIVE = new Set(["starting", "running", "suspended", "metered", "queued"]);

export const COMPONENTS = ["gpu", "compute", "network", "storage", "license", "labor", "overhead", "compliance"];
export const COMPONENT_NAMES = {
  gpu: "GPU",
  compute: "Compute",
  network: "Network",
  storage: "Storage",
  license: "Licence",
  labor: "Labour",
  overhead: "Overhead",
  compliance: "Compliance",
};

/** How a burn compares with what was expected: sign, colour class and words say the same thing. */
export function burnBand(job) {
  const ratio = job.ratio;
  if (job.state && !LIVE.has(job.state)) return { band: "none", sign: "", words: "ended" };
  if (ratio === null || ratio === undefined) return { band: "none", sign: "", words: "no expected rate" };
  if (ratio >= 2.1) return { band: "far", sign: "▲▲", words: "far above expected" };
  if (ratio >= 1.5) return { band: "over", sign: "▲", words: "above expected" };
  if (ratio >= 0.67) return { band: "even", sign: "=", words: "as expected" };
  if (ratio > 0) return { band: "under", sign: "▽", words: "below expected" };
  return { band: "under", sign: "▽", words: "not burning" };
}

const UNDELIVERED = {
  failed: "not delivered",
  refused: "not delivered: address refused",
  no_receiver: "not delivered: nobody to send it to",
  unsupported: "not delivered: this kind of address is not supported",
  silenced: "silenced, not sent",
  digest: "not sent: too few dollars, or known from the attempt before",
  in_incident: "not sent: one alert tells of its cause",
  usual: "not sent: usual for its kind",
  inhibited: "muted: a page about its team fires",
  superseded: "not sent: it changed before",
};

/** What became of the message of an alert, as the API names it: a sign, words, and whether somebody has it (yes, no, wait). */
export const MESSAGES = {
  sent: ["✓", "sent", "yes"],
  waiting: ["…", "waits to be sent", "wait"],
  failed: ["✗", "not delivered", "no"],
  nobody: ["✗", "nobody to send it to", "no"],
  silenced: ["–", "silenced", "no"],
  planned: ["–", "a planned rate is for it", "no"],
  inhibited: ["–", "muted by a page of its team", "no"],
  incident: ["–", "one alert tells of its cause", "no"],
  digest: ["–", "too few dollars, or known; in the digest", "no"],
  usual: ["–", "usual for its kind", "no"],
  superseded: ["–", "over before it was sent", "no"],
  none: ["–", "no message was made", "no"],
};

/** What became of one attempt to tell somebody: words, and whether somebody has it. */
export const OUTCOMES = {
  delivered: ["delivered", "yes"],
  repeated: ["said again, delivered", "yes"],
  retrying: ["not taken, tried again", "wait"],
  waiting: ["not sent so far", "wait"],
  failed: ["not delivered, given up", "no"],
  refused: ["not delivered: the address may not be reached", "no"],
  no_receiver: ["nobody to send it to", "no"],
  unsupported: ["this kind of address is not supported", "no"],
  silenced: ["silenced, not sent", "no"],
  digest: ["too few dollars, or known; in the digest", "no"],
  in_incident: ["not sent: one alert tells of its cause", "no"],
  usual: ["not sent: usual for its kind", "no"],
  inhibited: ["muted: a page of its team fires", "no"],
  superseded: ["not sent: it changed before", "no"],
};

/** What became of the message about the alert's present status: {kind, text, title}. */
export function delivery(alert) {
  const rows = (alert.deliveries ?? []).filter((each) => each.status === alert.status);
  const last = rows.reduce((best, each) => (best && order(best) >= order(each) ? best : each), null);
  const done = rows.find((each) => each.outcome === "delivered");
  const title = last ? [last.receiver, last.http_status || "", last.detail].filter(Boolean).join(" · ") : "";
  if (done) return { kind: "yes", text: "delivered", title };
  if (alert.silenced) return { kind: "no", text: UNDELIVERED.silenced, title };
  if (!last) return { kind: "wait", text: "not sent so far", title };
  if (last.outcome === "retrying") return { kind: "wait", text: `not delivered yet, attempt ${last.attempt} failed`, title };
  if (last.outcome === "waiting") return { kind: "wait", text: last.detail, title };
  const said = { usual: "not sent", no_receiver: "not delivered" }[last.outcome];
  if (said && last.detail) return { kind: "no", text: `${said}: ${last.detail}`, title };
  return { kind: "no", text: UNDELIVERED[last.outcome] ?? last.outcome, title };
}

function order(each) {
  return each.time_ms * 1000 + each.attempt;
}

/** 15 min of a window as words. */
export function windowWords(windowMs) {
  if (!windowMs) return "";
  const minutes = windowMs / 60_000;
  return minutes < 60 ? `${minutes} min` : `${minutes / 60} h`;
}
