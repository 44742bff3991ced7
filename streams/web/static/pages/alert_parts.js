// What the list of alerts and the view of one have in common: the badge, the subject, what became of the message, the members.

import { charge, foreign, h, visible } from "../dom.js";
import { money, near, plural } from "../format.js";
import { alertHash } from "../alerts.js";
import { jobHash } from "../jobs.js";
import { IS_FLAG } from "../rules.js";
import { ruleName, MESSAGES } from "../words.js";

/** Words of the documentation without its marks: code, links, what a flag counts as. */
export function plain(text) {
  return visible(text.replace(IS_FLAG, "").replaceAll("`", "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
}

/** What an alert is about: its job as a link, anything else by kind and name. */
export function subjectOf({ subject }) {
  if (subject.kind === "job") return h("a", { href: jobHash(subject.name), class: "subject" }, foreign(visible(subject.name)));
  return h("span", { class: "subject" }, h("span", { class: "dim" }, `${subject.kind} `), foreign(visible(subject.name)));
}

/** Sign and words of what became of a message. */
export function toldOf(alert) {
  const [sign, words, kind] = MESSAGES[alert.message] ?? ["", alert.message, "no"];
  return h("span", { class: "delivered", "data-delivered": kind }, `${sign} ${words}`);
}

export function badgeOf(alert) {
  const firing = alert.status === "firing";
  return h("span", { class: "badge" }, firing ? alert.severity : `${alert.severity}, resolved`);
}

/** The alerts of jobs that another one tells of, each with what its job pays and how far it is. */
export function membersOf(found, alert, whole, now) {
  if (!found) return [h("p", { class: "dim" }, "Reading its alerts…")];
  if (found.fault) return [h("p", {}, `Could not read its alerts: ${visible(found.fault)}.`)];
  const items = found.alerts.map((each) =>
    h(
      "li",
      { "data-severity": each.severity, "data-status": each.status },
      h("span", { class: "member-about" }, subjectOf(each)),
      h("a", { href: alertHash(each.alert_id) }, ruleName(each.rule)),
      charge(h("span", { class: "money" }), each.usd_per_hour, { words: (text) => `${text}/h` }),
      h("span", { class: "dim" }, `${each.status === "firing" ? "firing since" : "resolved, fired"} ${near(each.started_ms, now)}`),
    ),
  );
  const more = found.count > items.length ? h("p", {}, h("a", { href: whole }, `All ${plural(found.count, "alert")} of it`), ` (the newest ${items.length} are shown)`) : null;
  return [h("ul", { class: "member-list", "aria-label": `Alerts of jobs of ${ruleName(alert.rule)} ${visible(alert.subject.name)}` }, items), more].filter(Boolean);
}
