// Draws job.json (JobPageData of src/proto/control.proto), once a second. All texts of the job become text nodes: nothing
// of it is ever parsed as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const REFRESH_MS = 1000;
const COLOURS = ["#2f6fde", "#d9772b", "#8b5cd6", "#2a97b0", "#b58a00", "#c8324a", "#8a93a6", "#6b4f3a"];
const COMPUTING = "#2c9a72";
const id = (name) => document.getElementById(name);

function add(parent, tag, attributes = {}, text = "") {
  const svg = parent.namespaceURI === SVG;
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== "") element.textContent = text;
  parent.appendChild(element);
  return element;
}

const scaled = (value, units, base) => {
  let unit = 0;
  for (; value >= base * 0.9995 && unit < units.length - 1; ++unit) value /= base;
  return `${unit === 0 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
};
const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"], 1000);
const rate = (value) => bytes(value) + "/s";
const short = (value) => Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value);
const whole = (value) => Number(value).toLocaleString("en");
const percent = (share) => `${Math.round(100 * share)}%`;

function duration(seconds) {
  const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${s} s`;
}

// --- The head of the page

function drawHead(data) {
  const job = data.status || {}, learning = job.learning || {};
  const state = data.problem ? "gone" : (job.state || "").toLowerCase();
  id("job").textContent = job.job || "hpnode";
  id("state").className = "pill " + state;
  id("state").textContent = state === "gone" ? "not connected" : state;
  id("run").textContent = job.run_id ? "run " + job.run_id : "";
  id("problem").hidden = !data.problem;
  id("problem").textContent = data.problem || "";
  const numbers = id("numbers");
  numbers.replaceChildren();
  const number = (name, value) => {
    const pair = add(numbers, "div");
    add(pair, "dt", {}, name);
    add(pair, "dd", {}, value);
  };
  if (!data.status) return;
  document.title = `${job.job}: ${state}`;
  const done = Number(job.iteration || 0), most = Number(job.max_iter || 0);
  number("iteration", most ? `${whole(done)} of ${whole(most)}` : whole(done));
  if (job.state === "STOPPING") number("stops at", whole(job.stop_at));
  number("images/s", Number(job.images_per_s || 0).toFixed(1));
  if (learning.loss !== undefined) number("loss", short(Number(learning.loss)));
  if (learning.rate !== undefined) number("learning rate", short(Number(learning.rate)));
  for (const output of learning.test_output || []) {
    if (!output.loss) number(`test: ${output.blob}`, short(Number(output.value)));
  }
  number("precision", job.precision || "");
  number("up", duration(Number(job.uptime_s || 0)));
  id("done").style.width = `${most ? 100 * done / most : 0}%`;
}

// --- The pipeline: a column for each role, a room for each node; in a job of many nodes the rooms are small, and
// arrows lead from column to column.

const ORDER = ["ps", "conv", "conv+fc", "fc"];
const ROOM = 208, GAP = 430, SIDE = 190, PORT = 19, MOST_ROOMS = 12;

const stateOf = (node) => node.slow ? "slow" : node.state.toLowerCase();

function roomsOf(nodes, links) {
  const roles = [...new Set(nodes.map((node) => node.role))].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  if (nodes.length <= MOST_ROOMS) {
    const rooms = nodes.map((node) => ({column: roles.indexOf(node.role), nodes: [node], name: node.name}));
    return {roles, rooms, links};
  }
  const rooms = roles.map((role, column) => {
    const own = nodes.filter((node) => node.role === role);
    return {column, nodes: own, name: `${own.length} × ${role}`};
  });
  const sums = new Map();
  for (const link of links) {
    const from = roles.indexOf(nodes[link.from].role), to = roles.indexOf(nodes[link.to].role);
    const kind = kindOf(link), key = `${from} ${to} ${kind}`;
    const sum = sums.get(key) || {from, to, bytes_per_s: 0, tensor: link.tensor};
    sum.bytes_per_s += link.bytes_per_s;
    sums.set(key, sum);
  }
  return {roles, rooms, links: [...sums.values()]};
}

function kindOf(link) {
  const tensors = link.tensor || [];
  if (tensors.every((name) => name === "parameters")) return "exchange";
  return tensors.every((name) => name.startsWith("gradient of ")) ? "backward" : "forward";
}

// The places on a room's two sides where arrows leave and arrive, in the order of the rooms at their other ends.
function placePorts(rooms, links) {
  for (const room of rooms) room.ports = {left: [], right: []};
  for (const link of links) {
    const from = rooms[link.from], to = rooms[link.to];
    const forth = to.column - from.column;
    const same = from.column === 0 ? "left" : from.column === link.columns - 1 ? "right" : "left";
    link.out = {side: forth > 0 ? "right" : forth < 0 ? "left" : same, link, leaves: true, other: link.to};
    link.in = {side: forth > 0 ? "left" : forth < 0 ? "right" : same, link, leaves: false, other: link.from};
    from.ports[link.out.side].push(link.out);
    to.ports[link.in.side].push(link.in);
  }
  for (const room of rooms) {
    for (const ports of Object.values(room.ports)) {
      ports.sort((a, b) => b.leaves - a.leaves || a.other - b.other);
    }
  }
}

