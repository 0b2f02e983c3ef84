// The report: its head, and its units as they are needed.

import { Calls } from "./calls.ts";
import type { Chunks } from "./chunks.ts";
import type { CallDetails, CallRecord, Curve, Details, Head, Layout, State, Table, Unit } from "./document.ts";
import { UnitData } from "./unit.ts";

const KEPT_UNITS = 160;

export class Report {
  readonly units: Unit[];
  private readonly layouts = new Map<number, Promise<Calls>>();
  private readonly held = new Map<number, UnitData>();
  private readonly dtypes = new Map<number, Promise<Map<string, Uint8Array>>>();
  private meetings: Map<number, number[]> | null = null;

  constructor(
    readonly head: Head,
    private readonly chunks: Chunks,
  ) {
    this.units = head.units ?? [];
  }

  /** The unit that is shown first: the one of the answer, or the first that differs. */
  get start(): number {
    const answered = this.head.answer.first?.place.unit;
    if (answered !== undefined && answered in this.units) return answered;
    const differs = this.units.findIndex((unit) => unit.first !== undefined);
    return Math.max(0, differs);
  }

  layout(chunk: number): Promise<Calls> {
    let one = this.layouts.get(chunk);
    if (!one) {
      one = this.chunks.get<Layout>(chunk).then((layout) => new Calls(layout));
      this.layouts.set(chunk, one);
    }
    return one;
  }

  /** A unit that was decoded before, or null. */
  ready(number: number): UnitData | null {
    return this.held.get(number) ?? null;
  }

  async unit(number: number): Promise<UnitData> {
    const held = this.held.get(number);
    if (held) return held;
    const unit = this.units[number];
    const [calls, state] = await Promise.all([this.layout(unit.layout), this.chunks.get<State>(unit.state)]);
    const data = new UnitData(number, unit, calls, state);
    this.held.set(number, data);
    if (this.held.size > KEPT_UNITS) this.held.delete(this.held.keys().next().value as number);
    return data;
  }

  /** The records of a call; null where the report has none of it. */
  async details(number: number, call: number): Promise<CallDetails | null> {
    const pairs = this.units[number].details ?? [];
    let low = 0;
    for (let high = pairs.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (pairs[middle][0] <= call) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return null;
    const { calls } = await this.chunks.get<Details>(pairs[low - 1][1]);
    return calls.find((each) => each.call === call) ?? null;
  }

  /** The dtypes in the records of a unit, each with the calls that have it (1 at the number of a call). */
  dtypesOf(data: UnitData): Promise<Map<string, Uint8Array>> {
    let one = this.dtypes.get(data.number);
    if (!one) {
      one = this.readDtypes(data);
      this.dtypes.set(data.number, one);
    }
    return one;
  }

  private async readDtypes(data: UnitData): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>();
    for (const [, chunk] of data.unit.details ?? []) {
      for (const { call, records } of (await this.chunks.get<Details>(chunk)).calls) {
        for (const record of records ?? []) note(found, record, call, data.calls.size);
      }
    }
    return found;
  }

  meetingsOf(unit: number, call: number): number[] {
    this.meetings ??= meetingsByCall(this.head);
    return this.meetings.get(placeOf(unit, call)) ?? [];
  }

  curves(chunk: number): Promise<Curve[]> {
    return this.chunks.get<Curve[]>(chunk);
  }

  table(chunk: number): Promise<Table> {
    return this.chunks.get<Table>(chunk);
  }
}

/** One number for a unit and a call. */
function placeOf(unit: number, call: number): number {
  return unit * 2 ** 26 + call;
}

/** The numbers of meetings by the place of each of their calls: made when a call is looked at first, for a large report
 * has a hundred thousand of them. */
function meetingsByCall(head: Head): Map<number, number[]> {
  const found = new Map<number, number[]>();
  head.meetings?.forEach((meeting, number) => {
    for (const [unit, call] of meeting.calls) {
      const held = found.get(placeOf(unit, call));
      if (held) held.push(number);
      else found.set(placeOf(unit, call), [number]);
    }
  });
  return found;
}

function note(found: Map<string, Uint8Array>, record: CallRecord, call: number, size: number): void {
  for (const tensor of [record.target, record.golden]) {
    if (!tensor?.dtype) continue;
    const held = found.get(tensor.dtype) ?? new Uint8Array(size);
    held[call] = 1;
    found.set(tensor.dtype, held);
  }
}
