// The columns of the map of ranks and modules, and what each has in a unit.

import type { Calls } from "./calls.ts";
import type { UnitData } from "./unit.ts";

const MOST = 40;
const BINS = 40;

export interface Column {
  label: string;
  /** The paths of the modules in it; none where columns are parts of the step. */
  paths: string[];
}

export interface Cell {
  severity: number;
  excess: number;
  /** The call to which the cell leads. */
  call: number;
}

export interface Columns {
  columns: Column[];
  isOfModules: boolean;
}

/** The columns for the calls of a layout: modules of one depth as far as they are not too many, then layers that are
 * counted taken together; where there are no modules, parts of the step. */
export function columnsOf(calls: Calls): Columns {
  let paths: string[] = [];
  for (let depth = 1; depth < 12; depth++) {
    const deeper = pathsAt(calls, depth);
    if (deeper.join() === paths.join()) break; // No module is deeper.
    const columns = gathered(deeper);
    if (columns.length > MOST) break;
    if (deeper.length > MOST) return { columns, isOfModules: true };
    paths = deeper;
  }
  if (paths.length > 1) return { columns: paths.map((path) => ({ label: path, paths: [path] })), isOfModules: true };
  return { columns: binsOf(calls.size), isOfModules: false };
}

function binsOf(size: number): Column[] {
  const bins = Math.min(BINS, Math.max(1, size));
  return Array.from({ length: bins }, (_, i) => {
    const [from, to] = [Math.ceil((i * size) / bins), Math.ceil(((i + 1) * size) / bins) - 1];
    return { label: from === to ? String(from) : `${from}–${to}`, paths: [] };
  });
}

function cut(path: string, depth: number): string {
  return path.split(".", depth).join(".");
}

function pathsAt(calls: Calls, depth: number): string[] {
  const paths = new Set<string>();
  for (let call = 0; call < calls.size; call++) {
    const { path } = calls.partsOf(call);
    if (path) paths.add(cut(path, depth));
  }
  return [...paths];
}

/** Paths as columns, those that end in a number (layers of one list) taken together so that there are not too many. */
function gathered(paths: string[]): Column[] {
  const lists = new Map<string, string[]>();
  for (const path of paths) {
    const list = /^(.*)\.\d+$/.exec(path)?.[1];
    const key = list === undefined ? path : `${list}.`;
    const held = lists.get(key);
    if (held) held.push(path);
    else lists.set(key, [path]);
  }
  const counted = [...lists.values()].filter((list) => list.length > 1).length;
  const each = Math.max(1, Math.floor((MOST - (lists.size - counted)) / Math.max(1, counted)));
  return [...lists.values()].flatMap((list) => {
    const size = Math.ceil(list.length / each);
    const parts = Array.from({ length: Math.ceil(list.length / size) }, (_, i) => list.slice(i * size, (i + 1) * size));
    return parts.map((part) => ({ label: rangeOf(part), paths: part }));
  });
}

function rangeOf(paths: string[]): string {
  const last = paths[paths.length - 1];
  return paths.length === 1 ? last : `${paths[0]}–${last.slice(last.lastIndexOf(".") + 1)}`;
}

/** The column of each call, of the innermost module around it; -1 for none. */
export function assigned(calls: Calls, { columns, isOfModules }: Columns): Int32Array {
  const of = new Int32Array(calls.size).fill(-1);
  if (!isOfModules) {
    for (let call = 0; call < calls.size; call++) of[call] = Math.floor((call * columns.length) / calls.size);
    return of;
  }
  const numbers = new Map(columns.flatMap(({ paths }, i) => paths.map((path) => [path, i] as const)));
  const depth = Math.max(...columns.map(({ paths }) => paths[0].split(".").length));
  for (const call of calls.order) {
    const { path } = calls.partsOf(call);
    let found = -1;
    for (let parts = depth; path && parts > 0 && found < 0; parts--) found = numbers.get(cut(path, parts)) ?? -1;
    of[call] = found < 0 && calls.parents[call] >= 0 ? of[calls.parents[call]] : found;
  }
  return of;
}

/** What each column has in a unit; null for one without calls. */
export function cellsOf(data: UnitData, of: Int32Array, columns: number): (Cell | null)[] {
  const cells: (Cell | null)[] = new Array(columns).fill(null);
  for (let call = 0; call < of.length; call++) {
    if (of[call] < 0) continue;
    const severity = data.severity[call];
    const excess = data.distance(call) ?? 0;
    const held = cells[of[call]];
    if (!held) cells[of[call]] = { severity, excess, call };
    else {
      if (severity > held.severity) {
        held.severity = severity;
        held.call = call;
      }
      held.excess = Math.max(held.excess, excess);
    }
  }
  return cells;
}
