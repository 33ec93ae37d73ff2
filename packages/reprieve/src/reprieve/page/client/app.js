// The page: views by the address, the sentence of each, and where the document comes from.
import { commandText, h, put, time, withOptions } from "./dom.js";
import { FileSource, LiveSource } from "./source.js";
import { glossary } from "./terms.js";
import { ClusterView } from "./view_cluster.js";
import { DecisionsView } from "./view_decisions.js";
import { QueueView } from "./view_queue.js";
import { ReplayView } from "./view_replay.js";
import { ShadowView } from "./view_shadow.js";
import { WhatIfView, inputNotes } from "./view_whatif.js";

const NAMES = { cluster: "Cluster", queue: "Queue", decisions: "Decisions", whatif: "What if", plan: "Plan", replay: "Replay", shadow: "Shadow" };
const WORDS = {
  cluster: ["workload", "gang", "priority", "nominated", "degraded"],
  queue: ["workload", "gang", "priority", "smallest change", "reserved", "backfill", "Active", "Ready", "Preempting", "Priority", "Resources", "Constraints", "Backoff", "Gated"],
  decisions: ["unit", "gang", "evicted", "spared", "priority", "nominated", "lost GPU-hours", "budget violations"],
  whatif: ["workload", "gang", "evicted", "cordoned", "draining"],
  plan: ["workload", "gang", "evicted", "spared", "smallest change"],
  replay: ["waiting", "completion", "slowdown", "p50", "p90", "p99", "GPUs allocated", "goodput", "useful GPU-hours", "lost GPU-hours", "restart GPU-hours", "reserved idle", "gangs with their minimum", "evicted", "unit", "evicted runs", "evictions of an evicted job", "most evictions of a job", "moves", "runs lost to nodes", "fragmentation, waiting", "fragmentation, workload", "makespan", "decisions", "stay"],
  shadow: ["acting scheduler", "shadow", "gang", "priority", "evicted", "lost GPU-hours"],
};

// Of a file: the document is in the page, which is emptied when the views are made.
const EMBEDDED = document.getElementById("page-document");

class PlanView {
  constructor() {
    this.element = h("div", {});
  }

  show(whole) {
    put(this.element, inputNotes(whole), commandText(whole.text));
  }
}

class Page {
  constructor() {
    this.sentence = h("h1", { id: "sentence", tabindex: "-1" }, "Reading the cluster …");
    this.nav = h("nav", { "aria-label": "Views" });
    this.state = h("div", { class: "state" });
    this.place = h("div", { class: "view" });
    this.terms = h("section", { class: "words", "aria-label": "Terms" });
    this.news = h("p", { class: "sr", role: "status" });
    document.body.replaceChildren(
      h("a", { href: "#sentence", class: "skip", onclick: (event) => { event.preventDefault(); this.sentence.focus(); } }, "Skip to the view"),
      h("header", {}, h("span", { class: "brand" }, "reprieve"), this.nav, this.state),
      h("main", {}, this.sentence, this.place), this.terms, this.news);
    addEventListener("hashchange", () => this.moved());
  }

  async start() {
    if (EMBEDDED) {
      this.source = new FileSource(EMBEDDED);
      return this.source.start((whole) => this.show(whole));
    }
    this.source = new LiveSource((kind, text) => this.report(kind, text));
    this.source.at = this.wantedTime();
    const started = this.source.start((whole) => this.show(whole));
    if (this.source.at) this.moved(true);
    return started;
  }

  // "#/decisions/7@2026-01-31T12:00:00Z": the view, and the time as of which it is shown.
  wantedTime() {
    return location.hash.includes("@") ? decodeURIComponent(location.hash.slice(location.hash.indexOf("@") + 1)) : null;
  }

  async moved(first = false) {
    const at = this.source.live ? this.wantedTime() : null;
    if (this.source.live && (first || at !== this.source.at)) {
      try {
        await this.source.travel(at);
      } catch (error) {
        this.source.at = null;
        history.replaceState(null, "", location.hash.split("@")[0]);
        if (!this.document) await this.source.load();
        this.render(true);
        this.say(error.message);
        return;
      }
    }
    this.render(true);
  }

  views() {
    const { document: whole } = this;
    if (whole.past) return ["cluster", "queue", "decisions"];
    if (whole.replay) return ["replay"];
    if (whole.shadow) return whole.cluster ? ["shadow", "cluster", "queue", "decisions"] : ["shadow"];
    if (whole.plan) return ["cluster", "plan", "queue", "decisions"];
    return this.source.live ? ["cluster", "queue", "decisions", "whatif"] : ["cluster", "queue", "decisions"];
  }

