// The owner's view: who spent what, when and on which table, and the owner's orders.

import { call } from "./api.js";
import { agreed, bar, byId, fill, make, short, when } from "./dom.js";
import { drawLines } from "./chart.js";

/** Show the state of the ledger. */
export async function openOwner(said = "") {
  const place = byId("owner");
  let reply;
  try {
    reply = await call("overview");
  } catch (error) {
    return fill(place, make("p", { class: "bad" }, error.message));
  }
  if (reply.ended !== "answered") return fill(place, make("p", { class: "bad" }, reply.form.title));
  const told = reply.form;
  fill(place, standing(told, said), people(told), overTime(told), byTable(told), asked(told), faults(told));
}

async function order(name, given, question) {
  if (question && !(await agreed(question))) return;
  try {
    const reply = await call(name, given);
    await openOwner(reply.ended === "answered" ? reply.form.said : [reply.form.title, ...reply.form.why].join(": "));
  } catch (error) {
    await openOwner(error.message);
  }
}

const button = (text, click, kind = null) => make("button", { type: "button", class: kind, click }, text);

const card = (title, kind, ...inside) => make("section", { class: `card ${kind}`, "aria-label": title }, make("h2", {}, title), ...inside);

function standing(told, said) {
  const whole = told.budgets[0];
  return card("The policy's budget", "wide",
    said ? make("p", { role: "status", class: "good" }, said) : make("p", { role: "status", class: "away" }),
    make("div", { class: "row" },
      bar(`${whole.spent} of ${whole.limit} spent`, [whole.share, "spent"]),
      make("span", {}, make("b", {}, whole.left), ` of ε ${whole.limit} left`),
      make("span", { class: "quiet" }, forecast(whole)),
      make("span", { class: "quiet" }, `data version ${told.version}`),
      told.frozen ? make("span", { class: "tag bad" }, "frozen: no query is charged") : null),
    make("div", { class: "row" },
      told.frozen
        ? button("Thaw", () => order("thaw", {}, "Make charges again for everybody, and forgive failures?"), "main")
        : button("Freeze everybody", () => order("freeze", {}, "Refuse every charge until you thaw?")),
      button("Publish new data", () => order("publish", {}, "Begin another version of the data? Answers of before are not repeated: to ask anything again is paid.")),
      button("Refresh", () => openOwner())));
}

function forecast(budget) {
  if (budget.days_left === null) return "nothing was spent in the last 7 days";
  const days = budget.days_left;
  if (days <= 0) return "nothing is left";
  const lasts = days >= 1000 ? "over 1,000 days" : days >= 2 ? `${Math.floor(days)} days` : `${short(days * 24)} hours`;
  return `at this rate: ${lasts} (${short(budget.per_day)} a day)`;
}

function people(told) {
  const rows = told.budgets.slice(1).map((one) => make("tr", {},
    make("th", { scope: "row" }, one.name, one.suspended ? make("span", { class: "tag bad" }, `frozen after ${one.suspended} failures`) : null),
    make("td", {}, bar(`${one.spent} of ${one.limit} spent`, [one.share, "spent"])),
    make("td", { class: "right" }, `${one.left} of ${one.limit}`),
    make("td", {}, forecast(one)),
    make("td", { class: "right" }, one.charges.toLocaleString()),
    make("td", { class: "right" }, `${one.failures} of ${told.failures}`),
    make("td", {}, one.last ? when(one.last) : "never"),
    make("td", {}, make("div", { class: "row" },
      one.own ? grant(one) : null,
      one.suspended || one.failures ? button("Thaw", () => order("thaw", { analyst: one.name }, `Forgive the failures of ${one.name}?`)) : null))));
  const heads = ["analyst", "spent", "left", "forecast", "charges", "failures", "last charge", ""];
  return card("Analysts", "wide", grid(heads, rows, [2, 4, 5]));
}

function grant(one) {
  const amount = make("input", { size: 6, inputmode: "decimal", "aria-label": `More epsilon for ${one.name}`, placeholder: "0.5", required: true });
  return make("form", { class: "row", submit: (event) => {
    event.preventDefault();
    const more = amount.value.trim();
    order("grant", { analyst: one.name, epsilon: more }, `Let ${one.name} spend ${more} more?`);
  } }, amount, make("button", {}, "Grant"));
}

function overTime(told) {
  const canvas = make("div"), choice = make("select", { "aria-label": "Lines of the chart", change: () => draw() },
    make("option", { value: "analysts" }, "by analyst"), make("option", { value: "tables" }, "by table"), make("option", { value: "all" }, "all together"));
  const draw = () => fill(canvas, ...drawLines(seriesOf(told.days, choice.value), canvas.clientWidth || 500, "What was spent in all, by day"));
  new ResizeObserver(() => canvas.clientWidth && draw()).observe(canvas);
  return card("Spent over time", "", make("label", { class: "inline" }, "sum of charges ", choice), canvas);
}

function seriesOf(days, by) {
  if (!days.length) return [];
  const point = (day, y) => ({ x: Date.parse(`${day.day}T00:00:00Z`), y, low: null, high: null, text: `${day.day}: ${short(y)}` });
  const eve = new Date(Date.parse(`${days[0].day}T00:00:00Z`) - 864e5).toISOString().slice(0, 10);
  days = [{ day: eve, all: 0, analysts: {}, tables: {} }, ...days];
  if (by === "all") return [{ name: "", points: days.map((day) => point(day, day.all)) }];
  const last = days[days.length - 1][by];
  const names = Object.keys(last).sort((a, b) => last[b] - last[a]).slice(0, 6);
  return names.map((name) => ({ name, points: days.map((day) => point(day, day[by][name] || 0)) }));
}

function byTable(told) {
  const rows = told.tables.map((one) => make("tr", {}, make("th", { scope: "row" }, one.analyst), make("td", {}, one.table),
    make("td", { class: "right" }, one.epsilon), make("td", { class: "right" }, one.charges.toLocaleString())));
  return card("By analyst and table", "", rows.length ? grid(["analyst", "table", "sum of charges", "charges"], rows, [2, 3]) : nothing(),
    make("p", { class: "quiet small" }, "A charge over several tables counts in each, so these can add up to more than was spent."));
}

function asked(told) {
  const rows = told.asked.map((one) => make("tr", {},
    make("td", { class: "when" }, when(one.at)), make("td", {}, one.analyst), make("td", { class: "right" }, one.loss),
    make("td", {}, make("span", { class: "mono" }, one.query), one.remark ? make("p", { class: "small quiet" }, one.remark) : null)));
  return card("What was asked", "wide", rows.length ? grid(["when", "analyst", "loss", "query or order"], rows, [2]) : nothing());
}

function faults(told) {
  const rows = told.faults.map((one) => make("tr", {}, make("td", { class: "when" }, when(one.at)), make("td", { class: "mono" }, one.reference)));
  return card("Faults", "wide", rows.length ? grid(["when", "reference"], rows, []) : nothing(),
    make("p", { class: "quiet small" }, "What each of them says may quote rows: it stands in the log of faults beside the ledger, and is not shown here."));
}

const nothing = () => make("p", { class: "quiet small" }, "nothing yet");

function grid(heads, rows, right) {
  for (const row of rows) [...row.children].forEach((cell, at) => cell.setAttribute("data-head", heads[at]));
  return make("div", { class: "scroll", tabindex: 0 }, make("table", { class: "stack" },
    make("thead", {}, make("tr", {}, heads.map((head, at) => make("th", { scope: "col", class: right.includes(at) ? "right" : null }, head)))),
    make("tbody", {}, rows)));
}
