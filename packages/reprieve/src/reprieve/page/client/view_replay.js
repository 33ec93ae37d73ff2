// A replay: policies side by side, curves on one axis, strips of the same nodes over the same time.
import { chart, lineKey } from "./charts.js";
import { count, cutList, duration, h, number, put } from "./dom.js";
import { drawPattern, look, swatch, textHeight, theme } from "./palette.js";
import { TERMS, term } from "./terms.js";

const DAY = 86400;
const STRIP_ROW = 26;
const NAME_COLUMN = 10; // of a text's height
const MOST_ZOOM = 1000;
const MOST_STAYS = 20;
const HOW = { done: [0, "ran to its end"], unfinished: [4, "unfinished at the end"], preempted: [5, "preempted"], lost: [1, "lost with its node, or with its gang"] };

export class ReplayView {
  constructor() {
    this.element = h("div", {});
  }

  show(whole) {
    const view = whole.replay;
    if (this.drawn === view) return;
    this.drawn = view;
    put(this.element,
      h("p", { class: "quiet" }, `${count(view.jobs, "job")} on ${count(view.clusterNodes, "node")}, ${duration(view.ended)} of simulated time.${view.policies.length > 1 ? ` Differences are against ${view.policies[0].name}; the best of a row is bold and marked with a star.` : ""}`),
      table(view.tables[0]),
      h("h2", {}, "Over time"), h("ul", { class: "keys", "aria-label": "Policies" }, view.policies.map((policy, at) => lineKey(at, policy.name))),
      h("div", { class: "curves" }, this.curves(view)),
      h("h2", {}, "Nodes over time"), this.strips(view),
      view.tables.slice(1).map((one) => table(one)));
  }

  curves(view) {
    const { policies } = view;
    const [unit, x] = view.ended < 4 * DAY ? [3600, "hours of simulated time"] : [DAY, "days of simulated time"];
    const over = (pick) => policies.map((policy, index) => ({ name: policy.name, index, points: pick(policy.curves).map((value, at) => [at * policy.curves.width / unit, value]) }));
    const first = policies[0].curves;
    const capacity = { name: "capacity", quiet: true, points: first.capacity.map((value, at) => [at * first.width / unit, value]) };
    return [
      chart({ title: "GPUs allocated", text: "What jobs hold; the thin dashed line is the capacity.", series: [capacity, ...over((curves) => curves.allocated)], x, y: "GPUs", steps: true }),
      chart({ title: "Pending jobs", text: "Jobs that are submitted and do not run.", series: over((curves) => curves.waiting), x, y: "jobs", steps: true }),
      chart({ title: "Fragmentation", text: `${TERMS.fragmentation} No line: none are free.`, series: policies.map((policy, index) => ({ name: policy.name, index, points: policy.curves.fragmentation.map(([when, share]) => [when / unit, share === null ? null : 100 * share]) })), x, y: "% of the free GPUs" }),
      chart({ title: "Work lost", text: "GPU-hours lost so far: thrown away, or held without running.", series: over((curves) => curves.lost), x, y: "GPU-hours", steps: true }),
      chart({ title: "Waiting", text: "Share of the jobs that had started after so many hours.", series: policies.map((policy, index) => ({ name: policy.name, index, points: policy.curves.waits.map(([hours, share]) => [hours, 100 * share]) })), x: "hours, logarithmic", y: "% of the jobs", logarithmic: true }),
    ];
  }

  strips(view) {
    const shown = view.policies.filter((policy) => policy.strips);
    if (!shown.length) return h("p", { class: "quiet" }, "No pod came to a node.");
    const [begin, end] = view.window.map((seconds) => moment(seconds));
    // What is shown of the time: the same of every policy.
    const shownTime = { range: [...view.window], paints: [], paint() { this.paints.forEach((paint) => paint()); } };
    const zoom = (factor, at = 0.5) => zoomed(shownTime, view.window, factor, at);
    return [
      h("p", { class: "buttons" },
        h("button", { type: "button", "aria-label": "Zoom in on the time", onclick: () => zoom(0.5) }, "+"),
        h("button", { type: "button", "aria-label": "Zoom out of the time", onclick: () => zoom(2) }, "−"),
        h("button", { type: "button", onclick: () => zoom(Infinity) }, "Show all"),
        h("span", { class: "quiet" }, "All policies show the same time. Ctrl and the wheel zoom, dragging moves; on a chosen chart +, −, 0 and the arrow keys.")),
      h("p", { class: "quiet" }, `${number(view.nodes.length)} of ${count(view.nodesTotal, "node")} shown, those with most preemptions, from ${begin} to ${end}: the same for every policy. A bar is a `, term("stay"), `, as high as the pod has GPUs. `, h("code", {}, "replay -o trace"), " writes all of it for Perfetto."),
      h("ul", { class: "keys" }, Object.values(HOW).map(([index, text]) => h("li", {}, swatch(index), ` ${text}`)), h("li", {}, "an arrow leads from where a preemptor came to run to each of its victims")),
      shown.map((policy) => this.strip(view, policy, shownTime, zoom))];
  }

