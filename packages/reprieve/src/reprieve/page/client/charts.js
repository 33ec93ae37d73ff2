// Curves as vector graphics: one axis for all that is compared, a colour and a dash for each.
import { h, number, svg } from "./dom.js";
import { look } from "./palette.js";

const CHART_WIDTH = 520;
const CHART_HEIGHT = 240;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 34;
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "5 2 1 2 1 2", "12 4", "1 2", "4 6"];

export function dash(index) {
  return DASHES[index % DASHES.length];
}

// `series`: [{name, points: [[x, y | null]], index, quiet}]. `logarithmic`: of x.
export function chart({ title, text, series, x, y, logarithmic = false, steps = false }) {
  const points = series.flatMap((one) => one.points).filter(([, value]) => value !== null);
  const lowest = logarithmic ? Math.min(...points.map(([at]) => at), 1) : 0;
  const last = Math.max(...points.map(([at]) => at), lowest + 1e-9);
  const most = Math.max(...points.map(([, value]) => value), 1e-9);
  const scaleX = (at) => LEFT + (CHART_WIDTH - LEFT - RIGHT) * (logarithmic ? Math.log(at / lowest) / Math.log(last / lowest) : at / last);
  const scaleY = (value) => CHART_HEIGHT - BOTTOM - (CHART_HEIGHT - TOP - BOTTOM) * value / most;
  const picture = svg("svg", { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, class: "chart", role: "img", "aria-label": `${title}. ${text} ${summaries(series, y)}` },
    ticks(most).map((value) => [
      svg("line", { class: "axis", x1: LEFT, x2: CHART_WIDTH - RIGHT, y1: scaleY(value), y2: scaleY(value) }),
      svg("text", { x: LEFT - 6, y: scaleY(value) + 4, "text-anchor": "end" }, number(value))]),
    (logarithmic ? decades(lowest, last) : ticks(last)).map((at) => svg("text", { x: scaleX(at), y: CHART_HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, number(at))),
    svg("text", { x: (CHART_WIDTH + LEFT) / 2, y: CHART_HEIGHT - 3, "text-anchor": "middle" }, x),
    series.map((one) => svg("path", {
      d: path(one.points, scaleX, scaleY, steps), fill: "none", "stroke-width": one.quiet ? 1.2 : 2,
      stroke: one.quiet ? "var(--quiet)" : look(one.index).fill, "stroke-dasharray": one.quiet ? "4 4" : dash(one.index),
    })));
  return h("figure", {}, h("h3", {}, title), h("p", { class: "quiet" }, `${text} In ${y}.`), picture);
}

function path(points, scaleX, scaleY, steps) {
  let text = "", open = false, before = 0;
  for (const [at, value] of points) {
    if (value === null) { open = false; continue; }
    const x = scaleX(at).toFixed(1), level = scaleY(value).toFixed(1);
    if (!open) text += `M${x} ${level}`;
    else text += steps ? `L${x} ${before}L${x} ${level}` : `L${x} ${level}`;
    open = true;
    before = level;
  }
  return text;
}

function summaries(series, unit) {
  return series.map((one) => {
    const values = one.points.map(([, value]) => value).filter((value) => value !== null);
    return values.length ? `${one.name}: up to ${number(Math.round(100 * Math.max(...values)) / 100)} ${unit}.` : `${one.name}: no values.`;
  }).join(" ");
}

function ticks(most) {
  const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const result = [];
  for (let at = 0; at <= most * 1.0001; at += step) result.push(Number(at.toPrecision(6)));
  return result;
}

function decades(lowest, last) {
  const result = [];
  for (let power = Math.ceil(Math.log10(lowest)); 10 ** power <= last; power++) result.push(10 ** power);
  return result;
}

export function lineKey(index, name) {
  return h("li", {}, svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("line", { x1: 0, x2: 34, y1: 6, y2: 6, stroke: look(index).fill, "stroke-width": 3, "stroke-dasharray": dash(index) })), ` ${name}`);
}
