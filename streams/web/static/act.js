// The page behind a signed link of a message: says what it would do, asks once, does it. Opening it does nothing.

import { byId, foreign, h, visible } from "./dom.js";
import { exact, money, instant } from "./format.js";
import { ruleName } from "./words.js";

const HOURS = [1, 4, 8, 24];
const FIRST_HOURS = 4;
const ACTS = {
  ack: { title: "Acknowledge", said: "Acknowledged", effect: "You say that somebody looks after it: it is not escalated to the next in line, and not repeated, while this holds." },
  silence: { title: "Silence", said: "Silenced", effect: "Alerts of this rule about it are stored and shown, and not sent, while this holds." },
  planned: { title: "This is planned", said: "Planned", effect: "What it costs now counts as planned: rules that compare it with what is expected are quiet up to 1.2 times that, while this holds." },
};

/** What the address offers: an act, the signed text, and what it says. The server checks the signature; nothing here is trusted. */
function offered() {
  const [, act, link] = /^#(ack|silence|planned|confirm)=([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/.exec(location.hash) ?? [];
  if (!act) return null;
  try {
    const bytes = Uint8Array.from(atob(link.split(".")[0].replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return { act, link, about: JSON.parse(new TextDecoder().decode(bytes)) };
  } catch {
    return null;
  }
}

async function sent(body, path = "act", token = "") {
  let answer;
  const shown = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    answer = await fetch(`api/v1/${path}`, { method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json", ...shown }, body: JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Error(`the meter at ${location.host} does not answer; try again`);
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found) return found;
  throw new Error(found?.error?.message ?? `the meter answered ${answer.status}`);
}

function heading(...parts) {
  const title = h("h1", { tabindex: -1 }, ...parts);
  return title;
}

function show(...children) {
  byId("main").replaceChildren(...children.filter((each) => each !== null));
  byId("main").querySelector("h1")?.focus({ preventScroll: true });
}

function question({ act, link, about }) {
  const { title, effect } = ACTS[act];
  const name = foreign(visible(String(about.name ?? "")));
  const rate = Number(about.usd) > 0 ? h("p", {}, "It costs ", h("b", { class: "money", title: exact(about.usd) }, `${money(about.usd)}/h`), ".") : null;
  const hours = HOURS.map((each) => h("label", {}, h("input", { type: "radio", name: "hours", value: String(each), checked: each === FIRST_HOURS }), `${each} h`));
  const comment = h("input", { name: "comment", autocomplete: "off", maxlength: 1000 });
  const fault = h("p", { class: "notice", role: "alert", hidden: true });
  const go = h("button", { type: "submit" }, title);
  const form = h("form", {}, h("fieldset", {}, h("legend", {}, "For the next"), hours), h("label", { class: "text" }, "Why (optional)", comment), fault, go);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    fault.hidden = true;
    const chosen = Number(new FormData(form).get("hours"));
    try {
      const done = await sent({ link, act, hours: chosen, ...(comment.value ? { comment: comment.value } : {}) });
      show(heading(`✓ ${ACTS[act].said}: `, ruleName(about.rule), " of ", name), h("p", {}, `Until ${instant(done.until_ms)}. You can close this page.`));
    } catch (trouble) {
      fault.textContent = `Not done: ${visible(trouble.message)}.`;
      fault.hidden = false;
      go.disabled = false;
    }
  });
  show(heading(`${title}: `, ruleName(about.rule), ` of ${about.kind} `, name, "?"), rate, h("p", { class: "sub" }, effect), form, h("p", { class: "sub" }, `This link works until ${instant(about.ends_ms)}, for this alert alone.`));
}

/** Who is signed in by this browser, and the way to sign in; the worker knows the person by a cookie that no script can read. */
async function person() {
  try {
    const answer = await fetch("api/v1/sign_in", { headers: { Accept: "application/json" }, cache: "no-store" });
    if (answer.ok) return await answer.json();
  } catch {
    // what is asked for next says that it does not answer
  }
  return { name: null, path: null };
}

/** Asks once whether what another person wants is confirmed, as whoever the link is of, is signed in, or shows a token. */
async function confirmation({ link, about }) {
  const who = about.identity ? { name: about.identity, path: null } : await person();
  const token = h("input", { type: "password", autocomplete: "off", required: true });
  const asks = who.name ? null : h("label", { class: "text" }, "Your issued token, with the scope that it needs", token);
  const way = !who.name && who.path ? h("p", {}, h("a", { class: "sign-in", href: `${who.path.slice(1)}?to=${encodeURIComponent(`/act${location.hash}`)}` }, "Sign in"), ", or show a token.") : null;
  const fault = h("p", { class: "notice", role: "alert", hidden: true });
  const go = h("button", { type: "submit" }, "Confirm");
  const form = h("form", {}, asks, fault, go);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    fault.hidden = true;
    try {
      const done = about.identity ? await sent({ link, act: "confirm" }) : await sent({ link }, "approvals", token.value);
      show(heading("✓ Confirmed"), h("p", {}, `${visible(String(done.kind))} is in force: ${visible(String(done.by))}. You can close this page.`));
    } catch (trouble) {
      fault.textContent = `Not confirmed: ${visible(trouble.message)}.`;
      fault.hidden = false;
      go.disabled = false;
    }
  });
  const as = who.name ? h("p", {}, "You confirm as ", h("b", {}, foreign(visible(who.name))), ".") : null;
  show(heading("Confirm what another person asks for?"), h("p", {}, foreign(visible(String(about.by))), " asks for"), h("p", {}, h("code", {}, foreign(visible(String(about.what))))), as, way, form, h("p", { class: "sub" }, `It has no effect before, and waits until ${instant(about.ends_ms)}. Whoever asked for it does not confirm it.`));
}

function start() {
  const found = offered();
  if (found?.act === "confirm") confirmation(found);
  else if (found) question(found);
  else show(heading("This link is not whole"), h("p", {}, "Open it from the message again, or act on the alert on the meter’s page."));
}

addEventListener("hashchange", start);
start();
