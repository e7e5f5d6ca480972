// The analyst's view: a query with its price, what came of it, and what was asked before.

import { call, latest } from "./api.js";
import { bar, byId, fill, make, show, when } from "./dom.js";
import { Editor, offsetOf } from "./editor.js";
import { refusal, showAnswer } from "./answer.js";

const PAUSE = 350;
const state = { budget: null, pending: 0, running: false, eps: "", timer: 0 };
let editor;

/** Wire the view up, once. */
export function prepareAsk() {
  editor = new Editor(byId("query"), byId("offers"), changed, ask);
  byId("query-form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  byId("stop").addEventListener("click", () => call("stop").catch(() => {}));
  byId("eps").addEventListener("change", setEps);
  byId("anew").addEventListener("change", changed);
}

/** Begin for somebody who has logged in. */
export async function openAsk(me) {
  fill(byId("answer"));
  show(byId("answer-card"), false);
  fill(byId("price"));
  byId("query").value = "";
  setPrice(null);
  showEps(me);
  byId("eps").placeholder = me.owner_eps === null ? "none" : me.owner_eps;
  await Promise.all([loadTables(), loadBudget(), loadHistory()]);
  byId("query").focus();
}

function showEps(me) {
  state.eps = me.eps;
  byId("eps").value = me.eps;
}

// Tables, budget and history.

async function loadTables() {
  const tables = await call("schema").catch(() => []);
  fill(byId("tables"), tables.map((table, at) => make("details", { open: at === 0 && tables.length < 9 },
    make("summary", {}, table.table),
    make("p", { class: "small quiet" }, about(table)),
    make("ul", {}, table.columns.map((column) => make("li", {},
      make("button", { type: "button", class: "link mono", title: "put it into the query", click: () => insert(column.column) }, column.column),
      make("small", {}, told(column))))))));
}

function about(table) {
  if (table.public) return "public: reading it costs nothing";
  if (table.view) return "a view of this session";
  const rows = table.rows_per_unit === 1 ? "one row each" : table.max_rows_contributed ? `rows of each that count: ${table.max_rows_contributed}` : "";
  return [table.unit ? `protects ${table.unit}` : "", rows].filter(Boolean).join("; ");
}

function told(column) {
  const bounds = column.low !== null && column.high !== null ? ` ${column.low} … ${column.high}` : "";
  return `${column.type}${bounds}${column.keys ? ` in ${column.keys}` : ""}`;
}

function insert(text) {
  const area = byId("query");
  const written = /^[a-z_]\w*$/i.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
  area.focus();
  area.setRangeText(written, area.selectionStart, area.selectionEnd, "end");
  changed();
}

async function loadBudget() {
  const reply = await call("budget").catch(() => null);
  state.budget = reply && reply.ended === "answered" ? reply.form : null;
  showBudget();
}

function showBudget() {
  const budget = state.budget;
  if (!budget) return fill(byId("budget"));
  const limit = budget.limit_number || 1, spent = budget.spent_number / limit;
  const label = `${budget.left} of ${budget.limit} left`;
  const much = state.pending > budget.left_number;
  fill(byId("budget"),
    bar(`budget: ${label}`, [spent, "spent"], [Math.min(state.pending / limit, 1 - spent), much ? "much" : "pending"]),
    make("span", {}, `ε ${label}`));
}

async function loadHistory() {
  const history = await call("history").catch(() => ({ now: [], earlier: [] }));
  const entries = [
    ...history.now.map((one) => entry(one, tagOf(one))),
    ...history.earlier.map((one) => entry(one, ["tag", `cost ${one.loss}`])),
  ];
  fill(byId("history"), entries.length ? make("ul", { class: "list" }, entries)
    : make("p", { class: "quiet small" }, "What you ask appears here. To ask the same again is free."));
}

function tagOf(one) {
  if (one.ended !== "answered") return ["tag bad", one.ended];
  if (one.free) return ["tag free", "free: repeated"];
  return one.paid ? ["tag", `cost ${one.loss}`] : ["tag", "free"];
}

function entry(one, [kind, text]) {
  return make("li", {},
    make("button", { type: "button", class: "link", title: one.title ? `${one.title} (${when(one.at)})` : when(one.at), click: () => editor.set(one.text) }, one.text.trim()),
    make("span", { class: kind }, text));
}

// The price, before anything is sent.

function changed() {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => lookUpPrice(), PAUSE);
}

