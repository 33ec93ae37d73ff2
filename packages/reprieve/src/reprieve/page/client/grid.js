// Nodes on a canvas, in groups. It is drawn larger than the view. Panning and zooming move and scale what is drawn, as
// the browser composes the page, and nothing is drawn again until they end; a second canvas above it, which moves with
// it, has what is pointed at.
import { count } from "./dom.js";
import { NODE, POD } from "./model.js";
import { drawPattern, look, textHeight, theme } from "./palette.js";

const BLOCK = 12;
const GAP = 2;
const NAME = 11;
const CPU_BAR = 3;
const PAD = 8;
const TITLE = 20;
const WIDTH = 4 * (BLOCK + GAP);
const MARGIN = 0.5;
const SETTLED = 150; // milliseconds without a move, after which the scene is drawn as it is shown

// Places of nodes in world units: {groups: [{title, x, y, width, height, nodes, columns}], width, height, ...}.
export function layout(cluster, key, aspect) {
  const size = cluster.nodes.names.length;
  const most = Math.max(1, ...cluster.nodes.blocks);
  const rows = Math.max(1, Math.ceil(Math.min(most, 64) / 4));
  const cell = { width: WIDTH + PAD, height: NAME + rows * (BLOCK + GAP) + CPU_BAR + PAD, rows };
  const column = cluster.nodes.labels[key];
  const members = new Map();
  for (let node = 0; node < size; node++) {
    const value = column ? column.values[column.of[node]] ?? "" : "";
    if (!members.has(value)) members.set(value, []);
    members.get(value).push(node);
  }
  const values = [...members.keys()].sort((a, b) => (a === "") - (b === "") || a.localeCompare(b, "en", { numeric: true }));
  const groups = values.map((value) => {
    const nodes = members.get(value);
    const columns = columnsFor(nodes.length, Math.sqrt(nodes.length * cell.height / cell.width * (values.length === 1 ? aspect : 1.6)));
    const deep = Math.ceil(nodes.length / columns);
    return { value, nodes, columns, width: columns * cell.width + PAD * 2, height: deep * cell.height + TITLE + PAD, x: 0, y: 0 };
  });
  const area = groups.reduce((sum, group) => sum + (group.width + PAD) * (group.height + PAD), 0);
  const wide = Math.max(Math.sqrt(area * aspect) * 1.05, ...groups.map((group) => group.width + PAD));
  let x = 0, y = 0, high = 0, width = 0;
  for (const group of groups) {
    if (x > 0 && x + group.width > wide) { x = 0; y += high + PAD; high = 0; }
    group.x = x; group.y = y;
    x += group.width + PAD;
    high = Math.max(high, group.height);
    width = Math.max(width, x);
  }
  const places = new Float32Array(size * 2);
  for (const group of groups) {
    group.nodes.forEach((node, at) => {
      places[2 * node] = group.x + PAD + (at % group.columns) * cell.width;
      places[2 * node + 1] = group.y + TITLE + Math.floor(at / group.columns) * cell.height;
    });
  }
  return { key, groups, places, cell, width, height: y + high };
}

// So many columns, or nearly, that the last row is as full as can be.
function columnsFor(size, wanted) {
  let best = size, least = Infinity;
  for (let columns = Math.max(1, Math.floor(wanted) - 1); columns <= Math.min(size, Math.ceil(wanted) + 2); columns++) {
    const waste = Math.ceil(size / columns) * columns - size + Math.abs(columns - wanted) / 10;
    if (waste < least) { least = waste; best = columns; }
  }
  return best;
}

