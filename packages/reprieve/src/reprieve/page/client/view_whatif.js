// A change that is tried: manifests, a waiting workload, nodes that close or are added. The cluster is not touched.
import { h, put } from "./dom.js";
import { ClusterView } from "./view_cluster.js";

const MOST_HELPED = 20;

export class WhatIfView {
  constructor({ ask }) {
    this.ask = ask;
    this.flags = h("textarea", { id: "what-if-changes", rows: "3", spellcheck: "false", "data-key": "changes", placeholder: "--drain gpu-1\n--add-nodes 2 --like gpu-1" });
    this.manifests = h("textarea", { id: "what-if-manifests", rows: "8", spellcheck: "false", "data-key": "manifests", ondragover: (event) => event.preventDefault(), ondrop: (event) => this.dropped(event) });
    this.button = h("button", { type: "submit", "data-key": "plan" }, "Plan");
    this.message = h("p", { role: "status", class: "status" });
    this.answer = h("div", {});
    this.node = h("select", { id: "what-if-node", "data-key": "node" });
    const add = (verb) => h("button", { type: "button", "data-key": verb, onclick: () => this.node.value && this.add(`--${verb} ${this.node.value}`) }, verb);
    this.form = h("form", { onsubmit: (event) => { event.preventDefault(); this.plan(); } },
      h("div", { class: "fields" },
        h("div", {}, h("label", { for: "what-if-manifests" }, "Manifests to add: paste YAML or JSON, or drop a file"), this.manifests),
        h("div", {}, h("label", { for: "what-if-changes" }, "Changes, as options of ", h("code", {}, "reprieve plan"), ", one a line"), this.flags,
          h("p", { class: "buttons" }, h("label", { for: "what-if-node" }, "Node "), this.node, add("drain"), add("cordon"), add("remove-node"),
            h("button", { type: "button", "data-key": "add", onclick: () => this.node.value && this.add(`--add-nodes 1 --like ${this.node.value}`) }, "add one like it")))),
      h("p", { class: "buttons" }, this.button, h("button", { type: "button", "data-key": "clear", onclick: () => { this.flags.value = this.manifests.value = ""; } }, "Clear"),
        h("span", { class: "quiet" }, " Nothing in the cluster is changed. What waits already is planned too.")));
    this.element = h("div", {}, ask ? this.form : null, this.message, this.answer);
  }

  show(whole) {
    const chosen = this.node.value;
    const names = whole.cluster.nodes.names;
    if (names.join() !== this.names) {
      this.names = names.join();
      put(this.node, names.map((name) => h("option", { value: name, selected: name === chosen }, name)));
    }
  }

  // Changes that the plan has tried for what still waits: moves of running pods, nodes, priorities and others.
  suggestions(planned) {
    const helped = planned.queue.filter((item) => item.help.some((help) => help.flags.length));
    if (!helped.length) return null;
    return [h("h2", {}, "What would help"), h("ul", {}, helped.slice(0, MOST_HELPED).map((item) => item.help.filter((help) => help.flags.length).map((help) => h("li", {},
      `${item.namespace}/${item.name}: ${help.sentence} `, h("button", { type: "button", onclick: () => this.plan([...this.flags.value.split("\n").filter(Boolean), ...help.flags]) }, "Try it"))))),
    helped.length > MOST_HELPED && h("p", { class: "quiet" }, `${MOST_HELPED} of ${helped.length} workloads shown; the text below has all.`)];
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
      const map = new ClusterView({ actions: () => [] });
      put(this.answer, this.suggestions(planned), h("h2", {}, "After the change"), h("pre", { class: "answer", tabindex: "0" }, planned.text), map.element);
      map.show(planned);
    } catch (error) {
      put(this.answer);
      this.message.textContent = error.message;
    } finally {
      this.button.disabled = false;
    }
  }
}
