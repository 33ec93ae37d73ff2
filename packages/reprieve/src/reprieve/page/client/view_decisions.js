// Preemptions: what came, what was evicted, what was spared and by which constraint.
import { count, cutList, duration, h, number, put, svg, time } from "./dom.js";
import { look, swatch } from "./palette.js";
import { term } from "./terms.js";

const MOST_UNITS = 12;

export class DecisionsView {
  // `suffix()`: what links end with that stay in the past.
  constructor({ onShow, suffix = () => "", live = false }) {
    Object.assign(this, { onShow, suffix, live });
    this.travel = h("div", {});
    this.list = h("div", {});
    this.detail = h("section", { class: "detail", "aria-label": "Decision" });
    this.element = h("div", { class: "two" }, h("div", {}, this.travel, this.list), h("div", { class: "side wide" }, this.detail));
  }

  show(whole, chosen) {
    this.document = whole;
    if (this.live && !this.travel.firstChild) this.showTravel();
    this.made = whole.records.filter((record) => record.preemption);
    const priorities = [...new Set([...(whole.before ?? whole.cluster).workloads.priorities, ...whole.cluster.workloads.priorities])].sort((a, b) => b - a);
    this.colour = (priority) => Math.max(0, priorities.indexOf(priority));
    const drawn = new Set(this.made.flatMap((record) => [...record.preemption.evicted, ...record.preemption.reprieved].map((unit) => unit.priority)));
    const key = h("ul", { class: "key", "aria-label": "Colours" }, priorities.filter((priority) => drawn.has(priority)).map((priority) => h("li", {}, swatch(this.colour(priority)), ` priority ${priority}`)),
      h("li", { class: "quiet" }, "A block is a ", term("unit"), ", wider the more pods it has."));
    const current = this.made.find((record) => `#/decisions/${record.id}` === chosen) ?? this.made[0];
    put(this.list, this.made.length === 0 ? h("p", {}, "No preemptions.") : [
      whole.recordsTotal > whole.records.length && h("p", { class: "quiet" }, `${number(whole.records.length)} of ${count(whole.recordsTotal, "record")} are here; `, h("code", {}, "reprieve history"), " has the rest."),
      this.moments(current), key,
      h("ol", { class: "cards timeline" }, this.made.map((record) => this.card(record, record === current)))]);
    this.showDetail(current);
  }

