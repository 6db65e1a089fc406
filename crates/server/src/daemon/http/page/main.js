// Asks the server every two seconds, and has what it says drawn. Nothing is kept beyond the half hour that the server
// keeps itself, so a page that is opened late shows as much as one that was open all the time.

import { Heat } from "./heat.js";
import { clients, datasets, messages, pool } from "./tables.js";
import { age, clock, count, element, size, time } from "./words.js";

const INTERVAL_MS = 2000;
const TIMEOUT_MS = 8000;
// Nobody reads ten thousand lines, and no browser draws them every two seconds.
const DATASETS_MAX = 100;

const at = (id) => document.getElementById(id);
const heat = new Heat(at("heat"), at("heat-read"));
let samples = [];
let next = 0;
let start = 0;
let lost = null;

for (const kind of ["error", "unhandledrejection"]) {
  addEventListener(kind, () => { document.documentElement.dataset.failed = kind; });
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function look() {
  let [history, seen] = await Promise.all([ask(`api/history?since=${next}`), ask(`api/observation?accounts=none&datasets=${DATASETS_MAX}`)]);
  if (history.start_unix_ms !== start && next > 0) {
    // Another start of the server counts from 0 again.
    history = await ask("api/history?since=0");
    samples = [];
  }
  start = history.start_unix_ms;
  next = history.next;
  samples = samples.concat(history.samples).slice(-history.samples_max);
  return { history, seen };
}

/** What clients hold by NFSv4, where that is spoken and there are any. */
function held(holdings) {
  if (!holdings?.clients) return "";
  const late = holdings.courtesy ? `, ${holdings.courtesy} by courtesy` : "";
  return ` · NFSv4: ${holdings.clients} client${holdings.clients === 1 ? "" : "s"}${late}, ${holdings.opens} open, ${holdings.locks} locked`;
}

/** Pools in which nothing new is opened by NFSv4 until clients have claimed what they had before this start. */
function graces(holdings) {
  return (holdings?.graces ?? []).map((grace) => element("p", "notice warn", `${grace.pool}: waits up to ${age(grace.seconds_left)} for ${grace.clients - grace.came} of ${grace.clients} NFSv4 clients that had files open before this start. Until then nothing else is opened or locked.`));
}

function show({ history, seen }) {
  heat.show(samples, history.bucket_ns);
  at("server").textContent = `${location.host} · up ${age(seen.uptime_seconds)} · ${seen.ops.connections} connection${seen.ops.connections === 1 ? "" : "s"}${held(seen.holdings)}`;
  tiles(seen);
  at("notices").replaceChildren(...seen.pools.flatMap(messages), ...exposures(seen), ...graces(seen.holdings));
  keepingPlace(at("pools"), seen.pools.map((found) => pool(found, samples)));
  clients(at("clients").tBodies[0], history.busiest, history.busiest_seconds);
  datasets(at("datasets").tBodies[0], seen.datasets, seen.dataset_count);
}

/** Exchanges content, and leaves the focus and what was scrolled where they were. */
function keepingPlace(parent, children) {
  const regions = () => [...parent.querySelectorAll(".scroll")];
  const places = regions().map((region) => [region.scrollLeft, region === document.activeElement]);
  parent.replaceChildren(...children);
  regions().forEach((region, index) => {
    const [left, focused] = places[index] ?? [0, false];
    region.scrollLeft = left;
    if (focused) region.focus({ preventScroll: true });
  });
}

function exposures(seen) {
  return seen.pools.filter((found) => found.exposure.bytes > 0).map((found) => element("p", "notice warn",
    `${found.name}: a power cut now would take ${size(found.exposure.bytes)} that clients were told is safe, because of sync=disabled.`));
}

function tiles(seen) {
  const newest = samples.at(-1);
  const rate = (value) => (newest ? value / newest.seconds : 0);
  const sum = (of) => seen.pools.reduce((total, found) => total + of(found), 0);
  const exposed = sum((found) => found.exposure.bytes);
  const made = [
    ["Calls", newest ? `${count(rate(newest.calls))}/s` : "–", newest ? `${count(rate(newest.commits))} durable/s` : ""],
    ["Modifying requests", newest ? time(newest.request.p50_ns) : "–", newest ? `p99 ${time(newest.request.p99_ns)}` : ""],
    ["Log’s device", newest ? time(newest.device.p50_ns) : "–", newest ? `p99 ${time(newest.device.p99_ns)}` : ""],
    ["Log", newest ? `${size(rate(newest.log_bytes))}/s` : "–", newest?.frames ? `${(newest.commits / newest.frames).toFixed(2)} requests a frame` : "no frames"],
    ["Files", newest ? `${size(rate(newest.written_bytes))}/s` : "–", newest ? `written; ${size(rate(newest.read_bytes))}/s read` : ""],
    ["Dirty", size(sum((found) => found.dirty_bytes)), `of ${size(sum((found) => found.dirty_bytes_max))}`],
    ["Exposed", exposed ? size(exposed) : "none", exposed ? "a power cut would take it" : "all that was promised is safe"],
  ];
  at("tiles").replaceChildren(...made.map(([label, value, more]) => element("div", label === "Exposed" && exposed ? "tile warn" : "tile",
    element("div", "label", label), element("div", "value", value), element("div", "more", more))));
}

function connected() {
  lost = null;
  document.body.classList.remove("stale");
  at("unreachable").hidden = true;
  at("link").className = "live";
  const words = "live, every 2 s";
  if (at("link").textContent !== words) at("link").textContent = words;
}

function unreachable(error) {
  console.info(String(error));
  lost ??= Date.now();
  document.body.classList.add("stale");
  at("link").className = "lost";
  at("link").textContent = "not connected";
  const words = `The server has not answered since ${clock(lost)}. What is below is from before; this page keeps asking.`;
  if (at("unreachable").textContent !== words) at("unreachable").textContent = words;
  at("unreachable").hidden = false;
}

async function round() {
  try {
    const looked = await look();
    connected();
    show(looked);
  } catch (error) {
    if (error instanceof TypeError && !/fetch/i.test(error.message)) document.documentElement.dataset.failed = error.message;
    unreachable(error);
  }
  setTimeout(round, INTERVAL_MS);
}

at("heat-source").addEventListener("change", (event) => { heat.choose({ source: event.target.value }); });
at("heat-range").addEventListener("change", (event) => { heat.choose({ range: Number(event.target.value) }); });
round();
