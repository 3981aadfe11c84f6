// Formats numbers for people.

const byte_units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Returns the power of 1,024 with which a number of bytes is short.
function byteUnit(count: number): number {
  let at = 0;
  for (let value = Math.abs(count); value >= 1024 && at < byte_units.length - 1; value /= 1024) at += 1;
  return at;
}

const inUnit = (count: number, unit: number) => {
  const value = count / 1024 ** unit;
  return unit === 0 || Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(1);
};

export function bytes(count: number): string {
  if (!Number.isFinite(count)) return "unknown";
  const unit = byteUnit(count);
  return `${inUnit(count, unit)} ${byte_units[unit]}`;
}

// "61.9 of 80.0 GiB"
export function bytesOf(part: number, whole: number): string {
  const unit = byteUnit(whole);
  return `${inUnit(part, unit)} of ${inUnit(whole, unit)} ${byte_units[unit]}`;
}

export function duration(ms: number): string {
  const sign = ms < 0 ? "-" : "";
  const seconds = Math.abs(ms) / 1000;
  if (seconds < 1) return `${sign}${Math.round(Math.abs(ms))} ms`;
  if (seconds < 10) return `${sign}${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${sign}${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${sign}${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${sign}${hours} h ${minutes % 60} min`;
  return `${sign}${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function percent(ratio: number): string {
  if (!Number.isFinite(ratio)) return "unknown";
  const value = ratio * 100;
  return `${value > 0 && value < 10 && value % 1 !== 0 ? value.toFixed(1) : Math.round(value)} %`;
}

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "none";
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

export function plural(count: number, singular: string, many = `${singular}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? singular : many}`;
}

// "CPU 8, GPU 2"
export function resources(amounts: Record<string, string>): string {
  const named = Object.entries(amounts).map(([name, amount]) => `${name} ${name === "memory" ? bytes(Number(amount)) : amount}`);
  return named.length === 0 ? "none" : named.join(", ");
}
