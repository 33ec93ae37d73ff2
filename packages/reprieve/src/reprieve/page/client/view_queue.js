// Pending workloads, why they are pending, and the smallest change that would let it run.
import { count, cutList, duration, h, number, put, time, withOptions } from "./dom.js";
import { WHY, term } from "./terms.js";

const MOST_ITEMS = 100;

export class QueueView {
  // `onTry`: plans with changes; `suffix()`: what links end with that stay in the past; `answers()`: there is a What if,
  // whose plans find what helps: the hints here were not tried.
  constructor({ onTry, suffix, answers }) {
    Object.assign(this, { onTry, suffix, answers });
    this.list = h("div", {});
    this.detail = h("section", { class: "detail", "aria-label": "Explanation", tabindex: "-1" });
    this.reserved = h("div", {});
    this.element = h("div", { class: "two" }, h("div", {}, this.list, this.reserved), h("div", { class: "side" }, this.detail));
  }

  show(whole, chosen) {
    this.document = whole;
    this.chosen = chosen;
    const shown = whole.queue.slice(0, this.all ? whole.queue.length : MOST_ITEMS);
    put(this.list, whole.queue.length === 0 ? h("p", {}, "The queue is empty.") : [
      h("p", { class: "quiet" }, "In the order in which they will be tried; what is gated comes last."),
      shown.length < whole.queueTotal && h("p", { class: "quiet" }, `${number(shown.length)} of ${count(whole.queueTotal, "item")} shown. `,
        whole.queue.length < whole.queueTotal && [h("code", {}, "reprieve queue"), " lists all of a running cluster. "],
        shown.length < whole.queue.length && h("button", { type: "button", "data-key": "all", onclick: () => { this.all = true; this.show(whole, this.chosen); } }, "Show more")),
      h("ol", { class: "cards" }, shown.map((item) => this.card(item)))]);
    this.showReserved();
    this.showDetail();
  }

  card(item) {
    const link = href(item);
    const current = this.chosen === link;
    const name = item.name ? `${item.namespace}/${item.name}` : `hidden ${item.kind}`;
    return h("li", { class: current ? "card current" : "card", value: item.position },
      h("h2", {}, h("span", { class: "place" }, `${number(item.position)}. `), item.name ? h("a", { href: `${link}${this.suffix()}`, "data-key": link, "aria-current": current ? "true" : null }, name) : name),
      h("p", {}, item.why && h("dfn", { title: WHY[item.why], class: `why why-${item.why}` }, item.why),
        h("span", { class: "quiet" }, ` ${item.kind} · `, term("priority"), ` ${item.priority}${item.pods ? ` · ${count(item.pods, "pod")}` : ""}${item.since ? ` · ${this.since(item.since)}` : ""}`)),
      item.evicts.length > 0 && h("p", {}, term("evicted", "evicts"), `: ${item.evicts.join(", ")}`),
      item.reserved && h("p", {}, item.reserved),
      item.requested && h("p", {}, item.requested),
      item.help.length > 0 && h("p", { class: "help" }, h("span", { class: "quiet" }, term("smallest change"), ": "), withOptions(item.help[0].sentence), " ", this.tryButton(item, item.help[0])));
  }

  since(text) {
    const seconds = (new Date(this.document.time) - new Date(text)) / 1000;
    return Number.isFinite(seconds) && seconds >= 0 ? `pending for ${duration(seconds)}` : `since ${time(text)}`;
  }

  tryButton(item, help) {
    if (!help.flags.length || this.document.past) return null;
    return h("button", { type: "button", "data-key": `try-${item.position}-${help.kind}`, onclick: () => this.onTry(help.flags, item) }, "Try it");
  }

  showReserved() {
    const { reservations, cluster } = this.document;
    put(this.reserved, reservations.length > 0 && [h("h2", {}, "Reserved capacity"), h("ul", { class: "cards" }, reservations.map((held) => h("li", { class: "card" },
      h("h3", {}, held.holder.name ? `${held.holder.namespace}/${held.holder.name}` : `hidden ${held.holder.kind}, priority ${held.holder.priority}`),
      h("p", {}, held.expectedStart ? `Expected start ${time(held.expectedStart)}.` : `No expected start: ${held.message}.`),
      held.nodes.length > 0 && h("p", {}, term("reserved", "On"), ` ${held.nodes.join(", ")}.`),
      held.waitsFor.length > 0 && h("p", {}, `Waits for ${held.waitsFor.join(", ")}.`),
      held.backfill && h("p", {}, term("backfill", "Backfill"), `: ${held.backfill}. ${backfillers(cluster, held)}`))))]);
  }

