// Numbers as people read them, and elements without markup: what comes from the server only ever becomes text.

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1024;
  return `${three(bytes, at === 0)} ${units[at]}`;
}

/** Bytes or calls in a second. */
export function count(number) {
  if (number < 1e4) return number < 10 && number > 0 ? number.toFixed(1) : Math.round(number).toLocaleString("en");
  return number < 1e6 ? `${three(number / 1e3)} k` : `${three(number / 1e6)} M`;
}

/** @param {number} ns */
export function time(ns) {
  if (!ns) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${three(ns / 1e3)} µs`;
  if (ns < 1e9) return `${three(ns / 1e6)} ms`;
  return `${three(ns / 1e9)} s`;
}

function three(number, whole = false) {
  return number.toFixed(whole || number >= 100 ? 0 : number >= 10 ? 1 : 2);
}

/** A bound that is a power of two, as the round number that it is near to. */
export function bound(ns) {
  const power = Math.round(Math.log2(ns));
  const unit = power < 20 ? [10, "µs"] : power < 30 ? [20, "ms"] : [30, "s"];
  return `${2 ** (power - unit[0])} ${unit[1]}`;
}

export function clock(unixMs) {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

export function age(seconds) {
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}

export function percent(part) {
  return part > 0 && part < 0.01 ? "<1 %" : `${Math.round(part * 100)} %`;
}

/** An element with a class and children, which are elements or text. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A bar of something that should not be full. */
export function meter(part, words) {
  return bar(part, part > 0.8 ? "meter high" : "meter", words);
}

/** A bar of something of which there is always a whole. */
export function share(part) {
  return bar(part, "meter");
}

/** A screen reader hears the words beside it. */
function bar(part, className, words) {
  const made = element("span", className, element("span"));
  made.firstChild.style.width = `${Math.min(100, Math.max(part > 0 ? 1 : 0, part * 100))}%`;
  made.setAttribute("aria-hidden", "true");
  return element("span", "", made, words ?? percent(part));
}