export class Grid {
  // `overlay`: what takes the pointer, above the scene, which is added before it.
  constructor(overlay, { onPoint, onPick }) {
    this.overlay = overlay;
    this.onPoint = onPoint;
    this.onPick = onPick;
    this.scene = document.createElement("canvas");
    this.lights = document.createElement("canvas");
    this.moving = document.createElement("div");
    this.moving.className = "moving";
    this.moving.setAttribute("aria-hidden", "true");
    this.moving.append(this.scene, this.lights);
    overlay.before(this.moving);
    this.width = this.height = 0;
    this.colour = "priority";
    this.key = "";
    this.lit = null;
    this.selected = -1;
    this.pointers = new Map();
    this.frame = 0;
    this.listen();
    new ResizeObserver(() => this.resize()).observe(overlay.parentElement);
  }

  show(cluster, key, colour) {
    const fresh = !this.cluster || key !== this.key || cluster.nodes.names.length !== this.cluster.nodes.names.length;
    this.cluster = cluster;
    this.key = key;
    this.colour = colour;
    this.theme = theme();
    if (fresh) this.arrange();
    this.drawn = null;
    this.draw();
  }

  arrange() {
    this.layout = layout(this.cluster, this.key, Math.max(0.3, this.width / Math.max(1, this.height)));
    this.fit();
  }

