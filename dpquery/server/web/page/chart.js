// Charts with error bars, drawn as SVG: bars for groups, lines for dates.

import { make, fill, short } from "./dom.js";

const MOST_BARS = 60, MOST_LINES = 6, MOST_WHISKERS = 40;

/** Return ticks that are round numbers, from below the least value to above the largest. */
export function ticks(low, high, count) {
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) || 10);
  const first = Math.floor(low / step), last = Math.ceil(high / step), found = [];
  for (let at = first; at <= last && found.length < 50; at++) found.push(at * step);
  return found;
}

const finite = (numbers) => numbers.filter((n) => n !== null && n !== undefined && Number.isFinite(n));

/** Return what of an answer can be drawn: groups or times, and numbers. Null where nothing can. */
export function drawable(form) {
  if (form.rows === 1) return listed(form.columns.find((c) => c.list && finite(c.list).length > 1));
  if (form.rows < 2) return null;
  const numbers = form.columns.filter((c) => c.kind === "number" && finite(c.values).length > 1);
  const noisy = numbers.filter((c) => c.margins);
  const measures = noisy.length ? noisy : numbers.slice(-1);
  const keys = form.columns.filter((c) => !c.margins && !measures.includes(c));
  if (!measures.length || !keys.length) return null;
  return { measures, keys, time: keys.find((c) => c.kind === "time") || null };
}

/** Return what is drawn of a list: its numbers, by their places. */
function listed(column) {
  if (!column) return null;
  const places = { name: "place", cells: column.list.map((_, at) => String(at + 1)) };
  const cells = column.list.map((n) => (n === null ? "" : short(n)));
  return { measures: [{ name: column.name, values: column.list, cells }], keys: [places], time: null };
}

/** Draw an answer into a place, with a choice of the numbers where there are several. */
export function drawAnswer(place, form) {
  const found = drawable(form);
  if (!found) return false;
  const canvas = make("div");
  let measure = found.measures[0];
  const redraw = () => fill(canvas, ...(found.time ? lines(found, measure, canvas) : bars(found, measure, canvas)));
  const choice = make("select", { "aria-label": "Numbers of the chart", change: (event) => {
    measure = found.measures[event.target.value];
    redraw();
  } }, ...found.measures.map((one, at) => make("option", { value: at }, one.name)));
  fill(place, found.measures.length > 1 ? make("label", { class: "inline" }, "chart of ", choice) : null, canvas);
  follow(canvas, redraw);
  return true;
}

/** Draw when a place has its width, and again when that changes. */
function follow(canvas, redraw) {
  let width = 0;
  new ResizeObserver(() => {
    if (canvas.clientWidth && Math.abs(canvas.clientWidth - width) > 1) {
      width = canvas.clientWidth;
      redraw();
    }
  }).observe(canvas);
}

function bars({ keys }, measure, canvas) {
  const width = canvas.clientWidth || 600, count = Math.min(measure.values.length, MOST_BARS);
  const labels = Array.from({ length: count }, (_, at) => keys.map((key) => key.cells[at]).join(" · "));
  const texts = measure.cells.slice(0, count);
  const room = Math.min(width * 0.32, 8 + 7 * Math.max(...labels.map((l) => Math.min(l.length, 28))));
  const right = 14 + 7 * Math.max(...texts.map((t) => t.length));
  const rows = 26, top = 22, height = top + rows * count + 6;
  const reach = [0, ...finite(measure.values.slice(0, count)), ...ends(measure, count)];
  const marks = ticks(Math.min(...reach), Math.max(...reach), width < 500 ? 3 : 5);
  const x = scale(marks[0], marks[marks.length - 1], room, width - right);
  const drawn = marks.flatMap((mark) => [
    make("line", { class: mark === 0 ? "axis" : "grid", x1: x(mark), x2: x(mark), y1: top - 4, y2: height - 4 }),
    make("text", { x: x(mark), y: 12, "text-anchor": "middle" }, short(mark)),
  ]);
  for (let at = 0; at < count; at++) {
    const middle = top + rows * at + rows / 2, value = measure.values[at];
    drawn.push(make("text", { x: room - 8, y: middle + 4, "text-anchor": "end" }, cut(labels[at], Math.floor((room - 8) / 6.5))));
    if (value === null) continue;
    const from = Math.min(x(0), x(value)), wide = Math.max(1, Math.abs(x(value) - x(0)));
    drawn.push(make("rect", { class: "c0", x: from, y: middle - 9, width: wide, height: 18, rx: 2 },
      make("title", {}, `${labels[at]}: ${texts[at]} ${measure.margins ? measure.margins[at] : ""}`)));
    const [low, high] = interval(measure, at);
    if (low !== null) drawn.push(make("path", { class: "whisker", d: `M${x(low)} ${middle - 5}V${middle + 5}M${x(low)} ${middle}H${x(high)}M${x(high)} ${middle - 5}V${middle + 5}` }));
    drawn.push(make("text", { class: "value", x: width - 4, y: middle + 4, "text-anchor": "end" }, texts[at]));
  }
  const more = measure.values.length - count;
  return [
    picture(width, height, `Bars of ${measure.name} by ${keys.map((k) => k.name).join(", ")}, with error bars; the table has the same values`, drawn),
    more > 0 ? make("p", { class: "quiet small" }, `${more} more groups are in the table`) : null,
  ];
}

