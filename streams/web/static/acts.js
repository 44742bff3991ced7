// Acting on an alert: acknowledge, silence, plan; and asking for receipts. Each is a record that the worker writes; the page shows what comes back.

import { byId, h, say, visible } from "./dom.js";
import { editable, instant, money, near, zone } from "./format.js";
import { ask } from "./ask.js";
import { post } from "./feed.js";
import { CEILING_FIELDS, PLANNED_QUIETS, SILENCE_FIELDS } from "./rules.js";
import { may } from "./sign_in.js";
import { ruleName } from "./words.js";

const HOUR_MS = 3_600_000;
const ACK_HOURS = 4;
const SILENCE_HOURS = [1, 8];
const PLAN_HOURS = 8;
const TOAST_MS = 8000;
const KEY = "trainfare.write-token";
const UNTIL = `${KEY}.until-ms`;

/** What the job costs per hour by an alert; one of `traffic` has what traffic costs, and all else apart. */
function rateOf(alert) {
  return Number(alert.usd_per_hour) + (alert.rule === "traffic" ? Number(alert.expected_usd_per_hour) : 0);
}

/** The match fields of one alert: its rule, and what it is about, or whose that is. */
function about(alert) {
  const { kind, name } = alert.subject;
  // Alerts of some rules have no owner: a silence that names one would match none of them.
  const fields = SILENCE_FIELDS[alert.rule] ?? ["job_id", "owner", "team", "project"];
  const subject = kind === "job" ? "job_id" : kind;
  if (fields.includes(subject)) return { [subject]: name, rule: alert.rule };
  const whose = ["owner", "team", "project"].filter((field) => fields.includes(field) && alert[field]).map((field) => [field, alert[field]]);
  return { ...Object.fromEntries(whose), rule: alert.rule };
}

/** A toast; a fault stays longer and is read out at once. */
export function tell(words, kind = "good") {
  const host = byId("toasts");
  const toast = h("p", { class: "toast", "data-kind": kind, role: kind === "bad" ? "alert" : "status" }, words);
  host.append(toast);
  while (host.children.length > 3) host.firstElementChild.remove();
  setTimeout(() => toast.remove(), kind === "bad" ? 2 * TOAST_MS : TOAST_MS);
}

export class Acts {
  constructor(meter) {
    Object.assign(this, { meter, allowed: null, wanted: wanted() });
  }

  /** Whether the worker takes records at all; without, no button is shown. */
  allow(allowed) {
    this.allowed = Boolean(allowed);
  }

  /** The part of an alert's item: what was done about it, and the buttons. */
  part() {
    const button = (words, act) => h("button", { type: "button", class: "act", onclick: () => act(part.alert) }, words);
    const part = h("div", { class: "acts" });
    part.done = h("ul", { class: "done" });
    part.silences = SILENCE_HOURS.map((hours) => button(`Silence ${hours} h`, (alert) => this.silence(alert, hours)));
    part.buttons = h(
      "p",
      { class: "act-line" },
      button(`Acknowledge ${ACK_HOURS} h`, (alert) => this.acknowledge(alert)),
      part.silences,
      button("This is planned…", (alert) => this.plan(alert)),
    );
    part.append(part.done, part.buttons);
    return part;
  }

  update(part, alert) {
    part.alert = alert;
    const can = this.allowed && alert.subject.kind !== "meter";
    const firing = alert.status === "firing";
    part.buttons.hidden = !can || !firing;
    part.buttons.lastElementChild.hidden = !plannable(alert);
    const what = Object.keys(about(alert)).length > 1 ? "Silence" : "Silence all of its rule";
    part.silences.forEach((each, index) => say(each, `${what} ${SILENCE_HOURS[index]} h`));
    const shown = [
      ["acknowledged", alert.acknowledged],
      ["silenced", alert.silenced_by],
      ["planned", alert.planned_by],
    ].filter(([, control]) => control);
    const state = JSON.stringify([shown, can]);
    if (part.state === state) return;
    part.state = state;
    part.done.replaceChildren(...shown.map(([word, control]) => this.line(word, control, can)));
    part.done.hidden = shown.length === 0;
  }