  fit() {
    const { width, height } = this;
    if (!this.layout || !width) return;
    this.scale = Math.min(3 * Math.max(1, width / 1200), (width - 16) / this.layout.width, (height - 16) / this.layout.height);
    this.x = (width - this.layout.width * this.scale) / 2;
    this.y = Math.max(8, (height - this.layout.height * this.scale) / 2);
    this.drawn = null;
    this.draw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.overlay.parentElement;
    this.ratio = window.devicePixelRatio || 1;
    this.text = Math.max(13, textHeight()); // pixels at most, as the page's text grows on large screens
    this.width = clientWidth;
    this.height = clientHeight;
    for (const canvas of [this.scene, this.lights]) {
      canvas.style.width = `${clientWidth * (1 + 2 * MARGIN)}px`;
      canvas.style.height = `${clientHeight * (1 + 2 * MARGIN)}px`;
      canvas.width = Math.round(clientWidth * (1 + 2 * MARGIN) * this.ratio);
      canvas.height = Math.round(clientHeight * (1 + 2 * MARGIN) * this.ratio);
    }
    if (!this.cluster) return;
    this.arrange();
    this.paint(); // a new size empties the canvas: never show that
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(8, Math.max(0.02, this.scale * factor));
    this.x = x - (x - this.x) * scale / this.scale;
    this.y = y - (y - this.y) * scale / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.draw();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  // Moves what is drawn, and draws it again where it does not reach, and when all has settled.
  paint() {
    if (!this.layout || !this.width) return;
    clearTimeout(this.settling);
    if (!this.place()) {
      this.render();
      this.place();
    } else if (this.drawn.x !== this.x || this.drawn.y !== this.y || this.drawn.scale !== this.scale) {
      this.settling = setTimeout(() => { this.drawn = null; this.draw(); }, SETTLED);
    }
    if (this.relit) this.paintLights();
  }

  // Puts the scene where it belongs now; whether it reaches over the whole view, and is sharp enough.
  place() {
    const { drawn, width, height, ratio } = this;
    if (!drawn) return false;
    const factor = this.scale / drawn.scale;
    const left = this.x - (drawn.x + width * MARGIN) * factor, top = this.y - (drawn.y + height * MARGIN) * factor;
    const right = left + width * (1 + 2 * MARGIN) * factor, bottom = top + height * (1 + 2 * MARGIN) * factor;
    if (left > 0 || top > 0 || right < width || bottom < height || factor > 2) return false;
    const whole = (value) => Math.round(value * ratio) / ratio;
    this.moving.style.transform = `translate(${whole(left)}px, ${whole(top)}px)${factor === 1 ? "" : ` scale(${factor})`}`;
    return true;
  }

  // Leads from the coordinates of a scaled world to those of a canvas; what of the world it shows.
  open(canvas, options) {
    const { width, height, ratio, scale } = this, context = canvas.getContext("2d", options);
    context.setTransform(ratio, 0, 0, ratio, (this.x + width * MARGIN) * ratio, (this.y + height * MARGIN) * ratio);
    const left = (-this.x - width * MARGIN) / scale, top = (-this.y - height * MARGIN) / scale;
    const right = left + width * (1 + 2 * MARGIN) / scale, bottom = top + height * (1 + 2 * MARGIN) / scale;
    return { context, view: { left, top, right, bottom } };
  }

  render() {
    this.drawn = { x: this.x, y: this.y, scale: this.scale };
    this.relit = true;
    const { context, view } = this.open(this.scene, { alpha: false });
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.theme.paper;
    context.fillRect(0, 0, this.scene.width, this.scene.height);
    context.restore();
    for (const group of this.layout.groups) {
      if (group.x > view.right || group.x + group.width < view.left || group.y > view.bottom || group.y + group.height < view.top) continue;
      this.renderGroup(context, group, view);
    }
  }

  renderGroup(context, group, view) {
    const s = this.scale, { cell } = this.layout;
    context.strokeStyle = this.theme.line;
    context.lineWidth = 1;
    context.strokeRect(group.x * s, group.y * s, group.width * s, group.height * s);
    if (group.width * s > 34 && TITLE * s > 7) {
      context.fillStyle = this.theme.ink;
      context.font = `600 ${Math.min(this.text, Math.max(9, 12 * s))}px system-ui,sans-serif`;
      context.textBaseline = "middle";
      context.fillText(fitting(context, this.titles(group), (group.width - PAD) * s), (group.x + PAD) * s, (group.y + TITLE / 2) * s);
    }
    for (const node of group.nodes) {
      const x = this.layout.places[2 * node], y = this.layout.places[2 * node + 1];
      if (x > view.right || x + cell.width < view.left || y > view.bottom || y + cell.height < view.top) continue;
      this.renderNode(context, node, x * s, y * s);
    }
  }

  // What a group is called, the longest first.
  titles(group) {
    const { cluster } = this;
    const name = group.value || (this.key ? "no value" : "all nodes");
    const total = group.nodes.reduce((sum, node) => sum + cluster.nodes.blocks[node], 0);
    const used = group.nodes.reduce((sum, node) => sum + cluster.blocksUsed[node], 0);
    if (!total) return [`${name}: ${count(group.nodes.length, "node")}`, `${name}: ${group.nodes.length}`];
    return [`${name}: ${used} of ${total} ${cluster.unit} in use`, `${name}: ${used}/${total}`];
  }

  renderNode(context, node, x, y) {
    const s = this.scale, { cluster, theme: colours } = this;
    const flags = cluster.nodes.flags[node];
    const top = y + NAME * s;
    const height = this.layout.cell.rows * (BLOCK + GAP) * s;
    if (s > 0.75) {
      context.fillStyle = colours.ink;
      context.font = `${Math.min(this.text - 1, 9 * s)}px system-ui,sans-serif`;
      context.textBaseline = "alphabetic";
      context.fillText(clipped(context, cluster.nodes.names[node], (WIDTH + PAD / 2) * s), x, top - 2.5 * s);
    }
    this.forBlocks(node, (bx, by, bw, bh, pod) => {
      if (pod < 0) {
        context.fillStyle = colours.free;
        context.fillRect(x + bx * s, top + by * s, bw * s, bh * s);
      } else this.renderPod(context, pod, x + bx * s, top + by * s, bw * s, bh * s);
    });
    if (cluster.nodes.blocks[node] > 0 && s > 0.4) {
      const share = cluster.nodes.cpu[node] ? Math.min(1, cluster.cpuUsed[node] / cluster.nodes.cpu[node]) : 0;
      context.fillStyle = colours.free;
      context.fillRect(x, top + height, (WIDTH - GAP) * s, 2 * s);
      context.fillStyle = colours.quiet;
      context.fillRect(x, top + height, (WIDTH - GAP) * s * share, 2 * s);
    }
    const edge = Math.min(2 * s, 3);
    if (flags) drawFlags(context, flags, x - edge, top - edge, (WIDTH - GAP) * s + 2 * edge, height - GAP * s + 2 * edge, colours);
  }

  renderPod(context, pod, x, y, width, height) {
    const { cluster } = this;
    const workload = cluster.pod_workloads[pod];
    const index = this.colour === "workload" ? cluster.byWorkload[workload] : cluster.byPriority[workload];
    const { fill, pattern } = look(index);
    const flags = cluster.pod_flags[pod];
    context.globalAlpha = flags & POD.leaving ? 0.45 : 1;
    context.fillStyle = fill;
    context.fillRect(x, y, width, height);
    drawPattern(context, pattern, x, y, width, height);
    context.globalAlpha = 1;
    if (flags & (POD.victim | POD.leaving)) cross(context, x, y, width, height, this.theme.ink, flags & POD.victim);
    if (flags & POD.placed && width > 5) ring(context, x, y, width, height, this.theme.ink);
    if (flags & POD.backfills && width > 5) {
      context.fillStyle = this.theme.paper;
      context.fillRect(x + width / 2 - 2, y + height / 2 - 2, 4, 4);
    }
  }

  // Calls back with the place of each block, or of each pod on a node without blocks, and its pod; -1: free.
  forBlocks(node, each) {
    const { cluster } = this;
    const total = Math.min(64, cluster.nodes.blocks[node]);
    const pods = cluster.podsOf(node);
    if (!total) {
      const cpu = Math.max(1, cluster.nodes.cpu[node]);
      const wide = WIDTH - GAP, high = this.layout.cell.rows * (BLOCK + GAP) - GAP;
      let at = 0;
      for (const pod of pods) {
        const share = Math.min(wide - at, cluster.pod_cpu[pod] / cpu * wide);
        if (share > 0) each(at, 0, share, high, pod);
        at += share;
      }
      if (at < wide) each(at, 0, wide - at, high, -1);
      return;
    }
    const tiny = this.scale < 0.35;
    let block = 0;
    const one = (pod) => {
      const gap = tiny ? 0.5 : GAP;
      each((block % 4) * (BLOCK + GAP), Math.floor(block / 4) * (BLOCK + GAP), BLOCK + GAP - gap, BLOCK + GAP - gap, pod);
      block++;
    };
    for (const pod of pods) for (let left = cluster.pod_blocks[pod]; left > 0 && block < total; left--) one(pod);
    while (block < total) one(-1);
  }

  // -- what is pointed at, found or chosen ---------------------------------------------------------------------------

  light(lit) {
    if (lit === this.lit) return;
    this.lit = lit;
    this.relit = true;
    this.draw();
  }

  select(node, into = true) {
    this.selected = node;
    this.relit = true;
    if (node >= 0 && into && this.layout) {
      const x = this.layout.places[2 * node] * this.scale + this.x, y = this.layout.places[2 * node + 1] * this.scale + this.y;
      const { width, height } = this;
      if (x < 0 || x > width - 60 * this.scale) this.x += width / 2 - x;
      if (y < 0 || y > height - 40 * this.scale) this.y += height / 2 - y;
    }
    this.draw();
  }

  // `lit`: {pods: (pod) => boolean, nodes: (node) => boolean}; all else is dimmed. Drawn where the scene is drawn.
  paintLights() {
    this.relit = false;
    const now = { x: this.x, y: this.y, scale: this.scale };
    Object.assign(this, this.drawn);
    this.lights.hidden = !this.lit && this.selected < 0;
    if (this.lights.hidden) return void Object.assign(this, now);
    const { context } = this.open(this.lights);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.lights.width, this.lights.height);
    if (this.lit) {
      context.globalAlpha = 0.72;
      context.fillStyle = this.theme.paper;
      context.fillRect(0, 0, this.lights.width, this.lights.height);
    }
    context.restore();
    if (this.lit) this.paintLit(context);
    if (this.selected >= 0 && this.selected < this.cluster.nodes.names.length) {
      const { cell, places } = this.layout, s = this.scale;
      context.strokeStyle = this.theme.mark;
      context.lineWidth = 3;
      const x = places[2 * this.selected] - 4, y = places[2 * this.selected + 1] - 1;
      context.strokeRect(x * s, y * s, (cell.width - 1) * s, (cell.height - 1) * s);
    }
    Object.assign(this, now);
  }

