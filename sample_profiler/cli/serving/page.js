// The list of runs, or one run: puts what the server sends where it belongs, and asks before anything is done.
"use strict";

const {kind, run} = document.body.dataset;
const byId = id => document.getElementById(id);
const zoomed = new Map(); // block that each tree is zoomed to, by component
const opened = new Map(); // whether details are open, where somebody has said so, by section and summary

byId("title").textContent = document.title;
history.replaceState(null, "", withoutToken());

function withoutToken() {
  const address = new URL(location.href);
  address.searchParams.delete("token"); // it is in a cookie now, and shall not be in bookmarks
  return address;
}

// --- what the server sends

const SILENCE_MS = 30_000; // of a server that says something every ten seconds
const PATIENCE_MS = 5_000; // with one that has refused
const NO_ANSWER = "no answer: the server has ended, or cannot be reached";
let source, again; // what is listened to, and when it is asked for anew

function follow() {
  source?.close();
  clearTimeout(again);
  if (document.hidden) return; // nobody sees it: nothing has to be sent
  const query = new URLSearchParams();
  if (kind === "run") query.append("name", run);
  else compared().forEach(name => query.append("compare", name));
  source = new EventSource(`events?${query}`);
  source.onopen = hear;
  source.addEventListener("pulse", hear);
  source.onmessage = event => {
    hear();
    show(JSON.parse(event.data));
  };
  source.onerror = lose;
}

function hear() {
  tell("on", "live");
  tryAgain(SILENCE_MS, "nothing has come for half a minute: the server is stopped, or cannot be reached");
}

async function lose({target}) {
  if (target.readyState !== EventSource.CLOSED) return tell("lost", NO_ANSWER); // the browser itself tries again
  const why = await reasonOf(target.url);
  if (source !== target) return;
  tell("lost", why);
  tryAgain(PATIENCE_MS, why);
}

// Why there is no stream: what a browser keeps to itself.
async function reasonOf(address) {
  const asked = new AbortController();
  const patience = setTimeout(() => asked.abort(), PATIENCE_MS);
  try {
    const answer = await fetch(address, {signal: asked.signal});
    return answer.ok ? "waiting for the server" : (await answer.text()).trim();
  } catch {
    return NO_ANSWER;
  } finally {
    clearTimeout(patience);
    asked.abort();
  }
}

function tryAgain(afterMs, why) {
  clearTimeout(again);
  again = setTimeout(() => { tell("lost", why); follow(); }, afterMs);
}

function tell(look, text) {
  byId("state").className = `dim ${look}`;
  byId("state").textContent = text;
}

// All sections of the page are in there by their names, in their order; null: one is as it was.
function show(sections) {
  for (const place of document.querySelectorAll("#sections > div")) if (!(place.id in sections)) place.remove();
  const names = Object.keys(sections);
  names.forEach((name, number) => {
    if (sections[name] !== null) put(name, sections[name], names.slice(number + 1));
  });
}

function put(name, html, later) {
  const place = byId(name) ?? section(name, later);
  for (const details of place.querySelectorAll("details")) opened.set(keyOf(name, details), details.open);
  const held = new Set([...place.querySelectorAll(".compare:checked")].map(box => box.value));
  const scrolled = [...place.querySelectorAll(".wide")].map(part => [part.scrollLeft, part.scrollTop]);
  place.innerHTML = html; // made by the server, which escapes all texts
  for (const part of place.querySelectorAll("[data-style]")) part.style.cssText = part.dataset.style;
  for (const details of place.querySelectorAll("details")) {
    const key = keyOf(name, details);
    if (opened.has(key)) details.open = opened.get(key);
    const tree = details.querySelector(":scope > .icicle");
    if (tree) makeZoomable(tree, key);
  }
  for (const box of place.querySelectorAll(".compare")) box.checked = held.has(box.value) || chosen.has(box.value);
  place.querySelectorAll(".wide").forEach((part, number) => {
    if (scrolled[number]) [part.scrollLeft, part.scrollTop] = scrolled[number];
    if (part.classList.contains("log")) part.scrollTop = part.scrollHeight;
  });
}

function section(name, later) {
  const place = document.createElement("div");
  place.id = name;
  byId("sections").insertBefore(place, later.map(each => byId(each)).find(Boolean) ?? null);
  return place;
}

function keyOf(name, details) {
  const summary = details.querySelector("summary").firstChild?.textContent ?? "";
  const outer = details.parentElement.closest("details");
  return (outer ? keyOf(name, outer) : name) + "/" + summary.trim();
}

// --- trees: a click on a block makes it as wide as the page, a click on it again shows all

function makeZoomable(tree, key) {
  const boxes = [...tree.children].map(element => ({
    element, left: parseFloat(element.style.left), width: parseFloat(element.style.width),
    top: parseFloat(element.style.top), name: element.title.split(": ")[0], label: element.textContent,
  }));
  const isIn = (inner, outer) => inner.left >= outer.left - .02 && inner.left + inner.width <= outer.left + outer.width + .02;
  const pathOf = box => boxes.filter(other => other.top < box.top && isIn(box, other)).concat(box)
    .sort((a, b) => a.top - b.top).map(each => each.name).join("/");
  const show = focus => {
    const whole = focus ?? {left: 0, width: 100, top: -1};
    for (const box of boxes) {
      const isAround = box.top <= whole.top && isIn(whole, box);
      const isShown = isAround || (box.top > whole.top && isIn(box, whole));
      box.element.hidden = !isShown;
      box.element.style.left = isAround ? "0%" : `${(box.left - whole.left) / whole.width * 100}%`;
      box.element.style.width = isAround ? "100%" : `${box.width / whole.width * 100}%`;
      box.element.textContent = focus && isShown && (isAround || box.width / whole.width > .06) ? box.name : box.label;
    }
  };
  for (const box of boxes) {
    box.element.onclick = () => {
      const path = pathOf(box);
      const isAgain = zoomed.get(key) === path;
      isAgain ? zoomed.delete(key) : zoomed.set(key, path);
      show(isAgain ? null : box);
    };
  }
  const focus = zoomed.has(key) && boxes.find(box => pathOf(box) === zoomed.get(key));
  if (focus) show(focus);
}

