// Draws numbers of the last two minutes as bars or as a line, with the highest value as its scale.

import { el, setText, svg } from "./dom.js";

// The size in units of the SVG's view box, and the number of points: one for two seconds.
const WIDTH = 120;
const HEIGHT = 24;
const POINTS = 60;

/**
 * Return a chart: an element, and `show`, which draws points. A point is an array of values, such as
 * [calls, failed calls], and `parts` are the names of these values. The first is the highest. `format` returns the
 * text of a value. A chart with `label` shows its scale beside it.
 */
export function makeChart({ parts, format, label, line = false }) {
  const paths = parts.map((name) => svg("path", { class: `chart-${name}` }));
  const picture = svg("svg", { class: "chart-picture", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, paths);
  const scale = el("span", { class: "chart-scale" });
  const element = el("span", { class: "chart" }, label && el("span", { class: "chart-label" }, label), picture, scale);
  let shownData = "";
  /** Draw the points, the oldest first. `now` is the current value if it is not that of the last point. */
  const show = (points, now) => {
    const data = JSON.stringify([points, now]);
    if (shownData === data) return;
    shownData = data;
    const highest = Math.max(...points.map((point) => point[0]), 0);
    const step = WIDTH / POINTS;
    const offset = POINTS - points.length;
    const y = (value) => (highest ? (value / highest) * (HEIGHT - 2) : 0);
    paths.forEach((path, part) => {
      const bars = points.map((point, index) => {
        const x = (offset + index) * step;
        const value = point[part];
        if (line) return `${index ? "L" : "M"}${x.toFixed(1)} ${(HEIGHT - 1 - y(value)).toFixed(1)}`;
        return value ? `M${x.toFixed(1)} ${HEIGHT}v-${Math.max(1.5, y(value)).toFixed(1)}h${(step * 0.8).toFixed(2)}V${HEIGHT}z` : "";
      });
      path.setAttribute("d", bars.join(""));
    });
    element.classList.toggle("empty", !points.length);
    const current = now ?? points.at(-1)?.[0] ?? 0;
    setText(scale, points.length ? `${format(current)} (max ${format(highest)})` : "–");
  };
  return { element, show };
}
