// Tables: disks, lanes, clients, datasets.

import { groups, NARROW, spark } from "./charts.js";
import { age, count, element, meter, share, size, time } from "./words.js";

const SPARK_SAMPLES = 90;

export function state(word) {
  const bad = ["SUSPENDED", "UNAVAIL", "FAULTED", "MISSING"];
  return element("span", word === "ONLINE" ? "state" : bad.includes(word) ? "state bad" : "state warn", word);
}

function row(head, ...cells) {
  const name = element("th", "", head);
  name.scope = "row";
  return element("tr", "", name, ...cells);
}

const number = (words) => element("td", "n", words);
const cell = (...children) => element("td", "", ...children);

function table(caption, heads, rows) {
  const head = element("tr", "", ...heads.map(([words, className]) => {
    const made = element("th", className ?? "", words);
    made.scope = "col";
    return made;
  }));
  const made = element("table", "", element("caption", "", element("span", "", caption)), element("thead", "", head), element("tbody", "", ...rows));
  const region = element("div", "scroll", made);
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", caption);
  return region;
}

function nothing(columns, words) {
  const only = element("td", "none", words);
  only.colSpan = columns;
  return element("tr", "", only);
}

/** Everything about one pool: three cards. */
export function pool(found, history) {
  const title = element("h2", "", `Pool ${found.name} `, state(found.state));
  if (found.state === "UNAVAIL") return element("div", "pool", element("section", "card", title, ...messages(found)));
  const left = element("section", "card", title, facts(found), disks(found));
  const legend = element("div", "legend");
  for (const phase of ["open", "quiescing", "syncing"]) legend.append(element("span", `key tall ${phase}`), element("span", "", phase));
  const right = element("section", "card", element("h2", "", `Transaction groups of ${found.name}`), groups(found.txgs), legend);
  const log = element("section", "card wide", element("h2", "", `Intent log of ${found.name}`), lanes(found, history));
  return element("div", "pool", left, right, log);
}

export function messages(found) {
  return found.messages.map((words) => element("p", ["ONLINE", "DEGRADED"].includes(found.state) ? "notice warn" : "notice bad", `${found.name}: ${words}`));
}

function facts(found) {
  const part = (value, whole) => (whole ? value / whole : 0);
  const fact = (name, value) => [element("dt", "", name), element("dd", "", value)];
  return element("dl", "",
    ...fact("Space", meter(part(found.allocated, found.size), `${size(found.allocated)} of ${size(found.size)}`)),
    ...fact("Dirty", meter(part(found.dirty_bytes, found.dirty_bytes_max), `${size(found.dirty_bytes)} of ${size(found.dirty_bytes_max)}`)),
    ...fact("To be written", meter(part(found.ahead_bytes, found.ahead_bytes_max), `${size(found.ahead_bytes)} of ${size(found.ahead_bytes_max)}${found.ahead_waiting ? `, ${found.ahead_waiting} WRITEs wait` : ""}`)),
    ...fact("Newest group", `txg ${found.txg}, imported ${age(found.imported_seconds)} ago${found.read_only ? ", read-only" : ""}`));
}

function disks(found) {
  const rows = [];
  for (const vdev of found.vdevs) {
    rows.push(disk(vdev, ""));
    for (const leg of vdev.children) rows.push(disk(leg, "leg"));
  }
  return table("Disks, and errors since the import",
    [["Name"], ["State"], ["Read", "n"], ["Write", "n"], ["Cksum", "n"], ["Written", "n"]], rows);
}

function disk(vdev, className) {
  const name = element("span", className, shorter(vdev.name));
  name.title = vdev.name;
  if (!className && vdev.class !== "data") name.append(element("span", "class", ` ${vdev.class}`));
  const errors = (many) => element("td", many ? "n errors" : "n", String(many));
  const { read, write, checksum } = vdev.errors;
  return row(name, cell(state(vdev.state)), errors(read), errors(write), errors(checksum), number(size(vdev.io.write_bytes)));
}

/** The end of a path says which disk it is. On a phone the error counts have to fit beside it. */
function shorter(name) {
  const most = NARROW.matches ? 15 : 28;
  return name.length > most ? `…${name.slice(1 - most)}` : name;
}

function lanes(found, history) {
  const rows = found.lanes.map((lane) => {
    const of = (sample) => sample.lanes.find((other) => other.lane === lane.lane && other.pool === found.name);
    const recent = history.slice(-SPARK_SAMPLES);
    const p99 = recent.map((sample) => of(sample)?.p99_ns ?? 0);
    const newest = recent.length ? of(recent.at(-1)) : undefined;
    const seconds = recent.at(-1)?.seconds ?? 1;
    const device = newest?.frames ? `${time(newest.p50_ns)} / ${time(newest.p99_ns)}` : "–";
    return row(String(lane.lane),
      cell(meter(lane.size ? lane.used / lane.size : 0)),
      number(count((newest?.frames ?? 0) / seconds)),
      number(lane.frames ? (lane.records / lane.frames).toFixed(2) : "–"),
      number(device),
      cell(spark(p99, `Device, 99th percentile, over ${Math.round((recent.length * seconds) / 60)} minutes; highest ${time(Math.max(...p99, 0))}`)));
  });
  return table("Lanes: their rings, and how long the device takes",
    [["Lane"], ["Fill"], ["Frames/s", "n"], ["Records/frame", "n"], ["Device p50 / p99", "n"], ["p99 over 3 min"]], rows);
}

export function clients(body, busiest, seconds) {
  const all = busiest.reduce((sum, one) => sum + one.wait_ns, 0);
  const rate = (value) => value / Math.max(seconds, 0.001);
  body.replaceChildren(...busiest.map((one) => row(one.client === "*" ? "all others" : one.client,
    cell(one.dataset),
    cell(share(all ? one.wait_ns / all : 0)),
    number(count(rate(one.calls))),
    number(count(rate(one.commits))),
    number(one.commits ? time(one.wait_ns / one.commits) : "–"),
    number(size(rate(one.data_bytes))),
    number(size(rate(one.frame_bytes))))));
  if (!busiest.length) body.append(nothing(8, "Nobody has called."));
}

export function datasets(body, all, total) {
  body.replaceChildren(...all.map((found) => {
    const exposed = found.exposed_bytes > 0
      ? element("span", "alarm", `${size(found.exposed_bytes)}, ${age(found.exposed_seconds)} old`)
      : found.sync === "disabled" ? "none now" : "none";
    return row(found.name,
      cell(found.sync === "disabled" ? element("span", "alarm", "disabled") : found.sync),
      cell(exposed), number(size(found.used)), number(size(found.available)), cell(found.exportpath));
  }));
  if (!all.length) body.append(nothing(6, "There is no dataset."));
  if (total > all.length) body.append(nothing(6, `${total - all.length} more use less. \`tally dataset list\` shows all.`));
}

