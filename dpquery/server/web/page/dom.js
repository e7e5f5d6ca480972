// Elements made of data: texts become text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "title"]);

export const byId = (id) => document.getElementById(id);

/** Make an element; attributes that are functions listen, and null children are left out. */
export function make(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  fill(made, ...children);
  return made;
}

/** Put children in the place of those there are. */
export function fill(parent, ...children) {
  const kept = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  parent.replaceChildren(...kept.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
}

export function show(element, shown) {
  element.hidden = !shown;
}

/** Return a bar: each part a share of the whole, with a class of its own. */
export function bar(label, ...parts) {
  const made = make("div", { class: "bar", role: "img", "aria-label": label, title: label });
  for (const [share, kind] of parts) {
    const part = make("i", { class: kind });
    part.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    made.append(part);
  }
  return made;
}

/** Ask a question, and return whether it was answered with yes. */
export function agreed(text) {
  const dialog = byId("agree");
  fill(byId("agree-text"), text);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Return a time as people here write it. */
export function when(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Return a number as short as it can be read. */
export const short = (number) => Number(number.toPrecision(3)).toLocaleString(undefined, { maximumFractionDigits: 9 });