  strip(view, policy, shownTime, zoom) {
    const { strips } = policy;
    const status = h("p", { class: "status", role: "status" });
    const label = `${policy.name}: ${count(strips.names.length, "stay")} of pods on ${count(view.nodes.length, "node")}, ${count(strips.preemptions.length, "preemption")}`;
    const canvas = h("canvas", { role: "application", tabindex: "0", "aria-roledescription": "chart", "aria-label": `${label}. Arrow keys move in time, plus and minus zoom, 0 shows all.` });
    const box = h("div", { class: "strip" }, canvas);
    const paint = () => drawStrips(canvas, box.clientWidth, view, strips, shownTime.range);
    shownTime.paints.push(paint);
    new ResizeObserver(paint).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    const timeOf = (event) => frame(canvas, shownTime.range).seconds(event.clientX - canvas.getBoundingClientRect().left);
    let grabbed = null;
    canvas.addEventListener("pointerdown", (event) => { grabbed = timeOf(event); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { grabbed = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (grabbed !== null && event.buttons) return moved(shownTime, view.window, grabbed - timeOf(event));
      const found = stayAt(canvas, event, view, strips, shownTime.range);
      const text = found < 0 ? "" : stayText(view, strips, found);
      if (status.textContent !== text) status.textContent = text;
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const [begin, end] = shownTime.range;
      zoom(event.deltaY < 0 ? 0.8 : 1.25, Math.min(1, Math.max(0, (timeOf(event) - begin) / (end - begin))));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = (shownTime.range[1] - shownTime.range[0]) / 8;
      const acts = { ArrowLeft: () => moved(shownTime, view.window, -step), ArrowRight: () => moved(shownTime, view.window, step), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(Infinity) };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
      status.textContent = `From ${moment(shownTime.range[0])} to ${moment(shownTime.range[1])}.`;
    });
    return h("section", { "aria-label": `Nodes over time: ${policy.name}` }, h("h3", {}, policy.name),
      h("p", { class: "quiet" }, `${number(strips.names.length)} of ${count(strips.staysTotal, "stay")} and ${number(strips.preemptions.length)} of ${count(strips.preemptionsTotal, "preemption")} are shown.`), box, status,
      h("details", {}, h("summary", {}, "Stays as a list"), cutList([...strips.names.keys()], MOST_STAYS, (stay) => h("p", {}, stayText(view, strips, stay)), "stay")));
  }
}

function table(one) {
  const cut = one.rows.length < one.rowsTotal && h("p", { class: "quiet" }, `${number(one.rows.length)} of ${count(one.rowsTotal, "row")} shown; `, h("code", {}, "replay -o json"), " has all.");
  return [h("h2", {}, one.title), cut, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": one.title }, h("table", {},
    h("thead", {}, h("tr", {}, h("td", {}), one.heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, one.rows.map(([label, cells]) => h("tr", {}, h("th", { scope: "row" }, defined(label)), cells.map(([text, difference, best]) => h("td", { class: best ? "best" : null }, best ? `${text} ★` : text, difference && h("span", { class: "quiet difference" }, ` ${difference}`))))))))];
}

// "waiting, p99": the term with its definition, and the rest.
function defined(label) {
  const name = Object.keys(TERMS).filter((one) => label.startsWith(one)).sort((a, b) => b.length - a.length)[0];
  return name ? [term(name), label.slice(name.length)] : label;
}

function stayText(view, strips, stay) {
  return `${strips.names[stay]} on ${view.nodes[strips.nodes[stay]]}: ${HOW[strips.hows[stay]][1]}, ${duration(strips.ends[stay] - strips.begins[stay])} from ${moment(strips.begins[stay])} on`;
}

// Zooms around a share of the range; never beyond the window.
function zoomed(shownTime, window_, factor, at) {
  const [begin, end] = shownTime.range, whole = window_[1] - window_[0];
  const width = Math.min(whole, Math.max(whole / MOST_ZOOM, (end - begin) * factor));
  const first = width === whole ? window_[0] : begin + (end - begin - width) * at;
  shownTime.range = [first, first + width];
  moved(shownTime, window_, 0);
}

function moved(shownTime, window_, seconds) {
  const [begin, end] = shownTime.range;
  const by = Math.min(window_[1] - end, Math.max(window_[0] - begin, seconds));
  shownTime.range = [begin + by, end + by];
  shownTime.paint();
}