  // Earlier decisions than are listed: as of a time.
  showTravel() {
    const field = h("input", { type: "datetime-local", id: "until", step: "1", required: true });
    put(this.travel, h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); location.hash = `#/decisions@${new Date(`${field.value}Z`).toISOString()}`; } },
      h("label", { for: "until" }, "Decisions until (UTC) ", field), h("button", { type: "submit" }, "Go")));
  }

  // When they were made, on an axis: a bar each, as high as pods were evicted.
  moments(current) {
    if (this.made.length < 2) return null;
    const wide = 600, high = 56, times = this.made.map((record) => new Date(record.time).getTime());
    const first = Math.min(...times), last = Math.max(...times, first + 1000), most = Math.max(1, ...this.made.map((record) => record.preemption.cost.pods));
    const x = (at) => 6 + (wide - 12) * (at - first) / (last - first);
    return [h("p", { class: "quiet" }, `${count(this.made.length, "preemption")} over ${duration((last - first) / 1000)}. A bar is a preemption, as high as it evicts pods, up to ${number(most)}.`),
      svg("svg", { class: "moments", viewBox: `0 0 ${wide} ${high}`, role: "group", "aria-label": "Preemptions over time" },
        svg("line", { x1: 0, x2: wide, y1: 38.5, y2: 38.5 }),
        svg("text", { x: 0, y: high - 4 }, time(new Date(first).toISOString())), svg("text", { x: wide, y: high - 4, "text-anchor": "end" }, time(new Date(last).toISOString())),
        this.made.map((record, at) => {
          const tall = 6 + 30 * record.preemption.cost.pods / most;
          return svg("a", { href: `#/decisions/${record.id}${this.suffix()}`, tabindex: "-1", "aria-label": `${named(record.entity)}, ${time(record.time)}`, "aria-current": record === current ? "true" : null },
            svg("rect", { x: x(times[at]) - 3, y: 38 - tall, width: 6, height: tall }));
        }))];
  }

  card(record, current) {
    const { preemption, entity } = record;
    return h("li", { class: current ? "card current" : "card" },
      h("h2", {}, h("a", { href: `#/decisions/${record.id}${this.suffix()}`, "data-key": `decision-${record.id}`, "aria-current": current ? "true" : null }, named(entity))),
      h("p", { class: "quiet" }, `${time(record.time)} · priority ${entity.priority ?? 0}${this.document.plan ? "" : ` · ${stateOf(preemption)}`}`),
      h("p", {}, term("evicted"), " ", this.blocks(preemption.evicted)),
      preemption.reprievedTotal > 0 && h("p", {}, term("spared"), " ", this.blocks(preemption.reprieved, preemption.reprievedTotal)),
      h("p", { class: "quiet" }, term("lost GPU-hours"), `: ${number(Math.round(10 * (preemption.cost.lostGpuHours ?? 0)) / 10)}${this.document.plan ? "" : ` · decided in ${duration(record.timings.attemptSeconds)}`}`));
  }

  // A unit as a block as wide as it has pods. `total`: how many there are, where the record has fewer.
  blocks(units, total = units.length) {
    return h("span", { class: "units" }, units.slice(0, MOST_UNITS).map((unit) => {
      const block = h("span", { class: `unit pattern-${look(this.colour(unit.priority)).pattern}`, title: `${unitName(unit)}: ${count(unit.pods, "pod")}, priority ${unit.priority}` });
      block.style.backgroundColor = look(this.colour(unit.priority)).fill;
      block.style.width = `${8 + Math.min(72, 6 * unit.pods)}px`;
      return block;
    }), h("span", { class: "quiet" }, ` ${count(total, "unit")}${this.rest(units, total)}`));
  }

  // How many pods the units have, and how many of them are drawn.
  rest(units, total) {
    const pods = total === units.length ? `, ${count(units.reduce((sum, unit) => sum + unit.pods, 0), "pod")}` : "";
    return `${pods}${total > MOST_UNITS ? `; the first ${MOST_UNITS} are drawn` : ""}`;
  }

  showDetail(record) {
    if (!record) {
      put(this.detail, h("h2", {}, "Decision"), h("p", { class: "quiet" }, "Nothing was evicted."));
      return;
    }
    const { preemption } = record;
    const { cost, comparison } = preemption;
    const receipt = receiptText(record);
    put(this.detail, h("h2", {}, `For ${named(record.entity)}`),
      h("p", { class: "quiet" }, h("a", { href: `#/decisions/${record.id}${this.suffix()}` }, "Link to this decision"), ` · ${time(record.time)}${this.document.plan ? "" : ` · decided in ${duration(record.timings.attemptSeconds)}`}`),
      !this.document.plan && h("p", {}, h("b", {}, stateOf(preemption)), preemption.error ? `: ${preemption.error}` : ""),
      h("h3", {}, term("evicted", "Evicted")), this.units(preemption.evicted, (unit) => unit.why ? why(unit.why) : unit.movesTo?.length ? `moves to ${unit.movesTo.join(", ")}` : unit.chosenBy ? `chosen by plugin ${unit.chosenBy}` : unit.because ?? ""),
      h("h3", {}, term("spared", "Spared"), preemption.reprievedTotal > preemption.reprieved.length && `: ${number(preemption.reprieved.length)} of ${number(preemption.reprievedTotal)} listed`),
      preemption.reprieved.length ? this.units(preemption.reprieved, (unit) => unit.violatesPdb ? "spared first, because a PodDisruptionBudget protects it" : "everything still fits with it running") : h("p", { class: "quiet" }, "Nothing of a lower priority was left."),
      h("h3", {}, "Cost"),
      h("dl", { class: "facts" },
        h("dt", {}, "evicted"), h("dd", {}, `${count(cost.units, "unit")}, ${count(cost.pods, "pod")}`),
        h("dt", {}, term("budget violations")), h("dd", {}, number(cost.pdbViolations ?? 0)),
        h("dt", {}, term("lost GPU-hours")), h("dd", {}, number(Math.round(10 * (cost.lostGpuHours ?? 0)) / 10)),
        comparison.candidates > 1 && [h("dt", {}, "places compared"), h("dd", {}, `${comparison.candidates}${comparison.decidedBy ? `, decided by ${comparison.decidedBy}` : ""}`)]),
      preemption.costNotes?.map((text) => h("p", {}, text)),
      preemption.cascade?.length > 0 && h("p", {}, `When they come back they would evict in turn: ${preemption.cascade.flatMap((turn) => turn.evicted).join(", ")}.`),
      preemption.nominations.length > 0 && [h("h3", {}, term("nominated", "Capacity for it"), preemption.nominationsTotal > preemption.nominations.length && `: ${number(preemption.nominations.length)} of ${number(preemption.nominationsTotal)} listed`), cutList(preemption.nominations, 8, (one) => h("p", {}, `${one.pod} on ${one.node}`), "pod")],
      h("p", { class: "buttons" }, this.onShow && h("button", { type: "button", onclick: () => this.onShow(record) }, "Show on the map"),
        this.live && h("a", { href: `#/cluster@${record.time}`, "data-key": "as-it-was" }, "The cluster as it was")),
      h("details", {}, h("summary", {}, "Receipt as text"), h("pre", { tabindex: "0" }, receipt)),
      h("details", {}, h("summary", {}, "Receipt as JSON"), h("pre", { tabindex: "0" }, JSON.stringify(record, null, 2))));
  }

  // Lone pods of which the same is to be said are one row.
  units(units, reason) {
    const rows = new Map();
    for (const unit of units) {
      const alike = unit.kind === "Pod" && unit.unit ? JSON.stringify([unit.unit.split("/")[0], unit.nodes, unit.priority, reason(unit)]) : unit;
      if (!rows.has(alike)) rows.set(alike, []);
      rows.get(alike).push(unit);
    }
    const merged = [...rows.values()].map((alike) => ({ ...alike[0], pods: alike.reduce((sum, unit) => sum + unit.pods, 0), unit: [alike[0].unit, ...alike.slice(1).map((unit) => unit.unit.split("/")[1])].join(", ") }));
    return cutList(merged, MOST_UNITS, (unit) => h("div", { class: "unit-row" },
      swatch(this.colour(unit.priority)), h("div", {}, h("b", {}, unitName(unit)),
        h("span", { class: "quiet" }, ` ${unit.pods ? `${count(unit.pods, "pod")}${unit.nodes.length ? ` on ${unit.nodes.join(", ")}${unit.nodesTotal > unit.nodes.length ? ` and ${unit.nodesTotal - unit.nodes.length} more` : ""}` : ""} · ` : ""}priority ${unit.priority}`),
        reason(unit) && h("p", {}, reason(unit)))), "row");
  }
}