// --- charts: what the lines say where the pointer is

const reading = document.createElement("div");
reading.id = "reading";
reading.hidden = true;
document.body.append(reading);

document.addEventListener("pointermove", readChart);
document.addEventListener("pointerdown", readChart);

function readChart({target, clientX, clientY}) {
  document.querySelector(".charts line")?.remove();
  const chart = target.closest?.(".charts svg");
  const lines = [...chart?.querySelectorAll("polyline") ?? []];
  reading.hidden = !lines.length;
  if (!lines.length) return;
  const [firstS, lastS, lowest, highest] = chart.dataset.scale.split(" ").map(Number);
  const plot = chart.querySelector(".plot"), {left, width} = plot.getBoundingClientRect();
  const [plotX, plotY, plotWidth, plotHeight] = ["x", "y", "width", "height"].map(name => plot[name].baseVal.value);
  const share = Math.min(Math.max((clientX - left) / width, 0), 1);
  const x = plotX + share * plotWidth;
  const told = lines.map(line => {
    const nearest = [...line.points].reduce((a, b) => Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a);
    const height = 1 - (nearest.y - plotY) / plotHeight;
    return [line.getAttribute("stroke"), lowest * (1 - height) + highest * height];
  });
  reading.replaceChildren(formatDuration(firstS + share * (lastS - firstS)));
  for (const [color, value] of told) {
    const key = document.createElement("span");
    key.className = "key";
    key.style.background = color;
    reading.append(key, formatValue(value));
  }
  reading.style.left = `${Math.min(clientX + 14, innerWidth - reading.offsetWidth - 4)}px`;
  reading.style.top = `${Math.max(clientY - 40, 4)}px`;
  const ruler = document.createElementNS(chart.namespaceURI, "line");
  for (const [name, value] of Object.entries({x1: x, x2: x, y1: plotY, y2: plotY + plotHeight})) {
    ruler.setAttribute(name, value);
  }
  chart.append(ruler);
}

function formatValue(value) {
  return Math.abs(value) < 1e7 ? value.toLocaleString("en", {maximumSignificantDigits: 4}) : value.toPrecision(4);
}

function formatDuration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const [large, small, units] = minutes < 60 ? [minutes, seconds % 60, ["min", "s"]] : [minutes / 60, minutes % 60, ["h", "min"]];
  return `${Math.floor(large)} ${units[0]} ${String(Math.floor(small)).padStart(2, "0")} ${units[1]}`;
}

// --- runs on the same axes

const chosen = new Set(new URLSearchParams(location.search).getAll("compare"));
function compared() { return [...chosen]; }

document.addEventListener("change", event => {
  if (!event.target.matches(".compare")) return;
  event.target.checked ? chosen.add(event.target.value) : chosen.delete(event.target.value);
  const address = withoutToken();
  address.searchParams.delete("compare");
  compared().forEach(name => address.searchParams.append("compare", name));
  history.replaceState(null, "", address);
  follow();
});

// --- what a run can be asked to do

const QUESTIONS = {
  save: "Save a checkpoint of every policy now?",
  end: "End this run in order? It saves a checkpoint and writes its report.",
  capture: "Capture what its processes do? A timeline hardly slows the run; other tools do.",
};

async function ask(what) {
  byId("question").textContent = QUESTIONS[what];
  byId("seconds").hidden = what !== "capture";
  const dialog = byId("ask");
  dialog.returnValue = ""; // else Escape would repeat the answer to the question before
  dialog.showModal();
  // That the one before was closed may be told only now.
  do await new Promise(resolve => { dialog.onclose = resolve; }); while (dialog.open);
  if (dialog.returnValue !== "yes") return;
  const request = {do: what};
  if (what === "capture") Object.assign(request, {seconds: Number(byId("length").value), tool: byId("tool").value});
  byId("told").textContent = "…";
  try {
    const answer = await fetch(`act?name=${encodeURIComponent(run)}`, {method: "POST", body: JSON.stringify(request)});
    const isJson = answer.headers.get("content-type").startsWith("application/json"); // a refusal is plain text
    showAnswer(isJson ? await answer.json() : {error: (await answer.text()).trim()});
  } catch (error) {
    byId("told").textContent = `no answer: ${error}`;
  }
}

function showAnswer({told, file, error}) {
  byId("told").textContent = error ?? told;
  if (!file) return;
  const link = document.createElement("a");
  const opens = /\.(json|pftrace)$/.test(file) && !file.endsWith(".speedscope.json") ? "timeline" : "file";
  link.href = `${opens}?name=${encodeURIComponent(run)}&file=${encodeURIComponent(file)}`;
  link.textContent = "open it";
  link.id = "captured";
  byId("told").append(" ", link);
}

if (kind === "run") for (const what of Object.keys(QUESTIONS)) byId(what).onclick = () => ask(what);
document.addEventListener("visibilitychange", follow);
follow();
