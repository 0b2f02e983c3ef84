// The rows of a table: which are wanted, and in what order.

import { type Cell, type Measured, numberOf, type Table, type Words } from "./document.ts";
import { say } from "./language.ts";
import { LETTERS, lookOf } from "./verdicts.ts";

export interface Order {
  /** A column, or -1 for the verdict. */
  column: number;
  isDown: boolean;
}

/** Whether a cell holds a number; texts that name numbers which are not finite do. */
export function isNumber(value: Cell): boolean {
  return typeof value === "number" || value === "NaN" || value === "Infinity" || value === "-Infinity";
}

const TEXT = new Intl.Collator("en", { numeric: true });

/** Numbers before texts before nothing; NaN after all numbers. */
export function compared(a: Cell, b: Cell): number {
  const kind = (value: Cell) => (value === null || value === "" ? 3 : isNumber(value) ? (value === "NaN" ? 1 : 0) : 2);
  const kinds = kind(a) - kind(b);
  if (kinds || kind(a) === 3 || kind(a) === 1) return kinds;
  if (kind(a) === 0) {
    const [x, y] = [numberOf(a as Measured) as number, numberOf(b as Measured) as number];
    return x === y ? 0 : x < y ? -1 : 1;
  }
  return TEXT.compare(say(a as Words), say(b as Words));
}

const lowered = new WeakMap<Table, string[]>();

/** A cell as text, in both languages. */
function searched(value: Cell): Measured {
  return Array.isArray(value) ? `${say(value, "en")}\n${say(value, "zh")}` : value;
}

/** The text of each row in lower case; made once. */
function textsOf(table: Table): string[] {
  let texts = lowered.get(table);
  if (!texts) {
    texts = table.rows.map((row) => row.map(searched).join("\n").toLowerCase());
    lowered.set(table, texts);
  }
  return texts;
}

/** The numbers of the rows that hold `query` in a cell and have one of `verdicts` (empty: any), in order. */
export function rowsWanted(table: Table, query: string, verdicts: ReadonlySet<string>, order: Order | null): number[] {
  const wanted = query.trim().toLowerCase();
  const texts = wanted ? textsOf(table) : [];
  const rows: number[] = [];
  for (let i = 0; i < table.rows.length; i++) {
    if (verdicts.size && !verdicts.has(table.verdicts?.[i] ?? ".")) continue;
    if (wanted && !texts[i].includes(wanted)) continue;
    rows.push(i);
  }
  if (!order) return rows;
  const sign = order.isDown ? -1 : 1;
  if (order.column < 0) {
    const severity = (row: number) => lookOf(table.verdicts?.[row]).severity;
    return rows.sort((a, b) => sign * (severity(a) - severity(b)) || a - b);
  }
  const cell = (row: number) => table.rows[row][order.column] ?? null;
  return rows.sort((a, b) => {
    const [x, y] = [cell(a), cell(b)];
    if (x === null || y === null) return compared(x, y) || a - b; // What is empty stays last.
    return sign * compared(x, y) || a - b;
  });
}

/** The letters of the verdicts that a table has, the worst first, with their numbers. */
export function verdictsOf(table: Table): [string, number][] {
  const numbers = new Map<string, number>();
  for (const letter of table.verdicts ?? "") numbers.set(letter, (numbers.get(letter) ?? 0) + 1);
  return LETTERS.filter((letter) => numbers.has(letter)).map((letter) => [letter, numbers.get(letter) ?? 0]);
}

/** The widths of the columns in pixels, by what the first rows hold. */
export function widthsOf(table: Table): number[] {
  return table.columns.map((title, column) => {
    let most = say(title).length + 2;
    for (const row of table.rows.slice(0, 200)) {
      const value = row[column];
      most = Math.max(most, typeof value === "number" ? 9 : say(value ?? "").length);
    }
    return Math.min(420, 20 + 7.2 * most);
  });
}