function frame(canvas, [begin, end]) {
  const names = canvas.clientWidth < 600 ? 64 : NAME_COLUMN * textHeight();
  const width = canvas.clientWidth - names - 8;
  return { names, x: (seconds) => names + width * (Math.min(end, Math.max(begin, seconds)) - begin) / (end - begin), seconds: (x) => begin + (x - names) / width * (end - begin) };
}

// "day 2, 14:05": a time of the simulation, which begins at day 0.
function moment(seconds, exact = false) {
  const at = Math.round(seconds), two = (value) => String(value).padStart(2, "0");
  const clock = `${two(Math.floor(at % DAY / 3600))}:${two(Math.floor(at % 3600 / 60))}`;
  return `day ${Math.floor(at / DAY)}, ${clock}${exact ? `:${two(at % 60)}` : ""}`;
}

function place(strips, stay) {
  const lane = (STRIP_ROW - 4) / strips.lanes[strips.nodes[stay]];
  return [strips.nodes[stay] * STRIP_ROW + 2 + strips.first[stay] * lane, strips.count[stay] * lane];
}

function drawStrips(canvas, width, view, strips, range) {
  const ratio = window.devicePixelRatio || 1, height = view.nodes.length * STRIP_ROW + 24, colours = theme();
  if (!width) return;
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const { names, x } = frame(canvas, range);
  const [begin, end] = range;
  context.font = `${textHeight()}px system-ui,sans-serif`;
  context.textBaseline = "middle";
  view.nodes.forEach((name, row) => {
    context.fillStyle = row % 2 ? colours.paper : colours.free;
    context.fillRect(names, row * STRIP_ROW, width - names, STRIP_ROW);
    context.fillStyle = colours.ink;
    context.fillText(name, 4, row * STRIP_ROW + STRIP_ROW / 2, names - 8);
  });
  for (let stay = 0; stay < strips.names.length; stay++) {
    if (strips.ends[stay] < begin || strips.begins[stay] > end) continue;
    const left = x(strips.begins[stay]), right = Math.max(left + 1, x(strips.ends[stay]));
    const [top, high] = place(strips, stay);
    const { fill, pattern } = look(HOW[strips.hows[stay]][0]);
    context.fillStyle = fill;
    context.fillRect(left, top, right - left, Math.max(1, high - 0.5));
    drawPattern(context, pattern, left, top, right - left, high);
    context.strokeStyle = colours.paper;
    context.lineWidth = 0.5;
    context.strokeRect(left, top, right - left, Math.max(1, high - 0.5));
  }
  context.strokeStyle = context.fillStyle = colours.ink;
  for (const [when, preemptor, victims] of strips.preemptions) {
    const from = preemptor < 0 ? null : [x(strips.begins[preemptor]), place(strips, preemptor)];
    for (const victim of victims) {
      const [top, high] = place(strips, victim);
      if (strips.ends[victim] < begin || strips.ends[victim] > end) continue;
      arrow(context, from ? from[0] : x(when), from ? from[1][0] + from[1][1] / 2 : top + high / 2, x(strips.ends[victim]), top + high / 2);
    }
  }
  const most = width < 600 ? 1 : width < 900 ? 2 : 4;
  for (let at = 0; at <= most; at++) {
    const seconds = begin + (end - begin) * at / most;
    context.textAlign = at === most ? "right" : at ? "center" : "left";
    context.fillText(moment(seconds, end - begin < 0.1 * DAY), x(seconds), height - 10);
  }
  context.textAlign = "left";
}

function arrow(context, fromX, fromY, toX, toY) {
  context.lineWidth = 0.8;
  context.beginPath();
  context.moveTo(fromX, fromY);
  context.lineTo(toX, toY);
  context.stroke();
  const angle = Math.atan2(toY - fromY, toX - fromX);
  context.beginPath();
  context.moveTo(toX, toY);
  context.lineTo(toX - 6 * Math.cos(angle - 0.4), toY - 6 * Math.sin(angle - 0.4));
  context.lineTo(toX - 6 * Math.cos(angle + 0.4), toY - 6 * Math.sin(angle + 0.4));
  context.fill();
}

function stayAt(canvas, event, view, strips, range) {
  const box = canvas.getBoundingClientRect();
  const seconds = frame(canvas, range).seconds(event.clientX - box.left), y = event.clientY - box.top;
  for (let stay = 0; stay < strips.names.length; stay++) {
    const [top, high] = place(strips, stay);
    if (seconds >= strips.begins[stay] && seconds <= strips.ends[stay] && y >= top && y <= top + high) return stay;
  }
  return -1;
}
