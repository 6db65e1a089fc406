// The heat map: a column is a time, a row a doubling of latency, and the colour says which part of the column's requests
// took that long. A mean would hide what this is for: two speeds at once.

import { bound, clock, count, percent, time } from "./words.js";

const ROWS_MIN = 7;
const COLUMN_PX_MIN = 3;
const LEFT = 52, BOTTOM = 18, RATE = 26, GAP = 6;

export class Heat {
  constructor(canvas, readout) {
    this.canvas = canvas;
    this.readout = readout;
    this.samples = [];
    this.bounds = [];
    this.source = "request";
    this.range = 150;
    this.cursor = null;
    this.followers();
  }

  followers() {
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerleave", () => this.moveTo(null));
    this.canvas.addEventListener("blur", () => this.moveTo(null));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step || !this.columns?.length) return;
      event.preventDefault();
      const from = this.cursor ?? { column: this.columns.length - 1, row: this.busiestRow() };
      this.moveTo({ column: from.column + step[0], row: from.row + step[1] });
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(samples, bounds) {
    this.samples = samples;
    this.bounds = bounds;
    this.draw();
    // Columns wander to the left below a cursor that stays.
    if (this.cursor) this.moveTo(this.cursor);
  }

  /** Another distribution, or another time. */
  choose(what) {
    Object.assign(this, what);
    this.moveTo(null);
  }

  /** Puts samples together until a column is wide enough to be seen. Its place is a matter of its number, so that
   *  columns do not change while they wander to the left. */
  gather() {
    const width = this.canvas.clientWidth - LEFT;
    const each = Math.max(1, Math.ceil((this.range * COLUMN_PX_MIN) / Math.max(width, 1)));
    const last = Math.floor((this.samples.at(-1)?.number ?? 0) / each);
    const total = Math.ceil(this.range / each);
    this.columns = Array.from({ length: total }, () => null);
    for (const sample of this.samples) {
      const at = total - 1 - (last - Math.floor(sample.number / each));
      if (at < 0) continue;
      const column = (this.columns[at] ??= { counts: this.bounds.map(() => 0).concat(0), seconds: 0, sum: 0, p50: 0, p99: 0, end: 0 });
      const times = sample[this.source];
      times.counts.forEach((number, row) => { column.counts[row] += number; column.sum += number; });
      column.seconds += sample.seconds;
      column.end = sample.unix_ms;
      if (times.p99_ns >= column.p99) [column.p50, column.p99] = [times.p50_ns, times.p99_ns];
    }
  }

  /** The rows that anything was in, and some around them. */
  rows() {
    const used = this.bounds.concat(0).map((_, row) => this.columns.some((column) => column?.counts[row]));
    let low = used.indexOf(true), high = used.lastIndexOf(true);
    if (low < 0) [low, high] = [3, 9];
    low = Math.max(0, low - 1);
    high = Math.min(this.bounds.length, high + 1);
    while (high - low + 1 < ROWS_MIN) high < this.bounds.length ? high++ : low--;
    return { low, high };
  }

  busiestRow() {
    const counts = this.columns.at(-1)?.counts ?? [0];
    return counts.indexOf(Math.max(...counts));
  }

