// Curves, and the time by cause.
"use strict";

const HUES = 8;  // of page.css: --hue-0 ...; what computes has one of its own
const hue = (number) => `var(--hue-${number % HUES})`;

function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) all.push(Number(at.toPrecision(8)));
  return all;
}

// @param series [{name, points: [[x, y]]}], drawn over one another; x counts iterations.
function drawChart(svg, series, fromZero) {
  svg.replaceChildren();
  const width = svg.clientWidth || 560, height = svg.clientHeight || 210;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const known = series.map(({name, points}) => ({name, points: points.filter((point) => point.every(Number.isFinite))}));
  const all = known.flatMap(({points}) => points);
  if (all.length === 0) {
    add(svg, "text", {x: width / 2, y: height / 2, "text-anchor": "middle", class: "small"}, "nothing yet");
    return;
  }
  const xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1);
  let y0 = Math.min(...ys, fromZero ? 0 : Infinity), y1 = Math.max(...ys);
  if (y0 === y1) [y0, y1] = [y0 - Math.abs(y0) / 10 - 1e-9, y1 + Math.abs(y1) / 10 + 1e-9];
  const box = {left: 56, right: width - 14, top: 12, bottom: height - 26};
  const X = (x) => box.left + (box.right - box.left) * (x - x0) / (x1 - x0);
  const Y = (y) => box.bottom - (box.bottom - box.top) * (y - y0) / (y1 - y0);
  for (const y of ticks(y0, y1, 4)) {
    add(svg, "line", {x1: box.left, x2: box.right, y1: Y(y), y2: Y(y), class: "grid"});
    add(svg, "text", {x: box.left - 8, y: Y(y) + 4, "text-anchor": "end", class: "small"}, short(y));
  }
  for (const x of ticks(x0, x1, Math.max(2, Math.floor(width / 110)))) {
    if (Number.isInteger(x)) {
      add(svg, "text", {x: X(x), y: height - 8, "text-anchor": "middle", class: "small"}, whole(x));
    }
  }
  known.forEach(({name, points}, i) => {
    if (points.length === 0) return;
    const path = points.map(([x, y], p) => `${p ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join(" ");
    const curve = add(svg, "path", {d: path, class: "curve", "data-curve": name});
    curve.style.stroke = hue(i);
    const [lastX, lastY] = points[points.length - 1];
    add(curve, "title", {}, `${name} ${short(lastY)} at iteration ${lastX}`);
    add(svg, "circle", {cx: X(lastX), cy: Y(lastY), r: 3.5}).style.fill = hue(i);
  });
}

// A square of a colour and what it stands for, which stay together where lines break.
function addKey(legend, colour, text) {
  const item = add(legend, "span");
  add(item, "span", {class: "key square"}).style.background = colour;
  add(item, "span", {}, text);
}

function drawCurves(data) {
  const points = data.point || [];
  const curve = (name, value) => ({name, points: points.map((point) => [Number(point.iteration), value(point)])});
  const maybe = (value) => value === undefined ? NaN : Number(value);
  drawChart(id("loss"), [curve("loss", (point) => maybe(point.loss))], false);
  drawChart(id("speed"), [curve("images/s", (point) => maybe(point.images_per_s))], true);
  const tests = new Map();
  for (const test of data.test || []) {
    for (const output of test.test_output || []) {
      if (!tests.has(output.blob)) tests.set(output.blob, []);
      tests.get(output.blob).push([Number(test.test_iteration), Number(output.value)]);
    }
  }
  drawChart(id("tests"), [...tests].map(([name, own]) => ({name, points: own})), true);
  id("outputs").replaceChildren();
  [...tests].forEach(([name, own], i) => addKey(id("outputs"), hue(i), `${name} ${short(own[own.length - 1][1])}`));
}

const MANY = 12, NAMES = 18;  // rows of bars in one column; letters of a node's name

function drawTime(nodes) {
  const causes = new Map();
  for (const node of nodes) {
    for (const {cause, share} of node.time || []) causes.set(cause, (causes.get(cause) || 0) + share / nodes.length);
  }
  // What was ever seen keeps its colour.
  for (const cause of causes.keys()) {
    if (!drawTime.colours.has(cause)) drawTime.colours.set(cause, hue(drawTime.colours.size - 1));
  }
  const legend = id("causes"), table = id("time");
  legend.replaceChildren();
  table.replaceChildren();
  if (nodes.length === 0) add(legend, "span", {}, "nothing yet");
  for (const [cause, share] of [...causes].sort((a, b) => b[1] - a[1])) {
    addKey(legend, drawTime.colours.get(cause), `${cause} ${percent(share)}`);
  }
  document.body.classList.toggle("many", nodes.length > MANY);
  const longest = Math.max("all nodes".length, ...nodes.map((node) => Math.min(node.name.length, NAMES)));
  table.style.setProperty("--names", `${longest + 1}ch`);
  const row = (name, shares, kind) => {
    const line = add(table, "div", {class: "row " + kind, "data-time": name});
    add(line, "span", {title: name}, shortened(name, NAMES));
    const bar = add(line, "div", {class: "bar"});
    let lost = 0;
    for (const [cause, share] of shares) {
      const piece = add(bar, "div", {title: `${cause} ${percent(share)}`});
      piece.style.width = `${100 * share}%`;
      piece.style.background = drawTime.colours.get(cause);
      if (cause !== "computing") lost += share;
    }
    add(line, "span", {title: "time not spent computing"}, percent(lost));
  };
  if (causes.size > 0) row("all nodes", [...causes], "all");
  for (const node of nodes) row(node.name, (node.time || []).map(({cause, share}) => [cause, share]), "");
}
drawTime.colours = new Map([["computing", "var(--computing)"]]);
