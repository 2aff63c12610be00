// Draws the calls of the last two minutes, or a part of them, as bars; failures have another colour.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 22;

/** `span` is the number of points that are drawn. */
export function makeSparkline(span = 60) {
  const node = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    svg("path", { class: "spark-calls" }), svg("path", { class: "spark-failed" }));
  node.span = span;
  return node;
}

export function updateSparkline(node, all) {
  const points = all.slice(-node.span);
  const text = JSON.stringify(points);
  if (node.shown === text) return;
  node.shown = text;
  node.classList.toggle("empty", !points.length);
  const highest = Math.max(1, ...points.map(([calls]) => calls));
  const step = WIDTH / node.span;
  const offset = node.span - points.length;
  const bars = (pick) => points.map((point, index) => {
    const value = pick(point);
    if (!value) return "";
    const height = Math.max(1.5, (value / highest) * HEIGHT);
    const x = ((offset + index) * step).toFixed(1);
    return `M${x} ${HEIGHT}v-${height.toFixed(1)}h${(step * 0.8).toFixed(2)}v${height.toFixed(1)}z`;
  }).join("");
  node.children[0].setAttribute("d", bars(([calls]) => calls));
  node.children[1].setAttribute("d", bars(([, failed]) => failed));
  const total = points.reduce((sum, [calls]) => sum + calls, 0);
  const failed = points.reduce((sum, [, failures]) => sum + failures, 0);
  node.setAttribute("aria-label", `${total} calls in ${node.span * 2} seconds, ${failed} failed`);
}
