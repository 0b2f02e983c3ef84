// The calls of a layout as a tree. Everything walks, nothing recurses: nesting may be ten thousand deep.

import type { Layout } from "./document.ts";
import { type NameParts, partsOf } from "./format.ts";

/** Calls, and how they are nested.
 *
 * `order` has the calls with each before those inside it; `at[call]` is the place of a call in it, and the calls inside
 * are those up to the place `end[call]`. A parent that would close a circle is none. */
export class Calls {
  readonly size: number;
  readonly parents: Int32Array;
  readonly children: number[][] = [];
  readonly roots: number[] = [];
  readonly depth: Int32Array;
  readonly order: Int32Array;
  readonly at: Int32Array;
  readonly end: Int32Array;
  /** The micro steps, where there are several, with the calls at the top of each. */
  readonly micro: { step: number; roots: number[] }[] = [];
  private readonly numbers = new Map<string, number>();
  private readonly parts: (NameParts | undefined)[];

  constructor(readonly layout: Layout) {
    const size = layout.names.length;
    this.size = size;
    this.parts = new Array(size);
    this.parents = new Int32Array(size).fill(-1);
    this.depth = new Int32Array(size);
    this.order = new Int32Array(size);
    this.at = new Int32Array(size).fill(-1);
    this.end = new Int32Array(size);
    this.nest();
    this.walk();
    this.divide();
    for (let call = size - 1; call >= 0; call--) this.numbers.set(layout.names[call], call);
  }

  private nest(): void {
    const given = this.layout.parents;
    for (let call = 0; call < this.size; call++) this.children.push([]);
    for (let call = 0; call < this.size; call++) {
      const parent = given[call] ?? -1;
      const isCall = parent >= 0 && parent < this.size && parent !== call;
      this.parents[call] = isCall ? parent : -1;
      if (isCall) this.children[parent].push(call);
      else this.roots.push(call);
    }
  }

  private walk(): void {
    let place = this.walkFrom(this.roots, 0);
    for (let call = 0; place < this.size && call < this.size; call++) {
      if (this.at[call] >= 0) continue; // What is left is in a circle: it is opened here.
      const siblings = this.children[this.parents[call]];
      siblings.splice(siblings.indexOf(call), 1);
      this.parents[call] = -1;
      this.roots.push(call);
      place = this.walkFrom([call], place);
    }
  }

  private walkFrom(roots: number[], place: number): number {
    let next = place;
    const open: number[] = []; // Calls on the way, and ~call where one ends.
    for (let i = roots.length - 1; i >= 0; i--) open.push(roots[i]);
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      if (one < 0) {
        this.end[~one] = next;
        continue;
      }
      this.order[next] = one;
      this.at[one] = next++;
      this.depth[one] = this.parents[one] < 0 ? 0 : this.depth[this.parents[one]] + 1;
      open.push(~one);
      const inside = this.children[one];
      for (let i = inside.length - 1; i >= 0; i--) open.push(inside[i]);
    }
    return next;
  }

  private divide(): void {
    const micro = this.layout.micro;
    if (!micro?.length) return;
    const steps = new Map<number, number[]>();
    for (const call of this.roots) {
      const step = micro[call] ?? 0;
      const roots = steps.get(step);
      if (roots) roots.push(call);
      else steps.set(step, [call]);
    }
    if (steps.size < 2) return;
    for (const [step, roots] of steps) this.micro.push({ step, roots });
  }

  name(call: number): string {
    return this.layout.names[call];
  }

  golden(call: number): string {
    return this.layout.golden?.[call] ?? "";
  }

  find(name: string): number {
    return this.numbers.get(name) ?? -1;
  }

  partsOf(call: number): NameParts {
    const held = this.parts[call] ?? partsOf(this.layout.names[call]);
    this.parts[call] = held;
    return held;
  }

  direction(call: number): string {
    return this.layout.directions[call] ?? ".";
  }

  kind(call: number): string {
    return this.layout.kinds[call] ?? "a";
  }

  /** The calls around a call, the outermost first. */
  path(call: number): number[] {
    const around: number[] = [];
    for (let one = this.parents[call]; one >= 0; one = this.parents[one]) around.push(one);
    return around.reverse();
  }
}