function lines({ keys, time }, measure, canvas) {
  const others = keys.filter((key) => key !== time), series = new Map();
  time.cells.forEach((cell, at) => {
    const name = others.map((key) => key.cells[at]).join(" · "), moment = moment_of(cell);
    if (measure.values[at] === null || moment === null) return;
    const [low, high] = interval(measure, at);
    if (!series.has(name)) series.set(name, []);
    series.get(name).push({ x: moment, y: measure.values[at], low, high, text: `${cell}: ${measure.cells[at]}` });
  });
  const shown = [...series].slice(0, MOST_LINES).map(([name, points]) => ({ name, points: points.sort((a, b) => a.x - b.x) }));
  return drawLines(shown, canvas.clientWidth || 600, `Lines of ${measure.name} by ${time.name}, with error bars; the table has the same values`, series.size - shown.length);
}

/** Draw series of points over time: with error bars while there are few, with a band of many. */
export function drawLines(series, width, label, left_out = 0) {
  const points = series.flatMap((one) => one.points);
  if (!points.length) return [make("p", { class: "quiet small" }, "nothing to draw yet")];
  const left = 56, top = 10, height = Math.round(Math.max(200, Math.min(320, width * 0.45))), bottom = height - 24;
  const reach = finite(points.flatMap((p) => [p.y, p.low, p.high]));
  const least = Math.min(...reach), most = Math.max(...reach);
  const marks = ticks(least > 0 && least < most / 2 ? 0 : least, most, 5);
  const y = scale(marks[0], marks[marks.length - 1], bottom, top);
  const first = Math.min(...points.map((p) => p.x)), last = Math.max(...points.map((p) => p.x));
  const x = scale(first, last > first ? last : first + 1, left + 8, width - 14);
  const drawn = marks.flatMap((mark) => [
    make("line", { class: mark === 0 ? "axis" : "grid", x1: left, x2: width - 6, y1: y(mark), y2: y(mark) }),
    make("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, short(mark)),
  ]);
  for (const moment of times(points, Math.max(2, Math.floor(width / 110)))) {
    drawn.push(make("text", { x: Math.max(left + 20, Math.min(width - 34, x(moment))), y: height - 6, "text-anchor": "middle" }, day_of(moment, last - first)));
  }
  series.forEach((one, at) => drawn.push(...lineOf(one.points, x, y, `c${at % 6}`)));
  const legend = series.length > 1 || series[0].name
    ? make("div", { class: "row" }, ...series.map((one, at) => make("span", { class: "key" }, make("i", { class: `c${at % 6}` }), one.name)))
    : null;
  const more = left_out > 0 ? make("p", { class: "quiet small" }, `${left_out} more lines are in the table`) : null;
  return [picture(width, height, label, drawn), legend, more];
}

function lineOf(points, x, y, color) {
  const drawn = [], known = points.filter((p) => p.low !== null && p.low !== undefined);
  if (known.length > MOST_WHISKERS) {
    const there = known.map((p) => `${x(p.x)} ${y(p.high)}`), back = known.map((p) => `${x(p.x)} ${y(p.low)}`).reverse();
    drawn.push(make("path", { class: `band ${color}`, d: `M${[...there, ...back].join("L")}Z` }));
  } else {
    for (const p of known) drawn.push(make("path", { class: "whisker", d: `M${x(p.x) - 4} ${y(p.low)}h8M${x(p.x)} ${y(p.low)}V${y(p.high)}M${x(p.x) - 4} ${y(p.high)}h8` }));
  }
  drawn.push(make("path", { class: `line ${color}`, d: `M${points.map((p) => `${x(p.x)} ${y(p.y)}`).join("L")}` }));
  if (points.length <= 3 * MOST_WHISKERS) {
    for (const p of points) drawn.push(make("circle", { class: color, cx: x(p.x), cy: y(p.y), r: 3 }, make("title", {}, p.text)));
  }
  return drawn;
}

function picture(width, height, label, drawn) {
  return make("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...drawn);
}

const scale = (low, high, from, to) => (value) => Math.round((from + ((value - low) / (high - low)) * (to - from)) * 10) / 10;

function interval(measure, at) {
  if (!measure.low || measure.low[at] === null || measure.high[at] === null) return [null, null];
  return [measure.low[at], measure.high[at]];
}

const ends = (measure, count) => finite([...(measure.low || []).slice(0, count), ...(measure.high || []).slice(0, count)]);

const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);

function moment_of(cell) {
  const found = /^(-?\d{4,6})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?/.exec(cell);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1).map((part) => Number(part || 0));
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Return the times that are written below a chart: those of its points, at most so many. */
function times(points, most) {
  const known = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b), step = Math.ceil(known.length / most);
  return known.filter((_, at) => at % step === 0);
}

function day_of(moment, span) {
  const text = new Date(moment).toISOString();
  if (span > 3 * 365 * 864e5) return text.slice(0, 7);
  return span > 2 * 864e5 || moment % 864e5 === 0 ? text.slice(0, 10) : text.slice(5, 16).replace("T", " ");
}