  paintLit(context) {
    const s = this.scale, { cluster, layout: { places, cell } } = this;
    context.strokeStyle = this.theme.ink;
    for (let node = 0; node < cluster.nodes.names.length; node++) {
      const x = places[2 * node] * s, y = places[2 * node + 1] * s;
      const lit = this.lit.nodes(node);
      if (lit) {
        context.lineWidth = 2;
        context.strokeRect(x - 3 * s, y, (cell.width - 3) * s, (cell.height - 3) * s);
      }
      if (!lit && !this.lit.any(node)) continue;
      const top = y + NAME * s;
      this.forBlocks(node, (bx, by, bw, bh, pod) => {
        if (pod < 0 || !this.lit.pods(pod)) return;
        this.renderPod(context, pod, x + bx * s, top + by * s, bw * s, bh * s);
        context.lineWidth = s > 0.5 ? 1.5 : 0.75;
        context.strokeRect(x + bx * s, top + by * s, bw * s, bh * s);
      });
    }
  }

  // The node at a place of the view, and the pod there; -1 for none.
  at(clientX, clientY) {
    const box = this.overlay.getBoundingClientRect();
    const x = (clientX - box.left - this.x) / this.scale, y = (clientY - box.top - this.y) / this.scale;
    const { cell } = this.layout;
    for (const group of this.layout.groups) {
      if (x < group.x || y < group.y || x > group.x + group.width || y > group.y + group.height) continue;
      const column = Math.floor((x - group.x - PAD) / cell.width), row = Math.floor((y - group.y - TITLE) / cell.height);
      const node = column >= 0 && column < group.columns && row >= 0 ? group.nodes[row * group.columns + column] ?? -1 : -1;
      if (node < 0) return { node: -1, pod: -1, group };
      let found = -1;
      const bx = x - this.layout.places[2 * node], by = y - this.layout.places[2 * node + 1] - NAME;
      this.forBlocks(node, (left, top, width, height, pod) => {
        if (bx >= left && bx <= left + width && by >= top && by <= top + height) found = pod;
      });
      return { node, pod: found, group };
    }
    return { node: -1, pod: -1, group: null };
  }

