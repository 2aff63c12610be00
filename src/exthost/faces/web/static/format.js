// Formats numbers and times for a person.

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0009995) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  if (value < 86400) return `${Math.floor(value / 3600)} h`;
  return `${Math.floor(value / 86400)} d`;
}

export function ago(time) {
  return time ? seconds(Math.max(0, Date.now() / 1000 - time)) : "–";
}

export function clock(time, withMillis = false) {
  const date = new Date(time * 1000);
  const text = date.toTimeString().slice(0, 8);
  return withMillis ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  if (value < 1048576) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1048576).toFixed(1)} MiB`;
}

export function count(value) {
  return value < 10000 ? String(value) : Intl.NumberFormat("en", { notation: "compact" }).format(value);
}

export function plural(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
