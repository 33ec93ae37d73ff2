// Nodes as a grid of their GPUs, with what runs on them.
import { count, h, number, put } from "./dom.js";
import { Grid, flagSwatch, podSwatch } from "./grid.js";
import { Cluster, NODE, POD, search } from "./model.js";
import { swatch } from "./palette.js";
import { TERMS, term } from "./terms.js";

const FLAG_NAMES = [["cordoned", NODE.cordoned], ["tainted", NODE.tainted], ["draining", NODE.draining], ["nominated", NODE.nominated], ["reserved", NODE.reserved]];
const POD_FLAG_NAMES = [["terminating", POD.leaving], ["evicted", POD.victim], ["backfill", POD.backfills], ["placed", POD.placed]];
const MOST_ROWS = 100;

export class ClusterMap {
  // `actions(node, group)`: buttons for a chosen node, and for its group, `key=value` or empty. `label`: what the map shows.
  constructor({ label = "Map of the nodes", actions = () => [] } = {}) {
    this.actions = actions;
    this.settings = { key: null, colour: "priority", find: "" };
    this.overlay = h("div", {
      class: "overlay", tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": `${label}. Arrow keys choose a node, plus and minus zoom, 0 shows all.`,
      onkeydown: (event) => this.key(event),
    });
    this.status = h("p", { class: "status", role: "status" });
    this.detail = h("section", { class: "detail", "aria-label": "What is chosen" });
    this.legend = h("section", { class: "legend", "aria-label": "Legend" });
    this.table = h("div", {});
    this.tools = h("div", { class: "tools" });
    this.element = h("div", { class: "cluster" },
      this.tools,
      h("div", { class: "map-and-detail" },
        h("div", { class: "map-column" },
          h("div", { class: "map" }, this.overlay),
          h("p", { class: "quiet" }, "Drag to pan; Ctrl and the wheel, or + and −, zoom. Point at a pod to light its workload everywhere."),
          this.status),
        h("div", { class: "side" }, this.detail, this.legend)),
      h("details", { ontoggle: (event) => { this.tableOpen = event.target.open; this.showTable(); } }, h("summary", {}, "Nodes as a table"), this.table));
    this.grid = new Grid(this.overlay, {
      onPoint: (found) => this.point(found),
      onPick: (found) => (found.node >= 0 ? this.choose(found.node, found.pod) : this.choose(-1)),
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.cluster && this.redraw());
  }

  show(cluster) {
    const name = this.chosen >= 0 && this.cluster ? this.cluster.nodes.names[this.chosen] : null;
    this.cluster = cluster;
    const keys = Object.keys(cluster.nodes.labels);
    if (this.settings.key === null || (this.settings.key && !keys.includes(this.settings.key))) this.settings.key = keys[0] ?? "";
    this.showTools(keys);
    this.redraw();
    this.find(this.settings.find);
    this.choose(name === null ? -1 : cluster.nodes.names.indexOf(name));
    this.showTable();
  }

  redraw() {
    this.grid.show(this.cluster, this.settings.key, this.settings.colour);
    this.showLegend();
  }

  showTools(keys) {
    const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
    put(this.tools,
      h("label", {}, "Find ", h("input", {
        type: "search", "data-key": "find", value: this.settings.find, placeholder: "name, app=web, priority>9", size: 27,
        oninput: (event) => this.find(event.target.value),
      })),
      h("label", {}, "Group by ", h("select", { "data-key": "group", onchange: (event) => { this.settings.key = event.target.value; this.redraw(); } },
        keys.map((key) => option(key, key, this.settings.key)), option("", "nothing", this.settings.key))),
      h("label", {}, "Colour by ", h("select", { "data-key": "colour", onchange: (event) => { this.settings.colour = event.target.value; this.redraw(); } },
        option("priority", "priority", this.settings.colour), option("workload", "workload", this.settings.colour))),
      h("span", { class: "buttons" },
        h("button", { type: "button", "data-key": "in", "aria-label": "Zoom in", onclick: () => this.grid.zoom(1.4) }, "+"),
        h("button", { type: "button", "data-key": "out", "aria-label": "Zoom out", onclick: () => this.grid.zoom(1 / 1.4) }, "−"),
        h("button", { type: "button", "data-key": "fit", onclick: () => this.grid.fit() }, "Show all")));
  }

  find(text) {
    this.settings.find = text;
    this.found = search(this.cluster, text);
    if (this.found) {
      const pods = this.found.pods.reduce((sum, one) => sum + one, 0), nodes = this.found.nodes.reduce((sum, one) => sum + one, 0);
      this.say(`${count(pods, "pod")} and ${count(nodes, "node")} match.`);
    } else this.say("");
    this.relight();
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  // What is lit: a workload that is pointed at or chosen, or else what was found.
  relight(workload = this.workload ?? -1) {
    const { cluster, found } = this;
    if (workload >= 0) {
      const mine = (pod) => cluster.pod_workloads[pod] === workload;
      this.grid.light({ pods: mine, nodes: () => false, any: (node) => cluster.podsOf(node).some(mine) });
    } else if (found) {
      this.grid.light({ pods: (pod) => found.pods[pod] === 1, nodes: (node) => found.nodes[node] === 1, any: (node) => cluster.podsOf(node).some((pod) => found.pods[pod]) });
    } else this.grid.light(null);
  }

  lightWorkload(workload) {
    this.workload = workload;
    this.relight(workload);
  }

  point(found) {
    const workload = found && found.pod >= 0 ? this.cluster.pod_workloads[found.pod] : -1;
    if (workload !== this.pointed) {
      this.pointed = workload;
      this.relight(workload >= 0 ? workload : this.workload ?? -1);
    }
    if (found?.group && found.node < 0) this.say(this.grid.titles(found.group)[0]);
    if (!found || found.node < 0) return;
    const { cluster } = this;
    const what = found.pod >= 0 ? `${cluster.podName(found.pod)} of ${cluster.workloadName(workload)}, ${cluster.className(cluster.workloads.priorities[workload])}` : "free";
    this.say(`${cluster.nodes.names[found.node]}: ${what}`);
  }

  choose(node, pod = -1) {
    this.chosen = node;
    this.workload = pod >= 0 ? this.cluster.pod_workloads[pod] : -1;
    this.grid.select(node);
    this.relight();
    this.showDetail();
  }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) this.choose(this.grid.next(this.chosen ?? -1, ...moves[event.key]));
    else if (event.key === "+" || event.key === "=") this.grid.zoom(1.4);
    else if (event.key === "-") this.grid.zoom(1 / 1.4);
    else if (event.key === "0") this.grid.fit();
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
    if (this.chosen >= 0 && moves[event.key]) this.say(this.summary(this.chosen));
  }