const lookUpPrice = latest(async () => {
  const text = editor.text;
  if (!text.trim()) return setPrice(null);
  try {
    const asked = byId("anew").checked && !/^\s*refresh\b/i.test(text) ? `REFRESH ${text}` : text;
    const reply = await call("price", { text: asked });
    if (editor.text === text) setPrice(reply);
  } catch {
    setPrice(null);
  }
});

function setPrice(reply) {
  const price = byId("price");
  const form = reply && reply.form;
  state.pending = reply && reply.ended === "answered" ? form.epsilon : 0;
  fill(byId("send"), state.pending ? `Ask for ${form.charge}` : "Ask");
  showBudget();
  if (!form) return fill(price);
  if (reply.ended !== "answered") return fill(price, /^\s*(show|describe|set|reset|create|drop|explain)\b/i.test(editor.text) ? make("span", { class: "quiet" }, "costs nothing") : make("span", { class: "quiet" }, `not yet a query: ${form.title}`));
  const over = state.budget && form.epsilon > state.budget.left_number;
  fill(price,
    make("span", {}, form.free ? make("b", { class: "good" }, "free") : make("b", { class: over ? "bad" : null }, `costs ${form.charge}`),
      over ? `, more than the ${state.budget.left} left` : ""),
    ...form.steps.map((step) => make("span", { class: "quiet" }, `${step.call}: 95% within ${step.error.replace(/^±\s*/, "± ")}`)),
    make("details", {}, make("summary", {}, "how it is answered"), make("pre", { tabindex: 0 }, form.text)));
}

// Asking.

async function ask() {
  const text = editor.text;
  if (state.running || !text.trim()) return;
  await run(text, byId("anew").checked);
}

async function run(text, refresh) {
  state.running = true;
  byId("send").disabled = true;
  show(byId("stop"), true);
  show(byId("answer-card"), true);
  const clock = makeClock();
  let reply = null;
  try {
    reply = await call("ask", { text, refresh });
    showAnswer(byId("answer"), reply, offer);
    fill(byId("answered"), text.trim());
  } catch (error) {
    fill(byId("answer"), make("p", { class: "bad" }, error.message));
  }
  clearInterval(clock);
  state.running = false;
  byId("send").disabled = false;
  show(byId("stop"), false);
  byId("anew").checked = false;
  await Promise.all([loadBudget(), loadHistory(), lookUpPrice()]);
  if (/^\s*(create|drop)\b/i.test(text)) await loadTables();
  if (/^\s*(set|reset)\b/i.test(text)) await call("me").then(showEps).catch(() => {});
  return reply;
}

function makeClock() {
  fill(byId("answered"));
  const began = Date.now(), place = make("p", { class: "quiet" }, "asking …");
  fill(byId("answer"), place);
  return setInterval(() => fill(place, `asking … ${Math.round((Date.now() - began) / 1000)} s`), 1000);
}

/** Put an offered line into the query: in its place, or where the refusal points. */
async function offer(line, form) {
  if (line.kind === "statement") return editor.set(line.text);
  const text = editor.text;
  if (!form.span || form.text !== text) return editor.set(line.text);
  try {
    editor.set((await call("paste", { text, offered: line.text, span: form.span })).text);
  } catch {
    const [from, to] = form.span.map((point) => offsetOf(text, point));
    editor.set(text.slice(0, from) + line.text + text.slice(to));
  }
}

async function setEps() {
  const value = byId("eps").value.trim();
  if (state.running || value === state.eps) return;
  const reply = await run(value ? `SET dp.eps = ${value}` : "RESET dp.eps", false);
  if (!reply || reply.ended !== "answered") byId("eps").value = state.eps;
}
