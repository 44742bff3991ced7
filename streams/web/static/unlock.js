// Asks for the worker's token when it wants one. It must not keep the token: the worker gives a cookie for it, which ends.

import { byId, h, say } from "./dom.js";
import { post } from "./feed.js";

const GIVEN = "#token=";

/** Take the token out of a link from the address bar and the history, and show it to the worker. */
export async function openByLink() {
  if (!location.hash.startsWith(GIVEN)) return;
  const token = location.hash.slice(GIVEN.length);
  history.replaceState(history.state, "", `${location.pathname}${location.search}`);
  try {
    await post("session", {}, decodeURIComponent(token));
  } catch {
    // The page asks for one.
  }
}

export function showUnlock(locked) {
  const form = byId("unlock");
  form.hidden = !locked;
  if (!locked || form.children.length) return;
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const words = h("label", { for: "token" }, "This worker asks for its token (setting ", h("code", {}, "web.token"), ").");
  const wrong = h("p", { role: "alert", hidden: true });
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
