// A small dialog that asks for a few values. It must not keep one.

import { h } from "./dom.js";

/**
 * Ask; the values by name, or null if the reader leaves it. A field with `options` is a choice.
 *
 * `preview` is asked with the values at the beginning and after each change: {lines, faults}, what the values come to, and
 * by the name of a field why it cannot be sent.
 */
export function ask(title, fields, go, preview = null) {
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
    const seen = h("ul", { class: "ask-preview", role: "status", hidden: !preview });
    const valuesOf = () => Object.fromEntries(controls.map(([, control]) => [control.name, control.value]));
    const look = () => {
      const { lines, faults } = preview(valuesOf());
      seen.replaceChildren(...lines.map((line) => h("li", {}, line)));
      for (const [, control] of controls) control.setCustomValidity(faults[control.name] ?? "");
    };
    const form = h("form", {}, h("h2", { id: "ask-title" }, title), ...controls, seen, h("p", { class: "ask-line" }, h("button", { type: "submit" }, go), cancel));
    const dialog = h("dialog", { class: "ask", "aria-labelledby": "ask-title" }, form);
    let found = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      found = valuesOf();
      dialog.close();
    });
    if (preview) {
      form.addEventListener("input", look);
      look();
    }
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