  draw() {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !this.bounds.length) return;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    this.gather();
    const paint = canvas.getContext("2d");
    paint.scale(scale, scale);
    const { low, high } = this.rows();
    const bottom = height - BOTTOM - RATE - GAP;
    this.place = { low, high, bottom, row: bottom / (high - low + 1), column: (width - LEFT) / this.columns.length };
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ramp = [0, 1, 2, 3, 4].map((step) => parts(colour(`--heat-${step}`)));
    paint.fillStyle = colour("--empty");
    paint.fillRect(LEFT, 0, width - LEFT, bottom);
    this.cells(paint, ramp);
    this.axes(paint, colour("--muted"), colour("--line"), width, height);
    this.rates(paint, colour("--rate"), colour("--muted"), height - BOTTOM);
    this.line(paint, colour("--p99"), colour("--empty"));
    this.mark(paint, colour("--cursor"));
  }

  cells(paint, ramp) {
    const { low, high, bottom, row, column } = this.place;
    this.columns.forEach((found, at) => {
      if (!found?.sum) return;
      for (let step = low; step <= high; step++) {
        const share = found.counts[step] / found.sum;
        if (!share) continue;
        paint.fillStyle = mixed(ramp, Math.sqrt(share));
        paint.fillRect(LEFT + at * column, bottom - (step - low + 1) * row, Math.ceil(column), Math.ceil(row) - 0.5);
      }
    });
  }

  axes(paint, text, line, width, height) {
    const { low, high, bottom, row } = this.place;
    paint.font = "11px system-ui, sans-serif";
    paint.fillStyle = text;
    paint.strokeStyle = line;
    paint.textAlign = "right";
    paint.textBaseline = "middle";
    const every = row < 15 ? 2 : 1;
    for (let step = low; step < high; step += every) {
      const y = bottom - (step - low + 1) * row;
      paint.fillText(bound(this.bounds[step]), LEFT - 6, y);
    }
    paint.textBaseline = "bottom";
    const seconds = this.range * 2;
    const marks = width < 500 ? 2 : 5;
    for (let mark = 0; mark <= marks; mark++) {
      const x = LEFT + ((width - LEFT) * mark) / marks;
      const ago = Math.round((seconds * (marks - mark)) / marks);
      paint.textAlign = mark === 0 ? "left" : mark === marks ? "right" : "center";
      paint.fillText(ago === 0 ? "now" : ago % 60 ? `−${Math.floor(ago / 60)}:${String(ago % 60).padStart(2, "0")}` : `−${ago / 60} min`, x, height - 2);
    }
  }

  /** Requests in a second, below the map: the colours say shares only. */
  rates(paint, bar, text, bottom) {
    const rate = (column) => (column ? column.sum / column.seconds : 0);
    const most = Math.max(...this.columns.map(rate), 1);
    paint.fillStyle = bar;
    this.columns.forEach((column, at) => {
      const height = (rate(column) / most) * RATE;
      paint.fillRect(LEFT + at * this.place.column, bottom - height, Math.ceil(this.place.column), height);
    });
    paint.fillStyle = text;
    paint.textAlign = "right";
    paint.textBaseline = "top";
    paint.fillText(`${count(most)}/s`, LEFT - 6, bottom - RATE);
  }

  line(paint, colour, halo) {
    const { low, bottom, row, column } = this.place;
    const first = Math.log2(this.bounds[0]) - 1;
    const y = (ns) => bottom - Math.max(0, Math.log2(ns) - first - low) * row;
    for (const [style, width] of [[halo, 4], [colour, 2]]) {
      paint.strokeStyle = style;
      paint.lineWidth = width;
      paint.lineJoin = "round";
      paint.beginPath();
      let drawing = false;
      this.columns.forEach((found, at) => {
        if (!found?.p99) { drawing = false; return; }
        const x = LEFT + (at + 0.5) * column;
        drawing ? paint.lineTo(x, y(found.p99)) : paint.moveTo(x, y(found.p99));
        drawing = true;
      });
      paint.stroke();
    }
  }

  mark(paint, colour) {
    if (!this.cursor) return;
    const { low, bottom, row, column } = this.place;
    paint.strokeStyle = colour;
    paint.lineWidth = 1.5;
    paint.strokeRect(LEFT + this.cursor.column * column, bottom - (this.cursor.row - low + 1) * row, column, row);
  }

  point(x, y) {
    if (!this.place || x < LEFT || y > this.place.bottom) return this.moveTo(null);
    const { low, bottom, row, column } = this.place;
    this.moveTo({ column: Math.floor((x - LEFT) / column), row: low + Math.floor((bottom - y) / row) });
  }

  moveTo(cursor) {
    if (cursor && this.place) {
      cursor.column = Math.min(this.columns.length - 1, Math.max(0, cursor.column));
      cursor.row = Math.min(this.place.high, Math.max(this.place.low, cursor.row));
    }
    this.cursor = cursor;
    this.draw();
    if (cursor) this.readout.textContent = this.words(this.columns[cursor.column], cursor.row);
  }

  words(column, row) {
    if (!column) return "Nothing is known of that time.";
    const from = row === 0 ? "up" : bound(this.bounds[row - 1]);
    const to = row === this.bounds.length ? "more" : bound(this.bounds[row]);
    const share = column.sum ? percent(column.counts[row] / column.sum) : "none";
    return `${clock(column.end)} · ${from} to ${to}: ${share} of ${count(column.sum / column.seconds)}/s · `
      + `median ${time(column.p50)}, 99th percentile ${time(column.p99)}`;
  }
}

function parts(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixed(ramp, part) {
  const place = Math.min(part, 0.9999) * (ramp.length - 1);
  const at = Math.floor(place), rest = place - at;
  const channel = (index) => Math.round(ramp[at][index] * (1 - rest) + ramp[at + 1][index] * rest);
  return `rgb(${channel(0)} ${channel(1)} ${channel(2)})`;
}
