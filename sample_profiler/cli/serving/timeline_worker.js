// Reads a timeline beside the page, which stays quick meanwhile: piece by piece, so that nothing here is as long as the
// file. Passes of each track become rows of arrays, a row for each depth: in a row nothing overlaps, so it can be searched.
"use strict";

importScripts("timeline_formats.js");

const TOLD_MS = 200;

onmessage = async ({data: source}) => {
  try {
    const timeline = await read(source);
    postMessage(timeline, timeline.rows.flatMap(row => [row.begins.buffer, row.ends.buffer, row.names.buffer]));
  } catch (error) {
    postMessage({problem: error.message});
  }
};

async function read(source) {
  const response = await fetch(source);
  if (!response.ok) throw new Error(await response.text());
  const name = new URL(source, location).searchParams.get("file");
  const counted = response.body.pipeThrough(counting(Number(response.headers.get("Content-Length"))));
  const body = name.endsWith(".gz") ? counted.pipeThrough(new DecompressionStream("gzip")) : counted;
  const passes = new Passes();
  const format = /\.pftrace(\.gz)?$/.test(name) ? new PerfettoTrace(passes) : new ChromeTrace(passes);
  for (const reader = body.getReader(); ;) {
    const {done, value} = await reader.read();
    if (done) break;
    format.take(value);
  }
  format.finish();
  return passes.inRows();
}

// Tell the page how much there is, and how much has come.
function counting(total) {
  let loaded = 0, told = 0;
  return new TransformStream({transform(piece, out) {
    loaded += piece.length;
    if (performance.now() > told + TOLD_MS) {
      told = performance.now();
      postMessage({loaded, total});
    }
    out.enqueue(piece);
  }});
}

// --- what is kept of a timeline

// Numbers, as many as come.
class Column {
  constructor(kind) { [this.values, this.length] = [new kind(256), 0]; }
  push(value) {
    if (this.length === this.values.length) {
      const longer = new this.values.constructor(2 * this.length);
      longer.set(this.values);
      this.values = longer;
    }
    this.values[this.length++] = value;
  }
}

class Passes {
  constructor() { [this.processes, this.tracks, this.names, this.numbers] = [new Map(), new Map(), [], new Map()]; }

  numberOf(name) {
    let number = this.numbers.get(name);
    if (number === undefined) this.numbers.set(name, number = this.names.push(name) - 1);
    return number;
  }

  track(key) {
    let track = this.tracks.get(key);
    if (!track) {
      track = {pid: null, thread: "", open: [], begins: new Column(Float64Array), ends: new Column(Float64Array), names: new Column(Uint32Array)};
      this.tracks.set(key, track);
    }
    return track;
  }

  add(track, begin, end, name) {
    track.begins.push(begin);
    track.ends.push(end);
    track.names.push(name);
  }

  inRows() {
    const rows = [];
    let first = Infinity, last = -Infinity;
    for (const track of this.tracks.values()) {
      const process = this.processes.get(track.pid) ?? `process ${track.pid}`;
      for (const row of levels(track)) {
        rows.push({process, thread: track.thread, ...row});
        first = Math.min(first, row.begins[0]);
        last = Math.max(last, row.ends.at(-1));
      }
    }
    return {rows, names: this.names, first, last};
  }
}

// Return the passes of a track by their depth.
function levels({begins: {values: begins, length}, ends: {values: ends}, names: {values: names}}) {
  const order = sorted(begins, ends, length), depths = new Uint16Array(length), open = [], counts = [];
  for (let i = 0; i < length; i++) {
    const pass = order ? order[i] : i;
    while (open.length && open.at(-1) <= begins[pass] + 1e-3) open.pop();
    counts[open.length] = (counts[open.length] ?? 0) + 1;
    depths[pass] = open.length;
    open.push(ends[pass]);
  }
  const rows = counts.map((count, depth) => (
    {depth, begins: new Float64Array(count), ends: new Float64Array(count), names: new Uint32Array(count)}
  ));
  const filled = counts.map(() => 0);
  for (let i = 0; i < length; i++) {
    const pass = order ? order[i] : i, row = rows[depths[pass]], place = filled[depths[pass]]++;
    [row.begins[place], row.ends[place], row.names[place]] = [begins[pass], ends[pass], names[pass]];
  }
  return rows;
}

// Return the order by beginnings, outer ones first; null: they are in it.
function sorted(begins, ends, length) {
  const compare = (a, b) => begins[a] - begins[b] || ends[b] - ends[a];
  for (let i = 1; i < length; i++) {
    if (compare(i - 1, i) > 0) return Uint32Array.from({length}, (_, number) => number).sort(compare);
  }
  return null;
}