  line(word, control, can) {
    const rate = word === "planned" && control.usd_per_hour !== null ? ` ${money(control.usd_per_hour)}/h` : "";
    const by = visible(control.by || "a record of the log");
    const until = control.until_ms === null ? "for ever" : `until ${near(control.until_ms, this.meter.timeMs)}`;
    const recurs = control.recurs ? `, ${visible(control.recurs)}` : "";
    const comment = control.comment ? [" · ", h("q", {}, h("bdi", {}, visible(control.comment)))] : [];
    const end = can ? h("button", { type: "button", class: "plain", "aria-label": `End: ${word}`, onclick: () => this.end(control) }, "end") : null;
    const title = control.until_ms === null ? "" : instant(control.until_ms);
    return h("li", { "data-act": word }, h("span", { title }, `${word}${rate} by ${by} ${until}${recurs}`, ...comment), " ", end);
  }

  acknowledge(alert, comment = {}) {
    return this.write({ kind: "ack", alert_id: alert.alert_id, until_ms: this.after(ACK_HOURS), ...acknowledgedRate(alert), ...comment }, "Acknowledged");
  }

  /** A link alone writes nothing: whoever follows it is asked first. */
  async acknowledgeFromLink(alert) {
    const given = await ask(`Acknowledge ${ruleName(alert.rule)} of ${visible(alert.subject.name)}?`, [
      { name: "comment", label: "Why (optional)" },
    ], "Acknowledge");
    if (!given) return;
    await this.acknowledge(alert, given.comment ? { comment: given.comment } : {});
  }

  silence(alert, hours) {
    return this.write({ kind: "silence", ...about(alert), until_ms: this.after(hours) }, "Silenced");
  }

  async silenceFromLink(alert) {
    const options = SILENCE_HOURS.map((hours) => [String(hours), `${hours} h`]);
    const given = await ask(`Silence ${ruleName(alert.rule)} of ${visible(alert.subject.name)}?`, [
      { name: "hours", label: "For", options },
      { name: "comment", label: "Why (optional)" },
    ], "Silence");
    if (!given) return;
    const comment = given.comment ? { comment: given.comment } : {};
    await this.write({ kind: "silence", ...about(alert), until_ms: this.after(Number(given.hours)), ...comment }, "Silenced");
  }

  async plan(alert) {
    const given = await ask(`What is planned for ${visible(alert.subject.name)}?`, [
      { name: "rate", label: "Dollars per hour", value: editable(rateOf(alert)), inputmode: "decimal", pattern: "[0-9]{1,9}(\\.[0-9]{1,9})?", required: true },
      { name: "hours", label: "For the next hours", value: String(PLAN_HOURS), type: "number", min: 1, max: 744, required: true },
      { name: "comment", label: "Why (optional)" },
    ], "It is planned");
    if (!given) return;
    // From the beginning of the window that the alert was judged by: what is planned explains it.
    const from_ms = Math.max(0, alert.started_ms - (alert.window_ms || 0));
    const comment = given.comment ? { comment: given.comment } : {};
    const record = { kind: "planned", job_id: alert.subject.name, from_ms, until_ms: this.after(Number(given.hours)), usd_per_hour: given.rate, ...comment };
    await this.write(record, `Planned: ${money(given.rate)}/h`);
  }

  /** Who is sent receipts when a job ends, and a digest each week: the owner of this one, or no longer. */
  async receipts(owner) {
    const given = await ask(`Receipts of jobs of ${visible(owner)}`, [
      { name: "on", label: "When one ends, and weekly", options: [["yes", "send them"], ["no", "send them no longer"]] },
      { name: "comment", label: "Why (optional)" },
    ], "Set it");
    if (!given) return;
    const on = given.on === "yes";
    const comment = given.comment ? { comment: given.comment } : {};
    await this.write({ kind: "receipt", owner, on, ...comment }, on ? `Receipts go to ${visible(owner)}` : `No more receipts to ${visible(owner)}`);
  }

