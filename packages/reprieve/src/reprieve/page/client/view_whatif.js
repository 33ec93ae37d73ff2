// A change that is tried: manifests, a pending workload, nodes that close or are added. The cluster is not touched.
import { commandText, count, cutList, h, number, put, withOptions } from "./dom.js";
import { ClusterView } from "./view_cluster.js";

const MOST_HELPED = 20;
const MOST_WAITING = 200;

export class WhatIfView {
  constructor({ ask }) {
    this.ask = ask;
    this.flags = h("textarea", { id: "what-if-changes", rows: "3", spellcheck: "false", "data-key": "changes", placeholder: "--drain gpu-1\n--add-nodes 2 --like gpu-1" });
    this.manifests = h("textarea", { id: "what-if-manifests", rows: "8", spellcheck: "false", "data-key": "manifests", ondragover: (event) => event.preventDefault(), ondrop: (event) => this.dropped(event) });
    this.button = h("button", { type: "submit", "data-key": "plan" }, "Plan");
    this.message = h("p", { role: "status", class: "status conclusion" });
    this.answer = h("div", {});
    this.node = h("select", { id: "what-if-node", "data-key": "node" });
    this.waiting = h("select", { id: "what-if-waiting", "data-key": "waiting" });
    const add = (verb, text) => h("button", { type: "button", "data-key": verb, onclick: () => this.node.value && this.add(`--${verb} ${this.node.value}`) }, text);
    this.map = new ClusterView({ actions: (node) => this.nodeActions(node) });
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.plan(); } },
      h("div", { class: "fields" },
        h("div", {}, h("label", { for: "what-if-manifests" }, "Manifests to add: paste YAML or JSON, or drop a file"), this.manifests),
        h("div", {}, h("label", { for: "what-if-changes" }, "Changes, as options of ", h("code", {}, "reprieve plan"), ", one a line; or click a node in the map"), this.flags,
          h("p", { class: "buttons" }, h("label", { for: "what-if-node" }, "Node "), this.node, add("drain", "drain"), add("cordon", "cordon"), add("remove-node", "remove"),
            h("button", { type: "button", "data-key": "add", onclick: () => this.node.value && this.add(`--add-nodes 1 --like ${this.node.value}`) }, "add one like it")))),
      h("p", { class: "buttons" }, h("label", { for: "what-if-waiting" }, "What happens to "), this.waiting, " ", this.button, h("button", { type: "button", "data-key": "clear", onclick: () => this.clear() }, "Clear"),
        h("span", { class: "quiet" }, " Nothing in the cluster is changed. The plan includes the pending workloads.")));
    this.beside = h("div", { class: "beside" }, this.answer, this.map.element);
    this.element = h("div", {}, ask ? this.form : null, this.message, this.beside);
  }

  // The map shows the cluster as it is, until there is an answer.
  show(whole) {
    this.document = whole;
    const chosen = this.node.value;
    const names = whole.cluster.nodes.names;
    if (names.join() !== this.names) {
      this.names = names.join();
      put(this.node, names.map((name) => h("option", { value: name, selected: name === chosen }, name)));
    }
    this.showWaiting(whole.queue.filter((item) => item.name).slice(0, MOST_WAITING), whole.queueTotal);
    if (!this.planned) this.map.show(whole);
  }

  // The workloads that can be picked; the one that was picked stays chosen as long as it is pending.
  showWaiting(items, total) {
    const values = items.map(keyOf);
    const known = `${values.join()} ${total}`;
    if (known === this.known) return;
    this.known = known;
    const chosen = this.waiting.value;
    put(this.waiting, h("option", { value: "" }, items.length < total ? `all pending workloads (${number(items.length)} of ${number(total)} are listed)` : "all pending workloads"),
      items.map((item, at) => h("option", { value: values[at], selected: values[at] === chosen }, `${item.namespace}/${item.name}, ${item.kind}`)));
  }

  nodeActions(node) {
    const name = (this.planned ?? this.document).cluster.nodes.names[node];
    return [["--drain", "Drain it"], ["--cordon", "Cordon it"], ["--remove-node", "Remove it"], ["--add-nodes 1 --like", "Add one like it"]].map(([option, text]) => h("button", { type: "button", "data-key": `node-${option}`, onclick: () => this.add(`${option} ${name}`) }, text));
  }

  clear() {
    this.flags.value = this.manifests.value = this.message.textContent = "";
    this.clearAnswer();
  }

  clearAnswer() {
    this.planned = null;
    put(this.answer);
    this.beside.classList.remove("answered");
    this.map.show(this.document);
  }

  // What the plan means for the workload that was picked.
  picked(planned) {
    if (!this.waiting.value) return null;
    const [kind, namespace, name] = JSON.parse(this.waiting.value);
    const { workloads, pods, nodes } = planned.cluster;
    const places = [];
    pods.names.forEach((pod, at) => {
      const owner = pods.workloads[at];
      const own = kind === "Pod" ? pod === name : workloads.kinds[owner] === kind && workloads.names[owner] === name;
      if (own && workloads.namespaces[owner] === namespace) places.push(pods.nodes[at]);
    });
    const placed = places.filter((node) => node >= 0);
    const names = [...new Set(placed)].map((node) => nodes.names[node]);
    const waits = planned.queue.find((item) => keyOf(item) === this.waiting.value);
    const units = planned.records.filter((record) => keyOf(record.entity) === this.waiting.value).flatMap((record) => record.preemption?.evicted ?? []);
    return h("section", { class: "picked", "aria-label": "The workload that was picked" }, h("h2", {}, `${namespace}/${name}`),
      h("p", {}, places.length ? `${number(placed.length)} of ${count(places.length, "pod")} ${places.length === 1 ? "runs" : "run"} after the plan${names.length ? ", on:" : "."}` : "The plan has no pods of it."),
      names.length > 0 && cutList(names, 8, (node) => h("span", {}, `${node} `), "node"),
      waits && h("p", {}, `It is still pending${waits.why ? `: ${waits.why}` : ""}. ${waits.message ?? ""}`),
      units.length > 0 && [h("p", {}, "Evicted for it:"), cutList(units, 8, (unit) => h("p", {}, `${unit.unit || `hidden ${unit.kind}`}, priority ${number(unit.priority)}, ${count(unit.pods, "pod")}`), "workload")]);
  }

  // Changes that the plan has tried for workloads that are still pending: moves of running pods, nodes, priorities and others.
  suggestions(planned) {
    const helped = planned.queue.filter((item) => item.help.some((help) => help.flags.length));
    helped.sort((one, other) => (keyOf(other) === this.waiting.value) - (keyOf(one) === this.waiting.value));
    if (!helped.length) return null;
    return [h("h2", {}, "What would help"), h("ul", {}, helped.slice(0, MOST_HELPED).map((item) => item.help.filter((help) => help.flags.length).map((help) => h("li", {},
      `${item.namespace}/${item.name}: `, withOptions(help.sentence), " ", h("button", { type: "button", onclick: () => this.plan([...this.flags.value.split("\n").filter(Boolean), ...help.flags]) }, "Try it"))))),
    helped.length > MOST_HELPED && h("p", { class: "quiet" }, `${MOST_HELPED} of ${count(helped.length, "workload")} shown; the text of the plan has all.`)];
  }

  add(line) {
    if (!this.flags.value.split("\n").includes(line)) this.flags.value = [this.flags.value.trim(), line].filter(Boolean).join("\n");
  }

  async dropped(event) {
    const file = event.dataTransfer.files[0];
    if (!file) return;
    event.preventDefault();
    this.manifests.value = await file.text();
  }

  async plan(lines) {
    if (lines) this.flags.value = lines.join("\n");
    this.button.disabled = true;
    this.message.textContent = "Planning …";
    try {
      const planned = await this.ask({ manifests: this.manifests.value, changes: this.flags.value.split("\n").map((line) => line.trim()).filter(Boolean) });
      this.message.textContent = planned.sentences.plan;
      this.planned = planned;
      this.beside.classList.add("answered");
      put(this.answer, this.picked(planned), this.suggestions(planned), h("h2", {}, "The plan"), inputNotes(planned), commandText(planned.text));
      this.map.show(planned);
    } catch (error) {
      this.clearAnswer();
      this.message.textContent = error.message;
    } finally {
      this.button.disabled = false;
    }
  }
}

function keyOf({ kind, namespace, name }) {
  return JSON.stringify([kind, namespace, name]);
}

// What a plan has not read, or not understood.
export function inputNotes(whole) {
  const { warnings, warningsTotal } = whole;
  if (!warningsTotal) return null;
  return h("div", { class: "notes" }, h("h3", {}, `${count(warningsTotal, "part")} of the input ${warningsTotal === 1 ? "is" : "are"} not read, or not understood`),
    warnings.length < warningsTotal && h("p", { class: "quiet" }, `${number(warnings.length)} of ${number(warningsTotal)} are here.`),
    cutList(warnings, 5, (line) => h("p", {}, line), "part"));
}
