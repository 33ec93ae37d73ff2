// Where the scheduler that runs the cluster and a shadow decide differently.
import { count, cutList, h, number, put } from "./dom.js";

const MOST_DIFFERENCES = 50;

export class ShadowView {
  constructor() {
    this.element = h("div", {});
  }

  show(whole) {
    const view = whole.shadow, text = JSON.stringify(view);
    if (this.drawn === text) return;
    this.drawn = text;
    put(this.element,
      h("h2", {}, "Figures, of compared pods and gangs"),
      scrolled("Figures", h("table", {}, heads(view.heads), h("tbody", {}, view.figures.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell))))))),
      view.tables.length === 0 && h("p", {}, "No differences."),
      view.tables.map((table) => this.differences(view, table)),
      h("h2", {}, "How to read this"), h("ul", {}, view.remarks.map((line) => h("li", {}, line))));
  }

  differences(view, table) {
    return h("section", { "aria-label": table.title },
      h("h2", {}, `${table.title}: ${number(table.total)}`), h("p", { class: "quiet" }, table.meaning),
      table.rows.length < table.total && h("p", { class: "quiet" }, `${number(table.rows.length)} of ${number(table.total)} are listed, the latest.`),
      cutList(table.rows, MOST_DIFFERENCES, ([cells, sentences]) => h("article", { class: "card difference-card" },
        h("h3", {}, cells[1]), h("dl", { class: "facts" }, [0, 2, 3].map((at) => [h("dt", {}, view.columns[at]), h("dd", {}, cells[at])])),
        sentences.map((line) => h("p", {}, line))), "difference"));
  }
}

function heads(names) {
  return h("thead", {}, h("tr", {}, names.map((name) => name ? h("th", { scope: "col" }, name) : h("td", {}))));
}

function scrolled(label, content) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, content);
}
