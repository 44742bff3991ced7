// Asks for the worker's token when it wants one. It must not keep the token: the worker gives a cookie for it, which ends.

import { byId, h, say } from "./dom.js";
import { post } from "./feed.js";
import { wayIn } from "./sign_in.js";

const GIVEN = "#token=";
/** Where the worker leads whose link had a wrong token. */
const REFUSED = /^#token-(\w+)$/;
const WRONG = { too_many_requests: "Too many wrong tokens came from this address. Wait a minute, or type the right one: it is taken at once." };

let refused = "";

/** Take the token out of a link from the address bar and the history, and show it to the worker. */
export async function openByLink() {
  const code = REFUSED.exec(location.hash)?.[1];
  if (code) {
    refused = WRONG[code] ?? "The token in the link is none of this worker.";
    history.replaceState(history.state, "", `${location.pathname}${location.search}`);
  }
  if (!location.hash.startsWith(GIVEN)) return;
  const token = location.hash.slice(GIVEN.length);
  history.replaceState(history.state, "", `${location.pathname}${location.search}`);
  try {
    await post("session", {}, decodeURIComponent(token));
  } catch (fault) {
    refused = `The token in the link was not taken: ${fault.message}.`; // the page asks for one
  }
}

export function showUnlock(locked) {
  const form = byId("unlock");
  form.hidden = !locked;
  if (!locked || form.children.length) return;
  const way = wayIn();
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const words = h("label", { for: "token" }, "This worker asks for its token (setting ", h("code", {}, "web.token"), ").");
  const wrong = h("p", { role: "alert", hidden: !refused && !way?.refused }, refused || way?.refused);
  if (way) form.append(way.link, h("span", { class: "sub" }, "or"));
  form.append(words, h("input", { type: "text", autocomplete: "username", value: "trainfare", hidden: true, "aria-hidden": "true" }), input, h("button", { type: "submit" }, "Show the figures"), wrong);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("session", {}, input.value);
      location.reload();
    } catch (fault) {
      wrong.hidden = false;
      say(wrong, fault.message);
    }
  });
}