  summary(node) {
    const { cluster } = this;
    const flags = FLAG_NAMES.filter(([, flag]) => cluster.nodes.flags[node] & flag).map(([name]) => name);
    const blocks = cluster.nodes.blocks[node] ? `${cluster.blocksUsed[node]} of ${cluster.nodes.blocks[node]} ${cluster.unit} in use, ` : "";
    return `${cluster.nodes.names[node]}: ${blocks}${count(cluster.podsOf(node).length, "pod")}${flags.length ? `, ${flags.join(", ")}` : ""}`;
  }

  showDetail() {
    const { cluster, chosen: node } = this;
    if (node < 0 || node === undefined) {
      put(this.detail, h("h2", {}, "No node is chosen"), h("p", { class: "quiet" }, "Click a node, or choose one with the arrow keys, to see its pods, taints and labels."));
      return;
    }
    const { nodes } = cluster;
    const pods = [...cluster.podsOf(node)];
    const flags = FLAG_NAMES.filter(([, flag]) => nodes.flags[node] & flag);
    const labels = Object.entries(nodes.labels).filter(([, column]) => column.of[node] >= 0);
    put(this.detail,
      h("h2", {}, nodes.names[node]),
      flags.length > 0 && h("p", {}, flags.map(([name], at) => [at ? ", " : "", term(name)])),
      h("dl", { class: "facts" },
        nodes.blocks[node] > 0 && [h("dt", {}, cluster.unit), h("dd", {}, `${cluster.blocksUsed[node]} of ${nodes.blocks[node]} in use`)],
        h("dt", {}, "CPU"), h("dd", {}, `${number(cluster.cpuUsed[node] / 1000)} of ${number(nodes.cpu[node] / 1000)} requested`),
        nodes.taintSets[nodes.taints[node]]?.length > 0 && [h("dt", {}, "taints"), h("dd", {}, nodes.taintSets[nodes.taints[node]].join(", "))],
        labels.map(([key, column]) => [h("dt", {}, key), h("dd", {}, column.values[column.of[node]])])),
      h("p", { class: "buttons" }, this.actions(node, this.groupOf(node))),
      this.podList(pods));
  }