  // The next node in a direction, for the keyboard.
  next(node, dx, dy) {
    const { places } = this.layout;
    if (node < 0) return this.layout.groups[0]?.nodes[0] ?? -1;
    let best = node, least = Infinity;
    for (let other = 0; other < this.cluster.nodes.names.length; other++) {
      const x = places[2 * other] - places[2 * node], y = places[2 * other + 1] - places[2 * node + 1];
      const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
      if (along <= 1) continue;
      const distance = along + across * 4;
      if (distance < least) { least = distance; best = other; }
    }
    return best;
  }

  listen() {
    const canvas = this.overlay;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event));
    const end = (event) => {
      if (this.pointers.delete(event.pointerId) && event.type === "pointerup" && this.moved < 5 && this.layout) {
        this.onPick(this.at(event.clientX, event.clientY));
      }
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => this.onPoint(null));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
  }

  pointerMoved(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (this.layout && event.pointerType === "mouse") this.onPoint(this.at(event.clientX, event.clientY));
      return;
    }
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 1) this.pan(dx, dy);
    else {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
      const now = Math.hypot(event.clientX - other[0], event.clientY - other[1]);
      const box = this.overlay.getBoundingClientRect();
      if (was > 0) this.zoom(now / was, (event.clientX + other[0]) / 2 - box.left, (event.clientY + other[1]) / 2 - box.top);
    }
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
  }
}

