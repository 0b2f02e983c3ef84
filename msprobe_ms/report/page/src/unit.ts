// One step of one rank: its calls with what was found at each.

import type { Calls } from "./calls.ts";
import { type Measured, numberOf, type State, type Unit } from "./document.ts";
import { DIFFERS, letterOf, lookOf } from "./verdicts.ts";

export interface Link {
  place: string;
  call: number;
  other: string;
}

export interface Inside {
  /** How many calls inside have a warning, or an error. */
  differing: number;
  worst: string;
}

/** Numbers by call: NaN where there is none, infinity where one is not finite. */
function column(values: Measured[] | undefined, size: number): Float32Array | null {
  if (!values?.length) return null;
  const numbers = new Float32Array(size).fill(Number.NaN);
  for (let i = 0; i < Math.min(size, values.length); i++) {
    const value = numberOf(values[i]);
    if (value !== null) numbers[i] = Number.isFinite(value) ? value : Number.POSITIVE_INFINITY;
  }
  return numbers;
}

export class UnitData {
  readonly excess: Float32Array | null;
  readonly errors: Float32Array | null;
  readonly noise: Float32Array | null;
  readonly severity: Uint8Array;
  /** By call: the worst severity inside it, itself left out, and how many calls inside differ. */
  private readonly worst: Uint8Array;
  private readonly differing: Int32Array;
  readonly verdicts: string;
  readonly overflows: string;
  readonly goldenOverflows: string;
  readonly links: Links;

  constructor(
    readonly number: number,
    readonly unit: Unit,
    readonly calls: Calls,
    state: State,
  ) {
    const size = calls.size;
    this.excess = column(state.excess, size);
    this.errors = column(state.errors, size);
    this.noise = column(state.noise, size);
    this.verdicts = state.verdicts;
    this.overflows = state.overflow ?? "";
    this.goldenOverflows = state.golden_overflow ?? "";
    this.links = new Links(state.links ?? [], size);
    this.severity = new Uint8Array(size);
    for (let call = 0; call < size; call++) this.severity[call] = lookOf(state.verdicts[call]).severity;
    this.worst = new Uint8Array(size);
    this.differing = new Int32Array(size);
    for (let place = size - 1; place >= 0; place--) {
      const call = calls.order[place];
      const parent = calls.parents[call];
      if (parent < 0) continue;
      this.worst[parent] = Math.max(this.worst[parent], this.worst[call], this.severity[call]);
      this.differing[parent] += this.differing[call] + Number(this.severity[call] >= DIFFERS);
    }
  }

  /** Whether anything of this unit was judged. */
  get isJudged(): boolean {
    return /[^.]/.test(this.verdicts);
  }

  verdict(call: number): string {
    return this.verdicts[call] ?? ".";
  }

  overflow(call: number): string {
    return this.overflows[call] ?? ".";
  }

  goldenOverflow(call: number): string {
    return this.goldenOverflows[call] ?? ".";
  }

  inside(call: number): Inside {
    return { differing: this.differing[call], worst: letterOf(this.worst[call]) };
  }

  /** The distance from the tolerance; null where nothing was measured. */
  distance(call: number): number | null {
    const value = this.excess?.[call];
    return value === undefined || Number.isNaN(value) ? null : value;
  }

  /** Whether a call is one to look at: it differs, or makes what is not finite. */
  isMarked(call: number): boolean {
    return this.severity[call] >= DIFFERS || this.overflow(call) === "c";
  }

  /** The next call to look at from `call` in the direction `by`, in execution order; -1 for none. */
  nextMarked(call: number, by: 1 | -1): number {
    for (let one = call + by; one >= 0 && one < this.calls.size; one += by) if (this.isMarked(one)) return one;
    return -1;
  }

  /** The first of the worst calls inside `call`, or itself. */
  worstInside(call: number): number {
    let found = call;
    for (let place = this.calls.at[call] + 1; place < this.calls.end[call]; place++) {
      const one = this.calls.order[place];
      const more = this.severity[one] - this.severity[found];
      if (more > 0 || (more === 0 && one < found && this.severity[one] >= DIFFERS)) found = one;
    }
    return found;
  }

  /** What made the inputs of a call. */
  madeBy(call: number): Link[] {
    return this.links.of(call, true);
  }

  /** What uses the outputs of a call. */
  usedBy(call: number): Link[] {
    return this.links.of(call, false);
  }
}

/** Which recorded output an input is, for all inputs of a unit; links to calls that are not there are left out. */
class Links {
  readonly size: number;
  private readonly calls: Int32Array;
  private readonly producers: Int32Array;
  private readonly places: Int32Array;
  private readonly outputs: Int32Array;
  private readonly texts: string[] = [];

  constructor(links: [number, string, number, string][], size: number) {
    const held = links.filter(([call, , producer]) => call >= 0 && call < size && producer >= 0 && producer < size);
    const numbers = new Map<string, number>();
    const numberOfText = (text: string) => {
      let number = numbers.get(text);
      if (number === undefined) {
        number = this.texts.push(text) - 1;
        numbers.set(text, number);
      }
      return number;
    };
    this.size = held.length;
    this.calls = Int32Array.from(held, ([call]) => call);
    this.producers = Int32Array.from(held, ([, , producer]) => producer);
    this.places = Int32Array.from(held, ([, place]) => numberOfText(place));
    this.outputs = Int32Array.from(held, ([, , , output]) => numberOfText(output));
  }

  /** The links into a call, or out of it. */
  of(call: number, isInto: boolean): Link[] {
    const found: Link[] = [];
    const [here, there] = isInto ? [this.calls, this.producers] : [this.producers, this.calls];
    const [place, other] = isInto ? [this.places, this.outputs] : [this.outputs, this.places];
    for (let i = 0; i < this.size; i++) {
      if (here[i] === call) found.push({ place: this.texts[place[i]], call: there[i], other: this.texts[other[i]] });
    }
    return found;
  }
}