  groupOf(node) {
    const { key } = this.settings, column = this.cluster.nodes.labels[key];
    return column && column.of[node] >= 0 ? `${key}=${column.values[column.of[node]]}` : "";
  }

  podList(pods) {
    const { cluster } = this;
    const byWorkload = new Map();
    for (const pod of pods) {
      const workload = cluster.pod_workloads[pod];
      if (!byWorkload.has(workload)) byWorkload.set(workload, []);
      byWorkload.get(workload).push(pod);
    }
    const rows = [...byWorkload].map(([workload, members]) => h("li", {},
      swatch(this.settings.colour === "workload" ? cluster.byWorkload[workload] : cluster.byPriority[workload]), " ",
      h("button", { type: "button", class: "link", "data-key": `workload-${workload}`, onclick: () => this.lightWorkload(this.workload === workload ? -1 : workload) }, cluster.workloadName(workload)),
      h("span", { class: "quiet" }, ` ${cluster.className(cluster.workloads.priorities[workload])} · ${count(members.length, "pod")} here`,
        cluster.workloads.degraded[workload] && [" · ", term("degraded"), `: ${cluster.workloads.degraded[workload]}`],
        POD_FLAG_NAMES.filter(([, flag]) => members.some((pod) => cluster.pod_flags[pod] & flag)).map(([name]) => [" · ", term(name)]))));
    return rows.length ? h("ul", { class: "plain" }, rows) : h("p", { class: "quiet" }, "No pods.");
  }

  showLegend() {
    const { cluster } = this;
    const used = new Set(this.settings.colour === "priority" ? cluster.priorities : []);
    const rows = cluster.priorities.filter((priority) => used.has(priority)).map((priority, at) => [swatch(at), cluster.className(priority)]);
    const seen = FLAG_NAMES.map(([name, flag]) => [flagSwatch(flag), name]);
    const pods = POD_FLAG_NAMES.filter(([name]) => name !== "placed" || cluster.pod_flags.some((flags) => flags & POD.placed)).map(([name, flag]) => [podSwatch(flag), name]);
    const entry = ([picture, text]) => h("li", {}, picture, " ", TERMS[text] ? [h("b", {}, text), h("span", { class: "quiet" }, ` ${TERMS[text]}`)] : text);
    put(this.legend, h("h2", {}, "Legend"),
      h("ul", { class: "plain" },
        this.settings.colour === "workload" && h("li", {}, "A colour and a pattern for each workload; of many they come again."),
        this.settings.colour === "priority" && h("li", { class: "quiet" }, "A colour and a pattern for each priority, the highest first:"),
        rows.map(entry),
        h("li", {}, podSwatchFree(), " free"),
        cluster.block ? h("li", { class: "quiet" }, `A block is 1 of ${cluster.block}. The line below the blocks is the share of the node's CPU that pods request. The order of blocks is not that of the devices.`) : h("li", { class: "quiet" }, "A bar is the CPU of a node; a part of it is what a pod requests."),
        h("li", { class: "quiet" }, "Marks of pods and nodes, in every colour:"),
        pods.map(entry), seen.map(entry)));
  }

