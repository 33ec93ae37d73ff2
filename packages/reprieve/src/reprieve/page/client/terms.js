// What the words mean, where they stand and in the legend.
import { h } from "./dom.js";

export const TERMS = {
  workload: "Pods that belong together: a pod group, or else what one controller made, or else a single pod.",
  gang: "A pod group that is placed with at least its minimum of pods, or not at all.",
  unit: "What is evicted as one: a gang with disruptionMode all, or else a single pod.",
  priority: "Workloads with a higher number are tried first, and may evict those with a lower one.",
  evicted: "Deleted by the scheduler to free capacity for a workload of higher priority.",
  spared: "A workload of lower priority that was kept, because everything still fits with it. Also called reprieved.",
  nominated: "Capacity is reserved here for a preemptor with terminating victims.",
  cordoned: "Marked unschedulable: no new pods are placed here.",
  tainted: "Only pods that tolerate the taint are placed here.",
  draining: "Cordoned, and a pod on it is terminating.",
  reserved: "Capacity is reserved here for a workload that has been pending for long.",
  backfill: "A pod that uses reserved capacity until its holder starts.",
  placed: "Pending before the plan, running after it.",
  terminating: "Being deleted: it still uses its capacity.",
  degraded: "A gang that was scheduled and now has fewer pods than its minimum.",
  "smallest change": "The smallest change that would let it run. Try it with What if, or with the command reprieve plan.",
  "lost GPU-hours": "Work since the last checkpoint or the start, times GPUs.",
  "budget violations": "Evicted pods that a PodDisruptionBudget protects.",
  "acting scheduler": "The scheduler that runs the cluster.",
  shadow: "Decides about the same pods at the same time, and writes nothing.",
  makespan: "The time at which the last job ended.",
  "useful GPU-hours": "GPU-hours of work that was not lost later.",
  "restart GPU-hours": "GPU-hours that jobs spent on restarts.",
  "gangs with their minimum": "The share of the time from their first start to their end in which gangs had their minimum of pods.",
  done: "Jobs that ran to their end.",
  unfinished: "Jobs that were running or pending when the replay ended.",
  "never started": "Jobs that had not started when the replay ended.",
  "reserved idle": "GPU-time in which GPUs were free and reserved.",
  "evicted runs": "The share of the runs of jobs that an eviction ended.",
  "evictions of an evicted job": "The mean number of evictions of the jobs that were evicted.",
  "most evictions of a job": "The number of evictions of the job that was evicted most often.",
  moves: "Workloads that are evicted to run on other nodes, so that a pending workload fits.",
  "runs lost to nodes": "Runs that ended because their node failed.",
  "fragmentation, waiting": "The share of the free GPUs that pending tasks cannot use, at times with pending tasks.",
  "fragmentation, workload": "The share of the free GPUs that the tasks of the whole list cannot use.",
  decisions: "How often the scheduler has decided about a pod or a gang.",
  p50: "Half of the values are at most this.",
  p90: "Nine of ten values are at most this.",
  p99: "99 of 100 values are at most this.",
  stay: "The time of a pod on a node, from its start to its end there.",
  slowdown: "The time from submission to end, divided by the time that the job ran. 1 is the best.",
  goodput: "The share of the cluster's GPU-time in which work was done that was not lost later.",
  fragmentation: "The share of the free GPUs that the tasks of the list cannot use.",
  waiting: "The time from submission to the first start.",
  "GPUs allocated": "The share of the cluster's GPU-time that jobs hold.",
  completion: "The time from submission to end.",
};

export const WHY = {
  Active: "It has not been tried yet.",
  Ready: "It fits now.",
  Preempting: "Its victims are terminating; it starts when they have ended.",
  Priority: "With a higher priority it would fit or preempt.",
  Resources: "Not enough capacity is free.",
  Constraints: "Nodes that are large enough may not take it: selector, affinity, taints, cordon, ports or volumes.",
  Backoff: "It is pending until its next attempt, or until it may preempt.",
  Gated: "It is not tried: it has a scheduling gate, or lacks members.",
};

export function term(name, text = name) {
  return h("dfn", { title: TERMS[name] }, text);
}

export function glossary(names) {
  return h("dl", { class: "terms" }, names.map((name) => h("div", {}, h("dt", {}, name), h("dd", {}, TERMS[name] ?? WHY[name]))));
}
