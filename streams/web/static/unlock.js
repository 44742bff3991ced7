// Asks for the worker's token when it wants one. It must not keep the token: the worker gives a cookie for it.

import { byId, h } from "./dom.js";

export function showUnlock(locked) {
  const form = byId("unlock");
  form.hidden = !locked;
  if (!locked || form.children.length) return;
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const words = h("label", { for: "token" }, "This worker asks for its token (setting ", h("code", {}, "web.token"), ").");
  form.append(words, h("input", { type: "text", autocomplete: "username", value: "trainfare", hidden: true, "aria-hidden": "true" }), input, h("button", { type: "submit" }, "Show the figures"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // It answers with a cookie and leads back here without the token.
    location.assign(`./?token=${encodeURIComponent(input.value)}${location.hash}`);
  });
}
