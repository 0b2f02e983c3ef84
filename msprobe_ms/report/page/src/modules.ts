// The columns of the map of ranks and modules, and what each has in a unit.

import type { Calls } from "./calls.ts";
import type { UnitData } from "./unit.ts";

const MOST = 40;
const BINS = 40;

export interface Column {
  key: string;
  label: string;
}

export interface Cell {
  severity: number;
  excess: number;
  /** The call to which the cell leads. */
  call: number;
}

/** The columns for the calls of a layout: modules of one depth as far as they are not too many; where there are no
 * modules, as many parts of the step. `isOfModules` says which. */
export function columnsOf(calls: Calls): { columns: Column[]; isOfModules: boolean } {
  let columns: string[] = [];
  for (let depth = 1; depth < 12; depth++) {
    const keys = keysAt(calls, depth);
    if (keys.length > MOST || keys.length <= columns.length) break;
    columns = keys;
  }
  if (!columns.length) columns = keysAt(calls, 1).slice(0, MOST);
  if (columns.length > 1) return { columns: columns.map((key) => ({ key, label: key })), isOfModules: true };
  const bins = Math.min(BINS, Math.max(1, calls.size));
  const made = Array.from({ length: bins }, (_, i) => {
    const [from, to] = [Math.ceil((i * calls.size) / bins), Math.ceil(((i + 1) * calls.size) / bins) - 1];
    return { key: `#${i}`, label: `${from}–${to}` };
  });
  return { columns: made, isOfModules: false };
}

/** The first parts of a path, the numbers of layers taken with what they count: `blocks.1` for `blocks.1.norm`. */
function keyOf(path: string, depth: number): string {
  return path.split(".", depth).join(".");
}

function keysAt(calls: Calls, depth: number): string[] {
  const keys = new Set<string>();
  for (let call = 0; call < calls.size && keys.size <= MOST; call++) {
    const { path } = calls.partsOf(call);
    if (path) keys.add(keyOf(path, depth));
  }
  return [...keys];
}

/** The column of each call, of the innermost module around it; -1 for none. */
export function assigned(calls: Calls, columns: Column[], isOfModules: boolean): Int32Array {
  const of = new Int32Array(calls.size).fill(-1);
  if (!isOfModules) {
    for (let call = 0; call < calls.size; call++) of[call] = Math.floor((call * columns.length) / calls.size);
    return of;
  }
  const numbers = new Map(columns.map(({ key }, i) => [key, i]));
  const depth = Math.max(...columns.map(({ key }) => key.split(".").length));
  for (let place = 0; place < calls.size; place++) {
    const call = calls.order[place];
    const { path } = calls.partsOf(call);
    let found = -1;
    for (let parts = depth; path && parts > 0 && found < 0; parts--) found = numbers.get(keyOf(path, parts)) ?? -1;
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
