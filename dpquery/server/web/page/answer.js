// What came of a statement: a table with its margins, a chart, or a refusal with what to type.

import { make, fill } from "./dom.js";
import { drawAnswer } from "./chart.js";

const PAGE = 200;

/** Show how a statement ended; `offer` takes an offered text and the span that it is for. */
export function showAnswer(place, reply, offer) {
  if (reply.ended === "answered") fill(place, ...answered(reply.form));
  else fill(place, refusal(reply.form, offer));
}

function answered(form) {
  if (form.columns.length === 1 && !form.columns[0].margins && form.columns[0].kind === "text" && form.loss === "0") {
    return [make("pre", { tabindex: 0 }, form.columns[0].cells.join("\n")), ...below(form)];
  }
  const chart = make("div");
  const drawn = drawAnswer(chart, form);
  return [...below(form), drawn ? chart : null, table(form)];
}

function below(form) {
  const said = [];
  if (form.free) said.push(make("span", { class: "tag free" }, "free: answered before"));
  else if (form.paid) said.push(make("span", { class: "tag" }, `cost ${form.loss}`));
  if (form.paid || form.free) said.push(make("span", { class: "quiet small" }, form.budget));
  if (form.guarantee) said.push(make("details", {}, make("summary", {}, "guarantee"), make("p", { class: "small" }, form.guarantee)));
  return [
    said.length ? make("p", { class: "row" }, ...said) : null,
    form.notes.length ? make("div", { class: "notes small quiet" }, form.notes.map((note) => make("p", {}, `note: ${note}`))) : null,
  ];
}

function table(form) {
  const heads = form.columns.flatMap((column) => [
    make("th", { scope: "col", class: column.right ? "right" : null }, column.name),
    column.margins ? make("th", { scope: "col" }, column.margin) : null,
  ]);
  const body = make("tbody");
  const rows = (from, to) => Array.from({ length: to - from }, (_, at) => row(form, from + at));
  fill(body, rows(0, Math.min(PAGE, form.rows)));
  const scroll = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows of the answer" },
    make("table", {}, make("thead", {}, make("tr", {}, heads)), body));
  const count = `${form.rows.toLocaleString()} row${form.rows === 1 ? "" : "s"}`;
  const all = form.rows + form.left_out;
  const held = form.left_out ? `the first ${count} of ${all.toLocaleString()}: dpquery and psql list all of them` : count;
  const more = form.rows > PAGE && make("button", { type: "button", click: (event) => {
    fill(body, rows(0, form.rows));
    event.target.remove();
  } }, `show all ${count}`);
  return make("div", {}, scroll, make("p", { class: "row quiet small" }, held, more));
}

function row(form, at) {
  return make("tr", {}, ...form.columns.flatMap((column) => [
    make("td", { class: column.right ? "right" : "cell" }, column.cells[at]),
    column.margins ? make("td", { class: "margin" }, column.margins[at]) : null,
  ]));
}

/** Return a refusal: where, why, and lines that go into the editor when they are clicked. */
export function refusal(form, offer) {
  const lines = form.why.map((line, at) => make("li", {}, make("span", { class: "word" }, at ? "" : "why"), make("span", {}, line)));
  form.try.forEach((line, at) => lines.push(make("li", {}, make("span", { class: "word" }, at ? "" : "try"), remedy(form, line, offer))));
  return make("div", { class: "refusal" },
    make("p", {}, make("b", {}, form.code ? `${form.verdict} ${form.code}: ` : ""), form.title),
    form.caret ? make("pre", { class: "caret", tabindex: 0 }, form.caret) : null,
    lines.length ? make("ul", {}, lines) : null,
    form.budget ? make("p", { class: "small quiet" }, `budget: ${form.budget}`) : null);
}

function remedy(form, line, offer) {
  if (line.kind === "advice" || !offer) return make("span", { class: "mono" }, line.text);
  return make("button", { type: "button", class: "link mono try", title: "put it into the query", click: () => offer(line, form) }, line.text);
}