  showTable() {
    if (!this.tableOpen || !this.cluster) return;
    const { cluster } = this;
    const all = [...cluster.nodes.names.keys()].filter((node) => !this.found || this.found.nodes[node] || cluster.podsOf(node).some((pod) => this.found.pods[pod]));
    const shown = all.slice(0, this.rows ?? MOST_ROWS);
    put(this.table,
      h("p", { class: "quiet" }, `${number(shown.length)} of ${count(all.length, "node")} shown. `,
        shown.length < all.length && h("button", { type: "button", "data-key": "more-rows", onclick: () => { this.rows = shown.length + 10 * MOST_ROWS; this.showTable(); } }, "Show more")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, h("table", {},
        h("thead", {}, h("tr", {}, ["node", cluster.unit, "CPU", "pods", "state"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, shown.map((node) => h("tr", {},
          h("td", {}, h("button", { type: "button", class: "link", "data-key": `row-${node}`, onclick: () => this.choose(node) }, cluster.nodes.names[node])),
          h("td", {}, cluster.nodes.blocks[node] ? `${cluster.blocksUsed[node]}/${cluster.nodes.blocks[node]}` : "–"),
          h("td", {}, `${number(cluster.cpuUsed[node] / 1000)}/${number(cluster.nodes.cpu[node] / 1000)}`),
          h("td", {}, number(cluster.podsOf(node).length)),
          h("td", {}, FLAG_NAMES.filter(([, flag]) => cluster.nodes.flags[node] & flag).map(([name]) => name).join(", ") || "–")))))));
  }
}

function podSwatchFree() {
  return h("span", { class: "swatch free", "aria-hidden": "true" });
}

// Victims of a plan, by namespace and name: they are marked in the cluster before it.
function victimsOf(plan) {
  return new Set((plan?.preemptions ?? []).flatMap((made) => made.victims.map((victim) => `${victim.namespace}/${victim.name}`)));
}

function placedBy(plan) {
  return new Set((plan?.pods ?? []).filter((pod) => pod.nodeName).map((pod) => `${pod.namespace}/${pod.name}`));
}

// The view: a map of the cluster, of a plan also as it was before.
export class ClusterView {
  constructor({ actions }) {
    this.map = new ClusterMap({ actions });
    this.side = "after";
    this.choice = h("div", { class: "choice" });
    this.element = h("div", {}, this.choice, this.map.element);
  }

  show(document_) {
    this.document = document_;
    put(this.choice, document_.before && h("fieldset", {}, h("legend", {}, "The cluster"),
      [["before", "before the plan; a cross marks what it evicts"], ["after", "after the plan; a ring marks what it places"]].map(([side, text]) => h("label", {},
        h("input", { type: "radio", name: "side", value: side, checked: side === this.side, "data-key": side, onchange: () => { this.side = side; this.showMap(); } }), ` ${text}`))));
    this.showMap();
  }

  showMap() {
    const { document: whole } = this;
    const tables = this.side === "before" && whole.before ? whole.before : whole.cluster;
    const also = tables === whole.before ? whole.cluster : whole.before;
    this.map.show(new Cluster(tables, tables === whole.before ? { victims: victimsOf(whole.plan), also } : { placed: placedBy(whole.plan), also }));
  }

  light(kind, namespace, name) {
    const cluster = this.map.cluster;
    const workload = cluster.findWorkload(kind, namespace, name);
    if (workload >= 0) this.map.lightWorkload(workload);
    return workload >= 0;
  }
}