// The first text that fits, or else what fits of the last; pointing at it states it whole.
function fitting(context, texts, width) {
  return texts.find((text) => context.measureText(text).width <= width) ?? clipped(context, texts.at(-1), width);
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}

// Of what is evicted; what is only being deleted has one stroke of it.
function cross(context, x, y, width, height, ink, both) {
  if (Math.min(width, height) < 3) return;
  context.strokeStyle = ink;
  context.lineWidth = width > 8 ? 2 : 1;
  context.beginPath();
  context.moveTo(x + 1.5, y + 1.5);
  context.lineTo(x + width - 1.5, y + height - 1.5);
  if (both) {
    context.moveTo(x + width - 1.5, y + 1.5);
    context.lineTo(x + 1.5, y + height - 1.5);
  }
  context.stroke();
}

function ring(context, x, y, width, height, ink) {
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.strokeRect(x + 1, y + 1, width - 2, height - 2);
}

// State of a node as shapes: hatching, a corner, dashes, dots, an arrow; each can be told without its colour.
export function drawFlags(context, flags, x, y, width, height, colours) {
  context.save();
  context.strokeStyle = context.fillStyle = colours.edge;
  context.lineWidth = 1.5;
  if (flags & NODE.cordoned) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.globalAlpha = 0.75;
    context.beginPath();
    for (let at = x - height; at < x + width; at += 7) { context.moveTo(at, y); context.lineTo(at + height, y + height); }
    context.stroke();
    context.restore();
    context.strokeRect(x, y, width, height);
  }
  if (flags & NODE.nominated) { context.setLineDash([5, 3]); context.strokeRect(x, y, width, height); context.setLineDash([]); }
  if (flags & NODE.reserved) { context.setLineDash([1.5, 2.5]); context.strokeRect(x - 2, y - 2, width + 4, height + 4); context.setLineDash([]); }
  const corner = Math.min(9, height / 2);
  if (flags & NODE.tainted) {
    context.beginPath();
    context.moveTo(x + width - corner, y);
    context.lineTo(x + width, y);
    context.lineTo(x + width, y + corner);
    context.fill();
  }
  if (flags & NODE.draining) {
    const middle = x + width / 2, down = y + height;
    context.beginPath();
    context.moveTo(middle - corner / 2, down - corner);
    context.lineTo(middle + corner / 2, down - corner);
    context.lineTo(middle, down);
    context.fill();
  }
  context.restore();
}

// What a flag looks like, for the legend.
export function flagSwatch(flags) {
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = 30 * ratio;
  canvas.height = 20 * ratio;
  canvas.className = "flag";
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d"), colours = theme();
  context.scale(ratio, ratio);
  context.fillStyle = colours.free;
  context.fillRect(3, 3, 24, 14);
  drawFlags(context, flags, 3, 3, 24, 14, colours);
  return canvas;
}

export function podSwatch(flags) {
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = 16 * ratio;
  canvas.className = "swatch";
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d"), colours = theme();
  context.scale(ratio, ratio);
  context.globalAlpha = flags & POD.leaving ? 0.45 : 1;
  context.fillStyle = colours.swatch; // of no priority
  context.fillRect(0, 0, 16, 16);
  context.globalAlpha = 1;
  if (flags & (POD.leaving | POD.victim)) cross(context, 0, 0, 16, 16, colours.ink, flags & POD.victim);
  if (flags & POD.placed) ring(context, 0, 0, 16, 16, colours.ink);
  if (flags & POD.backfills) { context.fillStyle = colours.paper; context.fillRect(6, 6, 4, 4); }
  return canvas;
}