function named(entity) {
  return entity.name ? `${entity.namespace}/${entity.name}` : `hidden ${entity.kind}, priority ${entity.priority ?? 0}`;
}

const STATES = { UnderWay: "victims are leaving", Done: "done: every victim was deleted", Failed: "it failed" };

// Records leave out what is as usual.
function stateOf(preemption) {
  return STATES[preemption.state ?? "UnderWay"] ?? preemption.state;
}

function unitName(unit) {
  return unit.unit || `hidden ${unit.kind}`;
}

function why(reason) {
  const missing = Object.entries(reason.missing ?? {}).map(([name, amount]) => `${amount} ${name}`).join(", ");
  return `if it stayed, ${reason.pod} would not fit on ${reason.node}: ${missing ? `${missing} short` : reason.text}`;
}

function receiptText(record) {
  const { preemption } = record;
  const line = (unit) => `  ${unitName(unit)}  priority ${unit.priority}  ${count(unit.pods, "pod")}  ${unit.nodes.join(", ")}${unit.why || unit.because ? `\n      ${unit.why ? why(unit.why) : unit.because}` : ""}`;
  return [`${record.time}  ${named(record.entity)}  priority ${record.entity.priority ?? 0}`, "Evicted", ...preemption.evicted.map(line), `Spared (${preemption.reprievedTotal})`, ...preemption.reprieved.map(line)].join("\n");
}
