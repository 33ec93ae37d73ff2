// Elements are made of text nodes only: whatever an object is called, it is text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Puts new content where the old was; the element that had the focus has it again if it is still there.
export function put(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren();
  append(place, children);
  if (key !== undefined) {
    for (const element of place.querySelectorAll("[data-key]")) {
      if (element.dataset.key === key) element.focus({ preventScroll: true });
    }
  }
}

export function number(value) {
  return value.toLocaleString("en");
}

export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

// "2 h 5 min": the two largest units.
export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  if (seconds < 1) return seconds > 0 ? `${Math.round(seconds * 1000)} ms` : "0 s";
  const parts = [];
  let left = Math.round(seconds);
  for (const [size, name] of units) {
    if (left >= size && parts.length < 2) parts.push(`${Math.floor(left / size)} ${name}`);
    left %= size;
  }
  return parts.join(" ");
}

export function time(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().replace("T", " ").replace(/\.\d+Z|Z/, " UTC");
}

// A list of which the first are shown; a button shows the rest.
export function cutList(items, most, render, noun) {
  const list = h("div", { class: "cut-list" });
  function show(all) {
    const shown = all ? items : items.slice(0, most);
    const more = items.length - shown.length;
    put(list, shown.map(render), more > 0 && h("p", { class: "quiet" },
      `${number(shown.length)} of ${count(items.length, noun)} shown. `,
      h("button", { type: "button", onclick: () => show(true) }, "Show all")));
  }
  show(false);
  return list;
}

// Text in which options such as --add-nodes are not broken at their hyphens.
export function withOptions(text) {
  return text.split(/(--[a-z][a-z-]*)/).map((part, at) => (at % 2 ? h("span", { class: "option" }, part) : part));
}

// Text of a command: lines that are too long go on with an indent.
export function commandText(text) {
  return h("pre", { class: "answer", tabindex: "0" }, text.split("\n").map((line) => h("span", { class: "line" }, `${line}\n`)));
}
