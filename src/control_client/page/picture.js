// The pipeline: a column for each role, a room for each node; in a job of many nodes the rooms are small, and
// arrows lead from column to column.
"use strict";

const ORDER = ["ps", "conv", "conv+fc", "fc"];
const ROOM = 208, GAP = 430, SIDE = 190, PORT = 19, MOST_ROOMS = 12;

const LEAST_SCALE = 0.8;  // of the picture; a window that is narrower yet scrolls it

const stateOf = (node) => node.slow ? "slow" : node.state.toLowerCase();
const stateText = (node) => node.state === "SILENT" ? `silent ${brief(node.report_age_s || 0)}` : stateOf(node);

// A text of an SVG that is at most so wide.
function addFitted(parent, attributes, text, most) {
  const element = add(parent, "text", attributes, text);
  for (let length = text.length - 1; length > 3 && element.getComputedTextLength() > most; --length) {
    element.textContent = shortened(text, length);
  }
  return element;
}

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

function drawRoom(svg, room, gone) {
  const {x, y, height} = room, node = room.nodes[0];
  if (room.nodes.length > 1) {
    const group = add(svg, "g", {class: "room", "data-node": room.name});
    add(group, "rect", {x, y, width: ROOM, height, rx: 10, class: "walls"});
    add(group, "text", {x: x + 14, y: y + 24, class: "name"}, room.name);
    room.nodes.forEach((own, i) => {
      const small = add(group, "g", {class: "room " + stateOf(own), "data-node": own.name});
      add(small, "title", {}, `${own.name} on ${own.host}: ${stateText(own)}, iteration ${own.iteration}`);
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
  const state = add(group, "text", {x: x + ROOM - 14, y: top + 26, class: "small", "text-anchor": "end"},
                    (gone ? "was " : "") + stateText(node));
  addFitted(group, {x: x + 30, y: top + 27, class: "name"}, node.name, ROOM - 52 - state.getComputedTextLength());
  addFitted(group, {x: x + 14, y: top + 45, class: "small"}, node.host, ROOM - 28);
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
  const label = `${shortened(names, 12)} ${said}`;
  add(group, "text", {x: x0 + 8 * out, y: y0 - 4, class: "label " + kind, "text-anchor": out > 0 ? "start" : "end"}, label);
}

// What the small squares of a job of many nodes mean, and which nodes do not train; else what the rooms' squares mean.
function drawStates(nodes, small) {
  for (const key of document.querySelectorAll("#legend .solvers")) key.hidden = small;
  const legend = id("states");
  legend.replaceChildren();
  legend.hidden = !small;
  if (!small) return;
  for (const state of ["training", "starting", "slow", "silent"]) {
    const own = nodes.filter((node) => stateOf(node) === state);
    if (own.length === 0) continue;
    const item = add(legend, "span", {"data-state": state});
    add(item, "span", {class: "key round " + state});
    const named = own.slice(0, 4).map((node) => shortened(node.name, 24)).join(", ");
    const names = state === "slow" || state === "silent" ? `: ${named}${own.length > 4 ? ", …" : ""}` : "";
    add(item, "span", {}, `${own.length} ${state}${names}`);
  }
}

function drawPicture(status, gone) {
  const svg = id("picture"), nodes = status.node || [];
  svg.replaceChildren();
  svg.style.display = nodes.length > 0 ? "" : "none";
  id("none").hidden = nodes.length > 0;
  drawStates(nodes, nodes.length > MOST_ROOMS);
  if (nodes.length === 0) return;
  const {roles, rooms, links} = roomsOf(nodes, status.link || []);
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
  svg.style.minWidth = `${Math.round(LEAST_SCALE * width)}px`;
  const most = Math.max(...links.map((link) => link.bytes_per_s), 1);
  for (const link of links) drawArrow(svg, rooms, link, most);
  for (const label of svg.querySelectorAll(".label")) svg.appendChild(label);  // above all lines
  for (const room of rooms) drawRoom(svg, room, gone);
}
