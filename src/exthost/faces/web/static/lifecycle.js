// Draws the life cycle from the host's table, with the current state highlighted.

import { svg } from "./dom.js";

// The position of each state. States that are missing here are drawn in an additional row.
const PLACES = {
  discovered: [0, 0], admitted: [1, 0], starting: [2, 0], ready: [3, 0],
  refused: [0, 1], open: [1, 1], backoff: [2, 1], draining: [3, 1],
  failed: [1, 2], stopped: [3, 2],
};
const CELL = [168, 92];
const BOX = [104, 36];

function place(state, rest) {
  const at = PLACES[state] ?? [rest.indexOf(state), 3];
  return [at[0] * CELL[0] + BOX[0] / 2 + 10, at[1] * CELL[1] + BOX[1] / 2 + 16];
}

/** Return where the line from a box's centre to another point crosses its border, moved sideways by `shift`. */
function border([x, y], [towardsX, towardsY], shift) {
  const dx = towardsX - x, dy = towardsY - y;
  const scale = Math.min(Math.abs((BOX[0] / 2 + 2) / (dx || 1e-9)), Math.abs((BOX[1] / 2 + 2) / (dy || 1e-9)));
  const length = Math.hypot(dx, dy) || 1;
  return [x + dx * scale - (dy / length) * shift, y + dy * scale + (dx / length) * shift];
}

export function drawLifecycle(table) {
  const rest = table.states.filter((state) => !(state in PLACES));
  const rows = rest.length ? 4 : 3;
  const width = 4 * CELL[0] - (CELL[0] - BOX[0]) + 20;
  const height = rows * CELL[1] - (CELL[1] - BOX[1]) + 32;
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M0 0L8 4L0 8z", class: "life-arrow" }));
  const picture = svg("svg", { class: "life", viewBox: `0 0 ${width} ${height}`, role: "img" }, svg("defs", null, arrow));
  for (const move of table.moves) {
    const from = place(move.from, rest), to = place(move.to, rest);
    const start = border(from, to, 5), end = border(to, from, -5);
    const line = svg("path", {
      class: "life-move", "data-from": move.from, "data-to": move.to, "marker-end": "url(#arrow)",
      d: curve(start, end, from, to),
    }, svg("title", null, `${move.from} → ${move.to}: ${move.events.join(", ")}`));
    picture.append(line);
  }
  for (const state of table.states) {
    const [x, y] = place(state, rest);
    picture.append(svg("g", { class: "life-state", "data-state": state },
      svg("rect", { x: x - BOX[0] / 2, y: y - BOX[1] / 2, width: BOX[0], height: BOX[1], rx: 9 }),
      svg("text", { x, y: y + 4.5, "text-anchor": "middle" }, state)));
  }
  return picture;
}

/** Return a straight line between neighbours, or a curve if there are boxes in between. */
function curve(start, end, from, to) {
  const columns = Math.round(Math.abs(to[0] - from[0]) / CELL[0]);
  const rows = Math.round(Math.abs(to[1] - from[1]) / CELL[1]);
  if (rows < 2 && columns < 2) return `M${start}L${end}`;
  const dx = end[0] - start[0], dy = end[1] - start[1];
  const bow = columns === 0 ? 0.36 : 0.14;
  return `M${start}Q${[(start[0] + end[0]) / 2 - dy * bow, (start[1] + end[1]) / 2 + dx * bow]} ${end}`;
}

/** Highlight a state, and the transitions that begin at it. */
export function lightState(picture, state) {
  for (const box of picture.querySelectorAll(".life-state")) {
    const isLit = box.dataset.state === state;
    box.classList.toggle("lit", isLit);
    box.setAttribute("data-tone", state);
  }
  for (const move of picture.querySelectorAll(".life-move")) move.classList.toggle("possible", move.dataset.from === state);
  picture.setAttribute("aria-label", `Life cycle: the extension is ${state}`);
}
