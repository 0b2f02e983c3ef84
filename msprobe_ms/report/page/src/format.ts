// Numbers, names and shapes as text.

// Controls, marks of direction, what has no width, and halves of pairs: what is unseen or changes how the rest is read.
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const LONGEST = 4000;

function escaped(one: string): string {
  return `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A foreign text as it is shown: unseen characters as `\u202e`, and cut where nobody would read on. */
export function shown(text: string): string {
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length})` : text;
  return short.replace(UNSEEN, escaped);
}

/** A foreign line of source: the same, with tabs as spaces. */
export function sourceLine(text: string): string {
  return shown(text.replaceAll("\t", "    "));
}

/** A number with up to five digits that count. */
export function short(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return shown(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(5)));
  return value
    .toExponential(3)
    .replace(/\.?0+e/, "e")
    .replace("e+", "e");
}

/** A number, with as many digits as tell it from `other`. */
export function told(value: number | string | null | undefined, other: number | string | null | undefined): string {
  const text = short(value);
  if (typeof value !== "number" || typeof other !== "number" || value === other || text !== short(other)) return text;
  for (let digits = 6; digits < 17; digits++) {
    if (value.toPrecision(digits) !== other.toPrecision(digits)) return value.toPrecision(digits).replace("e+", "e");
  }
  return String(value);
}

/** A measure: a number, or one in percent as the tables have it. */
export function measured(value: number | string | null): string {
  const percent = typeof value === "string" ? /^(-?\d[\d.]*(?:e[+-]?\d+)?)%$/.exec(value) : null;
  return percent ? `${short(Number(percent[1]))}%` : short(value);
}

/** A number with thousands apart: 20 000. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function shape(dimensions: number[] | undefined): string {
  return dimensions ? `[${dimensions.join(", ")}]` : "";
}

export interface NameParts {
  /** What tells it from its neighbours in the tree. */
  label: string;
  /** The class, or the family of an API. */
  of: string;
  /** The number of the call, "" for none. */
  number: string;
  /** The path of a module, "" for what is none. */
  path: string;
}

const OF_MODULE = /^(?:Cell|Module)\.(.+)\.([^.]+)\.(?:forward|backward|parameters_grad)(?:\.(\d+))?$/;
const OF_GRADIENTS = /^(?:Cell|Module)\.(.+)\.([^.]+)\.parameters_grad$/;
const OF_API = /^([A-Za-z_]\w*)\.(.+)\.(\d+)\.(?:forward|backward)$/;

/** The parts of a name of a call; a name of another form is its own label. */
export function partsOf(name: string): NameParts {
  const module = OF_MODULE.exec(name) ?? OF_GRADIENTS.exec(name);
  if (module) {
    const [, path, kind, number] = module;
    return { label: path, of: kind, number: number ?? "", path };
  }
  const api = OF_API.exec(name);
  if (api) return { label: api[2], of: api[1], number: api[3], path: "" };
  return { label: name, of: "", number: "", path: "" };
}

/** The label of a call inside another one: `norm2` for `blocks.1.norm2` inside `blocks.1`. */
export function labelInside(parts: NameParts, outer: NameParts | null): string {
  if (parts.path && outer?.path && parts.path.startsWith(`${outer.path}.`)) {
    return parts.path.slice(outer.path.length + 1);
  }
  return parts.label;
}
