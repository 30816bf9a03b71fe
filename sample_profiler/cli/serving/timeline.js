// Draws a timeline: only what can be seen of it, so its length does not matter.
"use strict";

const byId = id => document.getElementById(id);
const canvas = byId("picture"), pen = canvas.getContext("2d");
const ROW = 18, GAP = 8, TITLE = 16, COLORS = ["#3b6ea8", "#d08c60", "#7fb069", "#9067a7", "#5b9bd5", "#c9a227", "#4e9f9f", "#a05195"];
const DARK = ["#3b6ea8", "#9067a7", "#a05195"]; // of the colors: those on which a text is white
let timeline = null, from = 0, to = 1, shift = 0, places = [], isDue = false;

byId("title").textContent = document.title;
byId("back").href = `run?name=${encodeURIComponent(new URLSearchParams(location.search).get("name") ?? "")}`;
byId("back").textContent = "the run";

const worker = new Worker("timeline_worker.js"), began = performance.now();
worker.onmessage = ({data}) => {
  if (data.total) {
    showLoaded(data);
    return;
  }
  worker.terminate();
  byId("loading").hidden = true;
  if (data.problem || !data.rows.length) {
    byId("told").textContent = data.problem ?? "there is nothing in it";
    return;
  }
  timeline = data;
  let y = 0, before = "";
  for (const row of timeline.rows) {
    const title = row.depth ? before : `${row.process}${row.thread ? `, ${row.thread}` : ""}`;
    if (!row.depth) y += (before ? GAP : 0) + TITLE;
    places.push({row, title: row.depth ? "" : title, y});
    before = title;
    y += ROW;
  }
  const passes = timeline.rows.reduce((sum, row) => sum + row.begins.length, 0);
  byId("told").textContent = `${passes.toLocaleString()} passes in ${format(timeline.last - timeline.first)}`;
  showAll();
};
worker.postMessage(document.body.dataset.source);

function showLoaded({loaded, total}) {
  byId("share").value = loaded / total;
  const left = (performance.now() - began) / 1000 * (total / loaded - 1);
  byId("left").textContent = `${(loaded / 2 ** 20).toFixed(0)} of ${(total / 2 ** 20).toFixed(0)} MiB, ${left.toFixed(0)} s left`;
}

function format(us) {
  return us >= 1e6 ? `${(us / 1e6).toFixed(3)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us.toFixed(1)} µs`;
}

function showAll() {
  [from, to, shift] = [timeline.first, timeline.last, 0];
  draw();
}

function draw() {
  if (isDue || !timeline) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; paint(); });
}

// Return the first pass of a row that ends after a moment.
function search(ends, moment) {
  let low = 0, high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    ends[middle] > moment ? high = middle : low = middle + 1;
  }
  return low;
}

function paint() {
  const scale = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const ink = getComputedStyle(document.body).color, perUs = width / (to - from);
  for (const {row, title, y} of places) {
    const top = y - shift;
    if (top > height || top + ROW < 0) continue;
    let painted = pen.fillStyle = ink;
    if (title) pen.fillText(title, 4, top - TITLE / 2);
    // Thousands of passes in one pixel are painted once: those that end in it are searched over, not looked at.
    for (let i = search(row.ends, from), right = 0; i < row.begins.length && row.begins[i] < to;) {
      const begin = Math.max(0, (row.begins[i] - from) * perUs), end = Math.min(width, (row.ends[i] - from) * perUs);
      const name = timeline.names[row.names[i]];
      const color = name.startsWith("wait") ? "#b9bec6" : COLORS[row.names[i] % COLORS.length];
      if (color !== painted) pen.fillStyle = painted = color; // setting it takes longer than painting
      pen.fillRect(begin, top, Math.max(1, end - begin - .5), ROW - 1);
      right = Math.max(begin + 1, end);
      i = end < begin + 1 ? Math.max(i + 1, search(row.ends, from + right / perUs)) : i + 1;
      if (end - begin > 30) {
        pen.fillStyle = painted = DARK.includes(color) ? "#fff" : "#1d2530";
        pen.save();
        pen.beginPath();
        pen.rect(begin, top, end - begin - 3, ROW);
        pen.clip();
        pen.fillText(name, begin + 3, top + ROW / 2);
        pen.restore();
      }
    }
  }
}

function momentAt(event) {
  return from + (to - from) * (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
}

function move(us, pixels) {
  [from, to] = [from + us, to + us];
  const last = places.at(-1)?.y ?? 0;
  shift = Math.max(0, Math.min(shift + pixels, last + 2 * ROW - canvas.clientHeight));
  draw();
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  if (timeline) zoom(momentAt(event), Math.exp(event.deltaY / 400));
}, {passive: false});

let held = null;
canvas.onpointerdown = event => { held = {x: event.clientX, y: event.clientY}; canvas.setPointerCapture(event.pointerId); };
canvas.onpointermove = event => {
  if (!held || !event.buttons || !timeline) return;
  move(-(event.clientX - held.x) * (to - from) / canvas.clientWidth, held.y - event.clientY);
  held = {x: event.clientX, y: event.clientY};
};
canvas.onclick = event => {
  if (!timeline) return;
  const y = event.clientY - canvas.getBoundingClientRect().top + shift, moment = momentAt(event);
  const place = places.find(each => each.y <= y && y < each.y + ROW);
  const i = place ? search(place.row.ends, moment) : -1;
  if (i < 0 || i >= place.row.begins.length || place.row.begins[i] > moment) return;
  const name = timeline.names[place.row.names[i]];
  byId("told").textContent = `${name}: ${format(place.row.ends[i] - place.row.begins[i])}, ` +
    `${format(place.row.begins[i] - timeline.first)} after the beginning, in ${place.row.process}`;
};
function zoom(moment, factor) {
  if (!timeline || (to - from) * factor < .5) return;
  [from, to] = [moment - (moment - from) * factor, moment + (to - moment) * factor];
  draw();
}

addEventListener("keydown", event => {
  if (!timeline || event.ctrlKey || event.altKey || event.metaKey) return;
  const length = to - from;
  if (event.key === "0") showAll();
  if (event.key === "w") zoom(from + length / 2, .8);
  if (event.key === "s") zoom(from + length / 2, 1.25);
  if (event.key === "a") move(-length / 8, 0);
  if (event.key === "d") move(length / 8, 0);
});
addEventListener("resize", draw);
