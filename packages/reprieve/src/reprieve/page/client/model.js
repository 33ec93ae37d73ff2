// The tables of a cluster as typed arrays, with what follows from them: pods by node, blocks, colours.

export const NODE = { cordoned: 1, tainted: 2, nominated: 4, draining: 8, reserved: 16 };
export const POD = { leaving: 1, assumed: 2, victim: 4, backfills: 8, placed: 16 };

export class Cluster {
  // `victims`, `placed`: of a plan, by namespace and name; `also`: tables that have the same colours.
  constructor(tables, { victims = new Set(), placed = new Set(), also = null } = {}) {
    const { nodes, pods, workloads } = tables;
    this.block = tables.block;
    this.unit = tables.block.includes("gpu") ? "GPUs" : tables.block || "CPU";
    this.nodes = nodes;
    this.workloads = workloads;
    this.podsTotal = tables.podsTotal;
    this.podNames = pods.names;
    this.labelSets = pods.labelSets;
    for (const name of ["workloads", "nodes", "nominated", "blocks", "cpu", "flags", "labels"]) {
      this[`pod_${name}`] = Int32Array.from(pods[name], (value) => Math.min(value, 2 ** 31 - 1));
    }
    this.podStarts = pods.starts;
    this.podMemory = pods.memory;
    if (victims.size || placed.size) {
      for (let pod = 0; pod < this.podNames.length; pod++) {
        const key = `${workloads.namespaces[this.pod_workloads[pod]]}/${this.podNames[pod]}`;
        if (victims.has(key)) this.pod_flags[pod] |= POD.victim;
        if (placed.has(key) && this.pod_nodes[pod] >= 0) this.pod_flags[pod] |= POD.placed;
      }
    }
    this.byNode();
    this.colours(also?.workloads.priorities ?? []);
  }

  // Pods of each node in a row: pods of node n are order[first[n]] up to order[first[n + 1]].
  byNode() {
    const size = this.nodes.names.length;
    this.first = new Int32Array(size + 1);
    this.cpuUsed = new Float64Array(size);
    this.blocksUsed = new Int32Array(size);
    for (let pod = 0; pod < this.pod_nodes.length; pod++) {
      const node = this.pod_nodes[pod];
      if (node < 0) continue;
      this.first[node + 1]++;
      this.cpuUsed[node] += this.pod_cpu[pod];
      this.blocksUsed[node] += this.pod_blocks[pod];
    }
    for (let node = 0; node < size; node++) this.first[node + 1] += this.first[node];
    this.order = new Int32Array(this.first[size]);
    const next = this.first.slice();
    for (let pod = 0; pod < this.pod_nodes.length; pod++) {
      const node = this.pod_nodes[pod];
      if (node >= 0) this.order[next[node]++] = pod;
    }
  }

  // One hue for each priority, the highest first.
  colours(more) {
    this.priorities = [...new Set([...this.workloads.priorities, ...more])].sort((a, b) => b - a);
    const place = new Map(this.priorities.map((priority, at) => [priority, at]));
    this.byPriority = Int32Array.from(this.workloads.priorities, (priority) => place.get(priority));
    const names = new Map();
    this.byWorkload = Int32Array.from(this.workloads.names, (name, at) => {
      const key = `${this.workloads.namespaces[at]}/${name}`;
      if (!names.has(key)) names.set(key, names.size % 64);
      return names.get(key);
    });
    this.classes = new Map();
    this.workloads.classes.forEach((name, at) => {
      const priority = this.workloads.priorities[at];
      if (!this.classes.has(priority)) this.classes.set(priority, new Set());
      if (name) this.classes.get(priority).add(name);
    });
  }

  podsOf(node) {
    return this.order.subarray(this.first[node], this.first[node + 1]);
  }

  // "default/train", or what may be seen of it.
  workloadName(workload) {
    const name = this.workloads.names[workload];
    if (!name) return `hidden ${this.workloads.kinds[workload]}, priority ${this.workloads.priorities[workload]}`;
    return `${this.workloads.namespaces[workload]}/${name}`;
  }

  podName(pod) {
    return this.podNames[pod] || "hidden pod";
  }

  className(priority) {
    const names = [...(this.classes.get(priority) ?? [])];
    return names.length ? `${names.join(", ")} (${priority})` : `priority ${priority}`;
  }

  findWorkload(kind, namespace, name) {
    const { kinds, namespaces, names } = this.workloads;
    for (let at = 0; at < names.length; at++) {
      if (names[at] === name && namespaces[at] === namespace && (!kind || kinds[at] === kind)) return at;
    }
    return -1;
  }
}

// "name", "key=value,other!=value", "priority>=100": pods and nodes that match, or null where the text is empty.
export function search(cluster, text) {
  const query = text.trim();
  if (!query) return null;
  const pods = new Uint8Array(cluster.podNames.length);
  const nodes = new Uint8Array(cluster.nodes.names.length);
  const byPriority = /^priority\s*(>=|<=|=|>|<)\s*(-?\d+)$/i.exec(query);
  const bySelector = requirements(query);
  if (byPriority) {
    const wanted = Number(byPriority[2]);
    const holds = { ">=": (p) => p >= wanted, "<=": (p) => p <= wanted, "=": (p) => p === wanted, ">": (p) => p > wanted, "<": (p) => p < wanted }[byPriority[1]];
    markPods(cluster, pods, (pod) => holds(cluster.workloads.priorities[cluster.pod_workloads[pod]]));
  } else if (bySelector) {
    const holds = (label) => bySelector.every(([key, equal, value]) => (label(key) === value) === equal);
    markPods(cluster, pods, (pod) => cluster.pod_labels[pod] >= 0 && holds((key) => cluster.labelSets[cluster.pod_labels[pod]][key]));
    const known = bySelector.every(([key]) => cluster.nodes.labels[key]); // those by which nodes can be grouped
    const labelOf = (node, key) => cluster.nodes.labels[key].values[cluster.nodes.labels[key].of[node]];
    if (known) for (let node = 0; node < nodes.length; node++) nodes[node] = holds((key) => labelOf(node, key)) ? 1 : 0;
  } else {
    const part = query.toLowerCase();
    markPods(cluster, pods, (pod) => cluster.podNames[pod].toLowerCase().includes(part)
      || cluster.workloadName(cluster.pod_workloads[pod]).toLowerCase().includes(part));
    for (let node = 0; node < nodes.length; node++) nodes[node] = cluster.nodes.names[node].toLowerCase().includes(part) ? 1 : 0;
  }
  return { pods, nodes };
}

// Of a label selector: [key, whether it is to be equal, value]; null where the text is none.
function requirements(query) {
  const parts = query.split(",").map((part) => /^\s*([^=!<>\s]+)\s*(!=|==?)\s*(\S*)\s*$/.exec(part));
  return parts.every(Boolean) ? parts.map(([, key, operator, value]) => [key, operator !== "!=", value]) : null;
}

function markPods(cluster, pods, matches) {
  for (let pod = 0; pod < pods.length; pod++) pods[pod] = matches(pod) ? 1 : 0;
}

// The workload of a unit of a record, `namespace/name` of a group or of a pod; -1 if it no longer exists.
export function workloadOfUnit(cluster, kind, unit) {
  const [namespace, name] = unit.split("/");
  const own = cluster.findWorkload(kind, namespace, name);
  if (own >= 0 || kind !== "Pod") return own;
  const pod = cluster.podNames.findIndex((podName, at) => podName === name
    && cluster.workloads.namespaces[cluster.pod_workloads[at]] === namespace);
  return pod >= 0 ? cluster.pod_workloads[pod] : -1;
}
