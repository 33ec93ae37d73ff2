// Colours that readers with any colour vision can tell apart (six of Okabe and Ito, brown, violet), and a pattern beside each.

const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#6b3410", "#8a3ffc"];
const PATTERNS = ["none", "diagonal", "dots", "cross", "horizontal", "vertical", "back", "grid"];

export function look(index) {
  const hue = index % HUES.length;
  return { fill: HUES[hue], pattern: PATTERNS[(hue + Math.floor(index / HUES.length)) % PATTERNS.length] };
}

// Draws the pattern of a block over its colour; small blocks have the colour only.
export function drawPattern(context, pattern, x, y, width, height) {
  if (pattern === "none" || Math.min(width, height) < 7) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = context.fillStyle = "rgba(255,255,255,.6)";
  context.lineWidth = 1;
  context.beginPath();
  const step = 5;
  if (pattern === "dots") {
    for (let at = x + 2; at < x + width; at += step) {
      for (let down = y + 2; down < y + height; down += step) context.rect(at, down, 1.5, 1.5);
    }
    context.fill();
  }
  if (["horizontal", "grid"].includes(pattern)) {
    for (let down = y + 2.5; down < y + height; down += step) { context.moveTo(x, down); context.lineTo(x + width, down); }
  }
  if (["vertical", "grid"].includes(pattern)) {
    for (let at = x + 2.5; at < x + width; at += step) { context.moveTo(at, y); context.lineTo(at, y + height); }
  }
  for (let at = x - height; at < x + width + height; at += step) {
    if (["diagonal", "cross"].includes(pattern)) { context.moveTo(at, y + height); context.lineTo(at + height, y); }
    if (["back", "cross"].includes(pattern)) { context.moveTo(at, y); context.lineTo(at + height, y + height); }
  }
  context.stroke();
  context.restore();
}

// A swatch for legends and tables, drawn as the blocks are.
export function swatch(index, size = 16) {
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = size * ratio;
  canvas.className = "swatch";
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const { fill, pattern } = look(index);
  context.fillStyle = fill;
  context.fillRect(0, 0, size, size);
  drawPattern(context, pattern, 0, 0, size, size);
  return canvas;
}

// The colours of the page itself, for what is drawn.
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"), quiet: value("--quiet"), paper: value("--paper"), line: value("--line"),
    free: value("--free"), mark: value("--mark"), edge: value("--edge"), swatch: value("--swatch"),
  };
}

// In pixels: of what is drawn, as the page's text grows on large screens.
export function textHeight() {
  return 0.75 * parseFloat(getComputedStyle(document.documentElement).fontSize);
}
