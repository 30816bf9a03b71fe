// Reads a timeline beside the page, which stays quick meanwhile: 100 MB take some seconds.
// Passes of each track become rows of arrays, a row for each depth: in a row nothing overlaps, so it can be searched.
"use strict";

onmessage = async ({data: source}) => {
  try {
    postMessage(await read(source), transferables);
  } catch (error) {
    postMessage({problem: String(error)});
  }
};

const transferables = [];

async function read(source) {
  const response = await fetch(source);
  if (!response.ok) throw new Error(await response.text());
  const isPacked = new URL(source, location).searchParams.get("file").endsWith(".gz");
  const body = isPacked ? response.body.pipeThrough(new DecompressionStream("gzip")) : response.body;
  const document = JSON.parse(await new Response(body).text());
  const events = Array.isArray(document) ? document : document.traceEvents;
  const processes = new Map(), threads = new Map(), tracks = new Map();
  for (const event of events) {
    const track = `${event.pid}/${event.tid}`;
    if (event.ph === "M" && event.name === "process_name") processes.set(event.pid, event.args.name);
    if (event.ph === "M" && event.name === "thread_name") threads.set(track, event.args.name);
    if (event.ph === "X" && event.dur >= 0) (tracks.get(track) ?? tracks.set(track, {pid: event.pid, passes: []}).get(track)).passes.push(event);
  }
  const names = [], numbers = new Map();
  const numberOf = name => {
    if (!numbers.has(name)) numbers.set(name, names.push(name) - 1);
    return numbers.get(name);
  };
  const rows = [];
  let first = Infinity, last = -Infinity;
  for (const [track, {pid, passes}] of tracks) {
    passes.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
    const levels = [], ends = [];
    for (const pass of passes) {
      while (ends.length && ends.at(-1) <= pass.ts + 1e-3) ends.pop();
      (levels[ends.length] ??= []).push(pass);
      ends.push(pass.ts + pass.dur);
      first = Math.min(first, pass.ts);
      last = Math.max(last, pass.ts + pass.dur);
    }
    levels.forEach((level, depth) => {
      const row = {
        process: processes.get(pid) ?? `process ${pid}`, thread: threads.get(track) ?? "", depth,
        begins: Float64Array.from(level, pass => pass.ts), ends: Float64Array.from(level, pass => pass.ts + pass.dur),
        names: Uint32Array.from(level, pass => numberOf(pass.name)),
      };
      transferables.push(row.begins.buffer, row.ends.buffer, row.names.buffer);
      rows.push(row);
    });
  }
  return {rows, names, first, last};
}