  view(name) {
    this.made ??= {};
    return (this.made[name] ??= {
      cluster: () => new ClusterView({ actions: (node, group) => this.nodeActions(node, group) }),
      plan: () => new PlanView(),
      queue: () => new QueueView({ onTry: (flags) => this.tryFlags(flags), suffix: () => this.suffix(), answers: () => this.views().includes("whatif") }),
      decisions: () => new DecisionsView({ onShow: (record) => this.showOnMap(record), suffix: () => this.suffix(), live: this.source.live }),
      whatif: () => new WhatIfView({ ask: (question) => this.source.whatIf(question) }),
      replay: () => new ReplayView(),
      shadow: () => new ShadowView(),
    }[name]());
  }

  nodeActions(node, group) {
    if (this.document.past) return [];
    const name = this.document.cluster.nodes.names[node];
    if (!this.views().includes("whatif")) return h("span", { class: "quiet" }, "Without it: ", h("code", {}, `reprieve plan --drain ${name}`));
    return [["what-if-drain", name, "What if it is drained?"], ["what-if-drain-group", group, `What if ${group} is drained?`]].map(([key, nodes, text]) => nodes && h("button", { type: "button", "data-key": key, onclick: () => this.tryFlags([`--drain ${nodes}`]) }, text));
  }

  tryFlags(flags) {
    if (!this.views().includes("whatif")) {
      this.news.textContent = "";
      this.say(`Run: reprieve plan ${flags.join(" ")}`);
      return;
    }
    location.hash = "#/whatif";
    this.view("whatif").show(this.document);
    this.view("whatif").plan(flags);
  }

  showOnMap(record) {
    location.hash = `#/cluster${this.suffix()}`;
    this.render();
    const { kind, namespace, name } = record.entity;
    const view = this.view("cluster");
    if (!view.light(kind, namespace, name)) this.say(`${name} is no longer in the cluster.`);
  }

  say(text) {
    this.notice.textContent = text;
  }

  show(whole) {
    this.document = whole;
    this.render();
  }

  render(moved = false) {
    const { document: whole } = this;
    if (!whole) return;
    const names = this.views();
    const [path] = location.hash.split("@");
    const wanted = path.split("/")[1];
    const name = names.includes(wanted) ? wanted : names[0];
    put(this.nav, names.map((one) => h("a", { href: `#/${one}${this.suffix()}`, "data-key": `nav-${one}`, "aria-current": one === name ? "page" : null }, this.label(one))));
    const sentence = whole.sentences[name] ?? "";
    if (this.sentence.textContent !== sentence) put(this.sentence, withOptions(sentence));
    document.title = `${NAMES[name]} · reprieve`;
    const view = this.view(name);
    if (this.current !== name) {
      this.current = name;
      put(this.place, view.element);
      put(this.terms, h("h2", {}, "Terms"), glossary(WORDS[name]));
    }
    view.show(whole, path);
    this.showState();
    if (moved && document.activeElement === document.body) this.sentence.focus({ preventScroll: true });
  }

  suffix() {
    return this.document.past && this.source.at ? `@${this.source.at}` : "";
  }

  label(name) {
    const { queueTotal } = this.document;
    return name === "queue" && queueTotal ? `${NAMES[name]} ${queueTotal}` : NAMES[name];
  }

  showState() {
    this.notice = h("span", { role: "status" });
    const { source, document: whole } = this;
    put(this.state, this.notice, whole.past && h("a", { href: `#/${this.current}`, "data-key": "now" }, "Back to now"), whole.time && h("span", { class: "quiet" }, `as of ${time(whole.time)}`),
      !whole.complete && h("span", { class: "quiet" }, " · some namespaces are hidden"),
      source.live && !whole.past && h("button", { type: "button", "data-key": "pause", "aria-pressed": String(source.paused), onclick: () => this.pause() }, source.paused ? "Resume" : "Pause"));
  }

  async pause() {
    const { source } = this;
    if (source.paused) await source.resume();
    else source.paused = true;
    this.showState();
  }

  report(kind, text) {
    document.body.dataset.state = kind;
    if (kind === "refused") this.askToken(text);
    else if (kind !== "live" && this.notice) this.say(kind === "lost" ? `Connection lost: ${text} ` : text);
    else if (kind === "lost") this.sentence.textContent = `The scheduler does not answer: ${text}`;
  }

  askToken(text) {
    this.sentence.textContent = text;
    const field = h("input", { type: "password", id: "token", autocomplete: "off", size: "40" });
    put(this.place, h("form", { class: "token", onsubmit: (event) => { event.preventDefault(); this.source.setToken(field.value); this.current = null; this.source.start((whole) => this.show(whole)); } },
      h("label", { for: "token" }, "Bearer token "), field, h("button", { type: "submit" }, "Sign in"),
      h("p", { class: "quiet" }, "It is kept in this tab until it is closed. ", h("code", {}, "kubectl create token NAME"), " makes one.")));
    field.focus();
  }
}

new Page().start();
