// Controls that fold into one line on a phone, so that what they choose from is on its first screen. A wide screen shows them as they are.

import { foreign, h, say, visible } from "./dom.js";

const narrow = matchMedia("(max-width: 720px)");

export class Choices {
  /** `title`: of the line; `inside`: what folds. */
  constructor(title, ...inside) {
    Object.assign(this, { title, opened: false });
    this.words = h("span", {}, title);
    this.set = h("span", { class: "choices-set" });
    this.element = h("details", { class: "choices" }, h("summary", {}, this.words, this.set), inside);
    // What the reader does counts; that a wide screen opens it does not.
    this.element.addEventListener("toggle", () => narrow.matches && (this.opened = this.element.open));
    narrow.addEventListener("change", () => this.fit());
    this.fit();
  }

  fit() {
    this.element.open = !narrow.matches || this.opened;
  }

  /** Say in the line which are set: what each is of, and its value, so that the list can be understood while they are folded. */
  tell(set) {
    say(this.words, set.length ? `${this.title} (${set.length} set)` : this.title);
    this.set.replaceChildren(...set.flatMap(([name, value], at) => [at ? ", " : ": ", `${name} `, foreign(visible(value))]));
  }
}
