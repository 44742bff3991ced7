// A small dialog that asks for a few values. It must not keep one.

import { h } from "./dom.js";

/** Ask; the values by name, or null if the reader leaves it. A field with `options` is a choice. */
export function ask(title, fields, go) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const controls = fields.map(({ name, label, options, ...how }) => {
      const id = `ask-${name}`;
      const control = options
        ? h("select", { id, name }, options.map(([value, words]) => h("option", { value }, words)))
        : h("input", { id, name, autocomplete: "off", maxlength: 1000, ...how });
      return [h("label", { for: id }, label), control];
    });
    const cancel = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel");
    const form = h("form", {}, h("h2", { id: "ask-title" }, title), ...controls, h("p", { class: "ask-line" }, h("button", { type: "submit" }, go), cancel));
    const dialog = h("dialog", { class: "ask", "aria-labelledby": "ask-title" }, form);
    let found = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      found = Object.fromEntries(controls.map(([, control]) => [control.name, control.value]));
      dialog.close();
    });
    // Keys in it are not the page's.
    dialog.addEventListener("keydown", (event) => event.stopPropagation());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus({ preventScroll: true });
      resolve(found);
    });
    document.body.append(dialog);
    dialog.showModal();
    const first = controls[0][1];
    first.focus();
    if (first.select) first.select();
  });
}
