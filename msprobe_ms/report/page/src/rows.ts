// The rows of the tree: which calls are seen, with what is open and what is looked for.

import type { Calls } from "./calls.ts";
import type { UnitData } from "./unit.ts";

export interface Filter {
  query: string;
  /** Letters of verdicts that are wanted; empty: all. */
  verdicts: ReadonlySet<string>;
  /** f, b or "" for both. */
  direction: string;
  /** The calls of the wanted dtype, or null for all. */
  ofDtype: Uint8Array | null;
  overflow: boolean;
}

export interface Found {
  /** 1 for a call that is wanted, 2 for one that stands around such a call. */
  seen: Uint8Array;
  /** The wanted calls, in execution order. */
  calls: number[];
}

export function isFiltering(filter: Filter): boolean {
  const { query, verdicts, direction, ofDtype, overflow } = filter;
  return Boolean(query.trim() || verdicts.size || direction || ofDtype || overflow);
}

function isWanted(data: UnitData, call: number, filter: Filter, query: string): boolean {
  const { calls } = data;
  if (filter.verdicts.size && !filter.verdicts.has(data.verdict(call))) return false;
  if (filter.direction && calls.direction(call) !== filter.direction) return false;
  if (filter.ofDtype && !filter.ofDtype[call]) return false;
  if (filter.overflow && data.overflow(call) === "." && data.goldenOverflow(call) === ".") return false;
  if (!query) return true;
  return calls.name(call).toLowerCase().includes(query) || calls.golden(call).toLowerCase().includes(query);
}

/** What a filter finds; null where nothing is looked for. */
export function search(data: UnitData, filter: Filter): Found | null {
  if (!isFiltering(filter)) return null;
  const query = filter.query.trim().toLowerCase();
  const { calls } = data;
  const seen = new Uint8Array(calls.size);
  const found: number[] = [];
  for (let call = 0; call < calls.size; call++) {
    if (!isWanted(data, call, filter, query)) continue;
    found.push(call);
    seen[call] = 1;
    for (let around = calls.parents[call]; around >= 0 && !seen[around]; around = calls.parents[around]) {
      seen[around] = 2;
    }
  }
  return { seen, calls: found };
}

/** A row is a call, or ~i for micro step i of the calls. */
export function rowsOf(calls: Calls, open: ReadonlySet<number>, found: Found | null): number[] {
  const rows: number[] = [];
  const put = (roots: number[]) => {
    const waiting = [...roots].reverse();
    for (let call = waiting.pop(); call !== undefined; call = waiting.pop()) {
      if (found && !found.seen[call]) continue;
      rows.push(call);
      const inside = calls.children[call];
      if (found ? !hasInside(calls, found, call) : !open.has(call)) continue;
      for (let i = inside.length - 1; i >= 0; i--) waiting.push(inside[i]);
    }
  };
  if (!calls.micro.length) put(calls.roots);
  calls.micro.forEach(({ roots }, i) => {
    if (found && !roots.some((call) => found.seen[call])) return;
    rows.push(~i);
    if (found || open.has(~i)) put(roots);
  });
  return rows;
}

function hasInside(calls: Calls, found: Found, call: number): boolean {
  return calls.children[call].some((one) => found.seen[one]);
}

/** What must be open so that a call is seen. */
export function openFor(calls: Calls, call: number): number[] {
  const around = calls.path(call);
  const top = around[0] ?? call;
  const step = calls.layout.micro?.[top] ?? 0;
  const micro = calls.micro.findIndex((each) => each.step === step);
  return micro < 0 ? around : [~micro, ...around];
}