  end(control) {
    const { kind, name, match, usd_per_hour, comment } = control;
    // By the figures' instant, which no clock of the worker is behind; its interval may have begun only now.
    const until_ms = Math.max(Math.floor(Math.min(this.meter.timeMs, this.meter.asOfMs ?? Infinity)), (control.begins_ms ?? 0) + 1);
    const interval = control.begins_ms === null ? { until_ms } : { from_ms: control.begins_ms, until_ms };
    const of = kind === "ack" ? { alert_id: control.alert_id, until_ms } : { name, match, ...interval };
    const rate = kind === "planned" ? { usd_per_hour } : {};
    // Its record replaces the one before: why it was set is still the reason that history shows.
    return this.write({ kind, ...of, ...rate, ...(comment ? { comment } : {}) }, "Ended");
  }

  after(hours) {
    return Math.floor(this.meter.timeMs + hours * HOUR_MS);
  }

  /** Send a record; the token is asked for once, and kept for this tab alone until an hour after the last act. */
  async write(record, words) {
    if (Number(sessionStorage.getItem(UNTIL) ?? Infinity) < Date.now()) sessionStorage.removeItem(KEY);
    let token = sessionStorage.getItem(KEY);
    if (!token && !may("act") && !may("limit")) {
      const given = await ask("This worker asks for a token that may write", [{ name: "token", label: "Token (setting web.write_token)", type: "password", required: true }], "Go on");
      if (!given) return false;
      token = given.token;
    }
    try {
      const answer = await post("controls", record, token);
      if (token) sessionStorage.setItem(KEY, token);
      sessionStorage.setItem(UNTIL, String(Date.now() + HOUR_MS));
      const until = record.until_ms === undefined ? "" : `, until ${near(record.until_ms, this.meter.timeMs)} ${zone(record.until_ms)}`;
      tell(answer.kind === "request" ? `Asked for, by ${answer.by}: ${answer.second_person} (trainfare approve ${answer.name}).` : `${words}, by ${answer.by}${until}.${answer.not_sent ? ` But nothing can be sent: ${answer.not_sent}.` : ""}`, answer.not_sent ? "bad" : undefined);
      return true;
    } catch (trouble) {
      if (trouble.status === 401 || trouble.status === 403) sessionStorage.removeItem(KEY);
      const later = trouble.status === 503 || trouble.status === 429 || trouble.status === 0 ? " Try again in a few seconds." : "";
      tell(`Not written: ${visible(trouble.message)}.${later}`, "bad");
    }
    return false;
  }

  /** Alerts came: open what the link of a message asked for, once. */
  seen(alerts) {
    if (!this.wanted || this.allowed === null || !alerts?.length) return; // null: no snapshot has said so
    const { id, act } = this.wanted;
    const alert = alerts.find((each) => each.alert_id === id);
    if (!alert) return;
    this.wanted = null;
    history.replaceState(history.state, "", `./${location.hash.startsWith("#/") ? location.hash : ""}`);
    if (alert.status !== "firing") tell("This alert has cleared.");
    else if (!this.allowed) tell("This worker takes no acts: set web.write_token (TRAINFARE_WEB_WRITE_TOKEN).", "bad");
    else if (act === "planned" && plannable(alert)) this.plan(alert);
    else if (act === "ack") this.acknowledgeFromLink(alert);
    else this.silenceFromLink(alert);
  }
}

/** Of a ceiling: what is acknowledged, so that it pages again only above it. */
function acknowledgedRate(alert) {
  const of = CEILING_FIELDS[alert.rule];
  return of ? { [of]: alert.subject.name, usd_per_hour: String(alert.usd_per_hour) } : {};
}

function plannable(alert) {
  return alert.subject.kind === "job" && PLANNED_QUIETS.has(alert.rule);
}

/** What a link asks for: ?ack=ID, ?silence=ID and ?planned=ID of messages, or #alert=ID&do=silence. */
function wanted() {
  const query = new URLSearchParams(location.search);
  for (const act of ["ack", "silence", "planned"]) if (query.get(act)) return { id: query.get(act), act };
  const hash = new URLSearchParams(location.hash.slice(1));
  return hash.get("alert") ? { id: hash.get("alert"), act: hash.get("do") ?? "silence" } : null;
}
