// The query field: Tab completes, by what the server says may stand at the cursor.

import { byId, fill, make, show } from "./dom.js";
import { call, latest } from "./api.js";

const PAUSE = 120;

export class Editor {
  /** Follow a text area; `changed` hears of each change, `sent` of Ctrl+Enter. */
  constructor(area, list, changed, sent) {
    this.area = area;
    this.list = list;
    this.changed = changed;
    this.offers = [];
    this.chosen = 0;
    this.leaving = false;
    this.timer = 0;
    this.lookUp = latest((complete) => this.find(complete));
    area.addEventListener("input", () => this.typed());
    area.addEventListener("keydown", (event) => this.key(event, sent));
    area.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    area.addEventListener("click", () => this.close());
  }

  get text() {
    return this.area.value;
  }

  /** Put another text in, with the cursor at its end or over a stretch of it. */
  set(text, from = text.length, to = text.length) {
    this.area.value = text;
    this.area.focus();
    this.area.setSelectionRange(from, to);
    this.close();
    this.changed();
  }

  typed() {
    this.leaving = false;
    this.changed();
    clearTimeout(this.timer);
    const before = this.text.slice(0, this.area.selectionStart);
    if (/[\w.]$/.test(before)) this.timer = setTimeout(() => this.lookUp(false), PAUSE);
    else this.close();
  }

  key(event, sent) {
    const open = this.offers.length > 0 && !this.list.hidden;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      sent();
    } else if (event.key === "Escape") {
      this.leaving = true;
      this.close();
    } else if (event.key === "Tab" && !event.shiftKey && !this.leaving && !event.ctrlKey && !event.altKey) {
      if (!open && !this.text.slice(0, this.area.selectionStart).trim()) return;
      event.preventDefault();
      if (open) this.take(this.chosen);
      else this.lookUp(true);
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.choose((this.chosen + step + this.offers.length) % this.offers.length);
    } else if (open && event.key === "Enter" && this.moved) {
      event.preventDefault();
      this.take(this.chosen);
    }
  }

  /** Look up what may stand here; one that Tab asked for and is alone is taken at once. */
  async find(complete) {
    const at = this.area.selectionStart, text = this.text;
    let found;
    try {
      found = await call("complete", { before: text.slice(0, at), after: text.slice(at) });
    } catch {
      return this.close();
    }
    if (this.text !== text || this.area.selectionStart !== at || document.activeElement !== this.area) return;
    this.offers = found;
    this.moved = false;
    if (complete && found.length === 1) return this.take(0);
    this.open();
  }

  open() {
    if (!this.offers.length) return this.close();
    fill(this.list, this.offers.map((one, at) => make("li", { role: "option", id: `offer-${at}`, "aria-selected": "false",
      mousedown: (event) => { event.preventDefault(); this.take(at); } },
      make("span", {}, one.text), make("small", {}, one.note))));
    show(this.list, true);
    this.area.setAttribute("aria-expanded", "true");
    this.place();
    this.choose(0);
    this.moved = false;
  }

  /** Put the list below the cursor: a copy of the text says where that is. */
  place() {
    const before = this.text.slice(0, this.area.selectionStart - this.offers[0].typed.length);
    const mark = make("span", {}, "\u200b"), copy = make("div", { class: "mirror", "aria-hidden": "true" }, before, mark);
    this.area.parentNode.append(copy);
    copy.style.width = `${this.area.clientWidth + 2}px`;
    const line = mark.offsetHeight || 20;
    const left = Math.min(mark.offsetLeft, Math.max(0, this.area.clientWidth - this.list.offsetWidth));
    this.list.style.left = `${left}px`;
    this.list.style.top = `${mark.offsetTop + line + 4 - this.area.scrollTop}px`;
    copy.remove();
  }

  choose(at) {
    this.chosen = at;
    this.moved = true;
    [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    this.list.children[at].scrollIntoView({ block: "nearest" });
    this.area.setAttribute("aria-activedescendant", `offer-${at}`);
  }

  take(at) {
    const { text, typed } = this.offers[at], end = this.area.selectionStart;
    this.close();
    this.area.setRangeText(text, end - typed.length, end, "end");
    this.changed();
  }

  close() {
    clearTimeout(this.timer);
    this.offers = [];
    show(this.list, false);
    this.area.setAttribute("aria-expanded", "false");
    this.area.removeAttribute("aria-activedescendant");
  }
}

/** Return the characters before an offset that counts whole characters, as Python does. */
export const offsetOf = (text, points) => Array.from(text).slice(0, points).join("").length;