  showDetail() {
    const item = this.document.queue.find((one) => one.name && href(one) === this.chosen);
    if (!item) {
      put(this.detail, h("h2", {}, "Explain"), h("p", { class: "quiet" }, "Choose a workload to see why it is pending."));
      return;
    }
    const record = this.document.records.find((one) => one.entity.namespace === item.namespace && one.entity.name === item.name && one.entity.kind === item.kind);
    put(this.detail, h("h2", {}, `${item.namespace}/${item.name}`),
      h("p", {}, h("b", {}, item.why), `: ${WHY[item.why] ?? ""}`),
      item.message && h("p", {}, h("span", { class: "quiet" }, "In kube-scheduler's words: "), item.message),
      record && recordFacts(record),
      record?.preemption && h("p", {}, h("a", { href: `#/decisions/${record.id}${this.suffix()}` }, "Its preemption")),
      item.help.length > 0 && [h("h3", {}, "What would help"), h("ul", {}, item.help.map((help) => h("li", {}, withOptions(help.sentence), " ", this.tryButton(item, help))))],
      this.answers() && item.why !== "Gated" && h("p", { class: "buttons" }, h("button", { type: "button", "data-key": "plan-now", onclick: () => this.onTry([]) }, "Find what would help"), h("span", { class: "quiet" }, "plans the cluster as it is, and tries changes")),
      h("p", { class: "quiet" }, "As text: ", h("code", {}, `reprieve explain ${item.kind.toLowerCase()}/${item.name} -n ${item.namespace}`)));
  }
}

export function href(item) {
  return `#/queue/${[item.kind, item.namespace, item.name].map(encodeURIComponent).join("/")}`;
}

// Pods that came to the nodes of a reservation after it was made.
function backfillers(cluster, held) {
  const nodes = new Set(held.nodes);
  const names = [];
  cluster.pods.nodes.forEach((node, pod) => {
    if (node >= 0 && cluster.pods.flags[pod] & 8 && nodes.has(cluster.nodes.names[node])) names.push(cluster.pods.names[pod]);
  });
  return names.length ? `Now: ${names.join(", ")}.` : "No pod uses it now.";
}

export function recordFacts(record) {
  const { members, reasons, inVain, waits, lack } = record;
  return [
    h("p", { class: "quiet" }, `Attempt ${record.attempt}, ${time(record.time)}`),
    members && h("p", {}, `${members.placed} of ${count(members.tried, "pod")} fit; the minimum is ${members.minCount ?? 0}.`),
    reasons?.length > 0 && [h("h3", {}, "Why nodes do not fit"), h("ul", {}, reasons.map((reason) => h("li", {}, `${count(reason.nodes, "node")}: ${reason.reason}`)))],
    lack?.closest && h("p", {}, `Closest: ${lack.closest.names.join(", ")}${lack.closest.nodes > lack.closest.names.length ? ` and ${lack.closest.nodes - lack.closest.names.length} more` : ""} lack ${Object.entries(lack.closest.missing).map(([name, amount]) => `${amount} ${name}`).join(", ")}.`),
    lack?.tooBig?.map((asked) => h("p", {}, `One pod asks for ${asked.asked} ${asked.resource}${asked.orMore ? " or more" : ""}; the largest node has ${asked.largest}.`)),
    waits && h("p", {}, h("b", {}, waits.reason === "EvictionLimit" ? "A limit of evictions was reached: " : "Deferred: "), waits.message, waits.until && ` Until ${time(waits.until)}.`),
    inVain && [h("h3", {}, "Preemption would not help"), h("p", {}, `${FAILED[inVain.reason] ?? inVain.reason} It could evict ${count(inVain.potentialVictims ?? 0, "workload")}${inVain.considered?.length ? ":" : "."}`),
      inVain.considered?.length > 0 && cutList(inVain.considered, 10, (unit) => h("p", {}, `${unit.unit || `hidden ${unit.kind}`}, priority ${unit.priority}`), "potential victim")],
  ];
}

const FAILED = {
  NoLowerPriority: "No running workload has a lower priority.",
  Protected: "All running workloads of lower priority are protected from eviction now.",
  DoesNotFit: "It does not fit even if everything that it may evict is evicted.",
  NothingGained: "If everything that it may evict is evicted, no more of its pods fit.",
  PreemptionPolicyNever: "It may not preempt.",
  UnderWay: "Earlier victims are still terminating.",
  Budgets: "PodDisruptionBudgets protect the workloads that would be evicted.",
  Error: "A plugin failed.",
};