function heightOf(room) {
  const content = room.nodes.length > 1 ? 52 + 26 * Math.ceil(room.nodes.length / 6) : 112;
  return Math.max(content, PORT * (Math.max(room.ports.left.length, room.ports.right.length) + 1));
}

function drawSolvers(svg, node, x, y) {
  const bound = node.solvers_bound || 0, all = bound + (node.solvers_free || 0);
  const shown = Math.min(all, 12);
  for (let i = 0; i < shown; ++i) {
    add(svg, "rect", {x: x + 15 * i, y, width: 11, height: 11, rx: 3, class: i * all < bound * shown ? "bound" : "free"});
  }
}

function drawRoom(svg, room) {
  const {x, y, height} = room, node = room.nodes[0];
  if (room.nodes.length > 1) {
    const group = add(svg, "g", {class: "room", "data-node": room.name});
    add(group, "rect", {x, y, width: ROOM, height, rx: 10, class: "walls"});
    add(group, "text", {x: x + 14, y: y + 24, class: "name"}, room.name);
    room.nodes.forEach((own, i) => {
      const small = add(group, "g", {class: "room " + stateOf(own), "data-node": own.name});
      add(small, "title", {}, `${own.name} on ${own.host}: ${stateOf(own)}, iteration ${own.iteration}`);
      add(small, "rect", {x: x + 14 + 30 * (i % 6), y: y + 40 + 26 * Math.floor(i / 6), width: 24, height: 20, rx: 4,
                          class: "walls"});
      add(small, "circle", {cx: x + 26 + 30 * (i % 6), cy: y + 50 + 26 * Math.floor(i / 6), r: 4});
    });
    return;
  }
  const group = add(svg, "g", {class: "room " + stateOf(node), "data-node": node.name});
  add(group, "title", {}, `${node.name} on ${node.host}: sends ${rate(node.sent_bytes_per_s || 0)}, gets ` +
      `${rate(node.received_bytes_per_s || 0)}; ${node.tasks_ready || 0} tasks are ready`);
  add(group, "rect", {x, y, width: ROOM, height, rx: 10, class: "walls"});
  const top = y + (height - 112) / 2;
  add(group, "circle", {cx: x + 18, cy: top + 22, r: 5});
  add(group, "text", {x: x + 30, y: top + 27, class: "name"}, node.name);
  add(group, "text", {x: x + ROOM - 14, y: top + 26, class: "small", "text-anchor": "end"}, stateOf(node));
  add(group, "text", {x: x + 14, y: top + 45, class: "small"}, node.host);
  drawSolvers(group, node, x + 14, top + 55);
  add(group, "text", {x: x + 14, y: top + 83, class: "small"},
      `solvers: ${node.solvers_bound || 0} bound, ${node.solvers_free || 0} free`);
  add(group, "text", {x: x + 14, y: top + 100, class: "small"},
      `${Number(node.images_per_s || 0).toFixed(1)} images/s, ${bytes(Number(node.memory_bytes || 0))}`);
}

function drawArrow(svg, rooms, link, most) {
  const from = rooms[link.from], to = rooms[link.to], kind = kindOf(link);
  const group = add(svg, "g", {class: "arrow " + kind, "data-from": from.name, "data-to": to.name});
  const said = rate(link.bytes_per_s);
  add(group, "title", {}, `${from.name} sends ${(link.tensor || []).join(", ")} to ${to.name}: ${said}`);
  const out = link.out.side === "right" ? 1 : -1, into = link.in.side === "right" ? 1 : -1;
  const x0 = from.x + (out > 0 ? ROOM : 0), x1 = to.x + (into > 0 ? ROOM : 0) + 9 * into;
  const y0 = link.out.y, y1 = link.in.y, lead = 148;
  const xa = x0 + out * lead, reach = from.column === to.column ? 34 : Math.abs(x1 - xa) / 2;
  const width = 1.2 + 3.3 * Math.sqrt(link.bytes_per_s / Math.max(most, 1));
  const turn = from.column === to.column ? `C ${xa + out * reach} ${y0} ${xa + out * reach} ${y1} ${xa} ${y1} L ${x1} ${y1}`
                                         : `C ${xa + out * reach} ${y0} ${x1 + into * reach} ${y1} ${x1} ${y1}`;
  add(group, "path", {class: "shaft", d: `M ${x0} ${y0} L ${xa} ${y0} ${turn}`, "stroke-width": width.toFixed(2)});
  const tip = x1 - 9 * into;
  add(group, "path", {class: "head", d: `M ${tip} ${y1} L ${tip + 10 * into} ${y1 - 5} L ${tip + 10 * into} ${y1 + 5} Z`});
  const names = (link.tensor || []).map((name) => name.replace("gradient of ", "∂")).join(", ");
  const label = `${names.length > 12 ? names.slice(0, 11) + "…" : names} ${said}`;
  add(group, "text", {x: x0 + 8 * out, y: y0 - 4, class: "label " + kind, "text-anchor": out > 0 ? "start" : "end"}, label);
}

