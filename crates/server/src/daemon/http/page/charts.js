// Small drawings: transaction groups as stacked bars, and lines of a few minutes.

import { age, drawn, size } from "./words.js";

const HEIGHT = 168, LEFT = 50, BOTTOM = 16, TOP = 6;
export const NARROW = matchMedia("(max-width: 34rem)");
const PHASES = ["open", "quiescing", "syncing"];

/** The newest groups, oldest on the left, each as high as it took. */
export function groups(txgs) {
  // Words keep their size on a phone, so there is room for fewer bars.
  const [width, many] = NARROW.matches ? [330, 24] : [600, 48];
  const shown = txgs.slice(-many);
  const length = (group) => PHASES.reduce((sum, phase) => sum + group[`${phase}_seconds`], 0);
  const most = ceiling(Math.max(...shown.map(length), 0.1));
  const scale = (HEIGHT - BOTTOM - TOP) / most;
  const base = HEIGHT - BOTTOM;
  const chart = drawn("svg", { class: "groups", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words(shown) });
  for (const part of [0, 0.5, 1]) {
    const y = base - part * most * scale;
    chart.append(drawn("line", { x1: LEFT, x2: width, y1: y, y2: y }));
    chart.append(drawn("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, seconds(part * most)));
  }
  const step = (width - LEFT) / many;
  shown.forEach((group, at) => {
    const bar = drawn("g", {}, drawn("title", {}, title(group)));
    let y = base;
    for (const phase of PHASES) {
      const value = group[`${phase}_seconds`];
      // What took any time at all can be seen.
      const height = value > 0.0005 ? Math.max(value * scale, 1) : 0;
      y -= height;
      bar.append(drawn("rect", { class: phase, x: LEFT + (many - shown.length + at) * step + 1, y, width: step - 2, height }));
    }
    chart.append(bar);
  });
  if (shown.length) {
    chart.append(drawn("text", { x: width, y: HEIGHT - 3, "text-anchor": "end" }, `txg ${shown.at(-1).txg}`));
    const first = LEFT + (many - shown.length) * step;
    if (shown.length > 12) chart.append(drawn("text", { x: first, y: HEIGHT - 3 }, `${shown[0].txg}, ${age(shown[0].age_seconds)} ago`));
  }
  return chart;
}

function ceiling(value) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 120, 300, 600];
  return steps.find((step) => step >= value) ?? value;
}

function seconds(value) {
  return value === 0 ? "0" : value < 1 ? `${Math.round(value * 1000)} ms` : `${+value.toFixed(1)} s`;
}

function title(group) {
  const phases = PHASES.map((phase) => `${phase} ${group[`${phase}_seconds`].toFixed(3)} s`).join(", ");
  return `txg ${group.txg}: ${phases}; ${size(group.dirty_bytes)} dirty`;
}

function words(shown) {
  return shown.length ? `Transaction groups; the newest is ${title(shown.at(-1))}` : "No transaction group was synced yet";
}

/** A line through values, the newest on the right, from nothing to the highest of them. */
export function spark(values, label) {
  const most = Math.max(...values, 1);
  const points = values.map((value, at) => `${((at * 100) / Math.max(values.length - 1, 1)).toFixed(1)},${(19 - (value / most) * 18).toFixed(1)}`);
  const line = drawn("polyline", { points: points.join(" "), "vector-effect": "non-scaling-stroke" });
  return drawn("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": label }, line);
}
