// Timelines as they are read, piece by piece: what of them is looked at goes to passes (timeline_worker.js).
"use strict";

const LONGEST_EVENT = 1 << 25;

// --- Chrome traces: JSON, of which one event is looked at at a time

class ChromeTrace {
  constructor(passes) {
    [this.passes, this.decoder, this.text, this.at] = [passes, new TextDecoder(), "", 0];
    [this.isInside, this.isOver, this.isText, this.depth, this.begin] = [false, false, false, 0, 0];
  }

  take(bytes) {
    if (this.isOver) return;
    this.text += this.decoder.decode(bytes, {stream: true});
    if (this.text.length > LONGEST_EVENT) throw new Error("it is no timeline");
    if (!this.isInside) {
      const found = /^\s*\[|"traceEvents"\s*:\s*\[/.exec(this.text);
      if (!found) return;
      [this.isInside, this.at] = [true, found.index + found[0].length];
    }
    this.scan();
    const kept = this.depth ? this.begin : this.text.length;
    [this.text, this.at, this.begin] = [this.text.slice(kept), this.at - kept, 0];
  }

  scan() {
    const {text} = this;
    for (; this.at < text.length; this.at++) {
      const letter = text.charCodeAt(this.at);
      if (this.isText) {
        if (letter === 0x5c) this.at++; // what follows a backslash ends nothing
        else if (letter === 0x22) this.isText = false;
      } else if (letter === 0x22) {
        this.isText = true;
      } else if (letter === 0x7b || letter === 0x5b) {
        if (!this.depth++) this.begin = this.at;
      } else if (letter === 0x7d || letter === 0x5d) {
        if (!this.depth) { this.isOver = true; return; }
        if (!--this.depth) this.event(JSON.parse(text.slice(this.begin, this.at + 1)));
      }
    }
  }

  event({ph, name, pid, tid, ts, dur, args}) {
    if (ph === "X" && dur >= 0) {
      const track = this.passes.track(`${pid}/${tid}`);
      track.pid = pid;
      this.passes.add(track, ts, ts + dur, this.passes.numberOf(name));
    }
    if (ph === "M" && name === "process_name") this.passes.processes.set(pid, args.name);
    if (ph === "M" && name === "thread_name") this.passes.track(`${pid}/${tid}`).thread = args.name;
  }

  finish() { if (!this.isOver) throw new Error("it is no timeline, or not whole"); }
}

// --- Perfetto's own format: packets of fields, each with its number in front

class Fields {
  constructor(data, at, end) { [this.data, this.at, this.end] = [data, at, end]; }

  // Go to the next field: its number is in field, its value in value, or between begin and at.
  next() {
    if (this.at >= this.end) return false;
    const tag = this.integer(), kind = tag % 8;
    this.field = (tag - kind) / 8;
    if (kind === 0) this.value = this.integer();
    else {
      const length = kind === 2 ? this.integer() : kind === 1 ? 8 : kind === 5 ? 4 : Infinity;
      this.begin = this.at;
      this.at += length;
    }
    if (this.at > this.end) throw new Error("it is no timeline, or not whole");
    return true;
  }

  integer() {
    for (let value = 0, factor = 1; this.at < this.end; factor *= 128) {
      const byte = this.data[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw new Error("it is no timeline, or not whole");
  }

  inner() { return new Fields(this.data, this.begin, this.at); }
  text() { return new TextDecoder().decode(this.data.subarray(this.begin, this.at)); }
}

const BEGIN = 1, END = 2;

class PerfettoTrace {
  constructor(passes) { [this.passes, this.rest, this.names, this.pids, this.last] = [passes, new Uint8Array(), new Map(), new Map(), 0]; }

  take(bytes) {
    const data = new Uint8Array(this.rest.length + bytes.length);
    data.set(this.rest);
    data.set(bytes, this.rest.length);
    let whole = 0;
    for (let end; (end = endOfPacket(data, whole)) <= data.length; whole = end) {
      const fields = new Fields(data, whole, end);
      while (fields.next()) if (fields.field === 1) this.packet(fields.inner());
    }
    this.rest = data.slice(whole);
    if (this.rest.length > LONGEST_EVENT) throw new Error("it is no timeline");
  }

  packet(fields) {
    let time = 0, event = null;
    while (fields.next()) {
      if (fields.field === 8) time = fields.value / 1000;
      else if (fields.field === 11) event = fields.inner();
      else if (fields.field === 12) this.introduce(fields.inner());
      else if (fields.field === 60) this.describe(fields.inner());
    }
    if (event) this.event(event, time);
  }

  introduce(fields) {
    while (fields.next()) {
      if (fields.field !== 2) continue;
      let number = 0, name = "";
      for (const inner = fields.inner(); inner.next();) inner.field === 1 ? number = inner.value : name = inner.text();
      this.names.set(number, this.passes.numberOf(name));
    }
  }

  describe(fields) {
    let uuid = 0, pid = null, process = null, thread = "";
    while (fields.next()) {
      if (fields.field === 1) uuid = fields.value;
      if (fields.field === 2) thread = fields.text();
      if (fields.field === 5) pid = this.pids.get(fields.value) ?? null;
      if (fields.field !== 3 && fields.field !== 4) continue;
      const isProcess = fields.field === 3;
      for (const inner = fields.inner(); inner.next();) {
        if (inner.field === 1) pid = inner.value;
        if (isProcess && inner.field === 6) process = inner.text();
        if (!isProcess && inner.field === 5) thread = inner.text();
      }
    }
    if (process !== null) this.passes.processes.set(pid, process);
    this.pids.set(uuid, pid);
    Object.assign(this.passes.track(uuid), {pid, thread});
  }

  event(fields, time) {
    let kind = 0, uuid = 0, name = 0;
    while (fields.next()) {
      if (fields.field === 9) kind = fields.value;
      else if (fields.field === 10) name = this.names.get(fields.value);
      else if (fields.field === 11) uuid = fields.value;
    }
    if (kind !== BEGIN && kind !== END) return;
    const track = this.passes.track(uuid);
    if (kind === BEGIN) track.open.push(time, name ?? this.passes.numberOf(""));
    else if (track.open.length) {
      const [begin, number] = track.open.splice(-2);
      this.passes.add(track, begin, time, number);
    }
  }

  finish() { if (this.rest.length) throw new Error("it is no timeline, or not whole"); }
}

// Return where the packet ends that begins at a place; Infinity: that is not known yet.
function endOfPacket(data, begin) {
  const fields = new Fields(data, begin, Math.min(data.length, begin + 20));
  try {
    if (fields.integer() % 8 !== 2) throw new SyntaxError("it is no timeline");
    const length = fields.integer();
    return fields.at + length;
  } catch (error) {
    if (error instanceof SyntaxError) throw error;
    return Infinity;
  }
}