function drawPicture(status) {
  const svg = id("picture");
  svg.replaceChildren();
  const {roles, rooms, links} = roomsOf(status.node || [], status.link || []);
  for (const link of links) link.columns = roles.length;
  placePorts(rooms, links);
  const columns = roles.map((_, column) => rooms.filter((room) => room.column === column));
  const tall = (column) => column.reduce((sum, room) => sum + heightOf(room) + 24, -24);
  const height = Math.max(...columns.map(tall), 60) + 24;
  const inside = (column) => rooms.some((room) => room.column === column && room.ports.left.length > 0);
  const beyond = rooms.some((room) => room.column === roles.length - 1 && room.ports.right.length > 0);
  const left = inside(0) ? SIDE : 12;
  columns.forEach((column, c) => {
    let y = 12 + (height - 24 - tall(column)) / 2;
    for (const room of column) {
      room.x = left + c * (ROOM + GAP);
      room.y = y;
      room.height = heightOf(room);
      y += room.height + 24;
      for (const ports of Object.values(room.ports)) {
        ports.forEach((port, i) => { port.y = room.y + (room.height - PORT * (ports.length - 1)) / 2 + PORT * i + 3; });
      }
    }
  });
  const width = left + roles.length * ROOM + (roles.length - 1) * GAP + (beyond ? SIDE : 12);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  const most = Math.max(...links.map((link) => link.bytes_per_s), 1);
  for (const link of links) drawArrow(svg, rooms, link, most);
  for (const label of svg.querySelectorAll(".label")) svg.appendChild(label);  // above all lines
  for (const room of rooms) drawRoom(svg, room);
}

// --- Curves

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
  for (const x of ticks(x0, x1, 5)) {
    if (Number.isInteger(x)) {
      add(svg, "text", {x: X(x), y: height - 8, "text-anchor": "middle", class: "small"}, whole(x));
    }
  }
  known.forEach(({name, points}, i) => {
    if (points.length === 0) return;
    const colour = COLOURS[i % COLOURS.length];
    const path = points.map(([x, y], p) => `${p ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join(" ");
    const curve = add(svg, "path", {d: path, class: "curve", stroke: colour, "data-curve": name});
    const [lastX, lastY] = points[points.length - 1];
    add(curve, "title", {}, `${name} ${short(lastY)} at iteration ${lastX}`);
    add(svg, "circle", {cx: X(lastX), cy: Y(lastY), r: 3.5, fill: colour});
    if (known.length > 1) {
      add(svg, "text", {x: box.right - 4, y: box.top + 12 + 15 * i, "text-anchor": "end", fill: colour}, name).style.fill = colour;
    }
  });
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
}

// --- Time by cause

function drawTime(nodes) {
  const causes = new Map();
  for (const node of nodes) {
    for (const {cause, share} of node.time || []) causes.set(cause, (causes.get(cause) || 0) + share / nodes.length);
  }
  // What was ever seen keeps its colour.
  for (const cause of causes.keys()) {
    if (!drawTime.colours.has(cause)) drawTime.colours.set(cause, COLOURS[(drawTime.colours.size - 1) % COLOURS.length]);
  }
  const legend = id("causes"), table = id("time");
  legend.replaceChildren();
  table.replaceChildren();
  for (const [cause, share] of [...causes].sort((a, b) => b[1] - a[1])) {
    add(legend, "span", {class: "key square"}).style.background = drawTime.colours.get(cause);
    add(legend, "span", {}, `${cause} ${percent(share)}`);
  }
  const row = (name, shares, kind) => {
    const line = add(table, "div", {class: "row " + kind, "data-time": name});
    add(line, "span", {title: name}, name);
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
drawTime.colours = new Map([["computing", COMPUTING]]);

function drawLines(lines) {
  const list = id("lines");
  list.replaceChildren();
  if (lines.length === 0) add(list, "li", {class: "quiet"}, "none");
  for (const line of [...lines].reverse()) {
    const item = add(list, "li");
    add(item, "time", {class: "quiet"}, new Date(1000 * Number(line.time_s)).toISOString().slice(0, 19).replace("T", " "));
    add(item, "b", {}, line.node);
    add(item, "span", {}, line.text);
  }
}

function draw(data) {
  drawHead(data);
  if (data.status) {
    drawPicture(data.status);
    drawTime(data.status.node || []);
  }
  drawCurves(data);
  drawLines(data.line || []);
}

async function refresh() {
  try {
    const answer = await fetch("job.json", {cache: "no-store"});
    draw(await answer.json());
  } catch (error) {
    id("state").className = "pill gone";
    id("state").textContent = "not connected";
    id("problem").hidden = false;
    id("problem").textContent = `this page's server does not answer: ${error.message}`;
  }
  setTimeout(refresh, REFRESH_MS);
}
refresh();
