// Draws job.json (JobPageData of src/proto/control.proto), once a second: picture.js and charts.js draw what their names
// say, with what stands here. All texts of the job become text nodes: nothing of it is ever parsed as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const REFRESH_MS = 1000;
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

// A name that is too long loses its middle: names differ at their ends.
function shortened(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return text.slice(0, most - 1 - end) + "…" + text.slice(text.length - end);
}

// Where there is little room: its one greatest unit.
function brief(seconds) {
  if (seconds < 100) return `${Math.floor(seconds)} s`;
  return seconds < 6000 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

function duration(seconds) {
  const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${s} s`;
}

// --- The head of the page

function drawHead(data) {
  const job = data.status || {}, learning = job.learning || {};
  const state = data.problem ? "gone" : (job.state || "").toLowerCase();
  document.body.classList.toggle("gone", state === "gone");
  id("job").textContent = job.job || "hpnode";
  id("state").className = "pill " + state;
  id("state").textContent = state === "gone" ? "not connected" : state;
  id("run").textContent = job.run_id ? "run " + job.run_id : "";
  id("problem").hidden = !data.problem;
  id("problem").textContent = (data.problem || "") + (data.problem && data.status ? " (below is what it said last)" : "");
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

function drawLines(lines) {
  const list = id("lines");
  list.replaceChildren();
  if (lines.length === 0) add(list, "li", {class: "quiet"}, "none yet");
  for (const line of [...lines].reverse()) {
    const item = add(list, "li", {"data-severity": line.severity || "PROGRESS"});
    add(item, "time", {class: "quiet"}, new Date(1000 * Number(line.time_s)).toISOString().slice(0, 19).replace("T", " "));
    add(item, "b", {}, line.node);
    add(item, "span", {}, line.text);
  }
}

function draw(data) {
  drawHead(data);
  drawPicture(data.status || {}, Boolean(data.problem));
  drawTime((data.status || {}).node || []);
  drawCurves(data);
  drawLines(data.line || []);
}

async function refresh() {
  try {
    const answer = await fetch("job.json", {cache: "no-store"});
    draw(await answer.json());
  } catch (error) {
    document.body.classList.add("gone");
    id("state").className = "pill gone";
    id("state").textContent = "not connected";
    id("problem").hidden = false;
    id("problem").textContent = `this page's server does not answer: ${error.message}`;
  }
  setTimeout(refresh, REFRESH_MS);
}
refresh();
