// What is shown of the units: the chosen unit and call, and how one goes elsewhere; the address follows.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { shown } from "./format.ts";
import { t } from "./language.ts";
import { hashOf, placeOf } from "./place.ts";
import type { Report } from "./report.ts";
import { openFor } from "./rows.ts";
import type { UnitData } from "./unit.ts";

export interface Where {
  data: UnitData | null;
  /** The chosen call, ~i for micro step i; null for none. */
  row: number | null;
  open: ReadonlySet<number>;
  /** Counts what was gone to, so that the tree brings it into sight. */
  gone: number;
  /** Whether one came here from elsewhere: the browser's way back leads there. */
  isJump: boolean;
}

export function useWhere(report: Report, fail: (text: string) => void) {
  const [where, setWhere] = useState<Where>({ data: null, row: null, open: new Set(), gone: 0, isJump: false });
  const wanted = useRef(0);
  const go = useCallback(
    async (unit: number, call: number, isJump = false): Promise<void> => {
      if (!report.units[unit]) return;
      const turn = ++wanted.current;
      let data: UnitData;
      try {
        data = report.ready(unit) ?? (await report.unit(unit));
      } catch (failure) {
        fail(String(failure));
        return;
      }
      if (turn !== wanted.current) return;
      setWhere((before) => {
        const open = before.data?.calls === data.calls ? new Set(before.open) : new Set<number>();
        const first =
          unit === report.head.answer.first?.place.unit ? report.head.answer.first.place.call : data.unit.first;
        const row = call >= 0 && call < data.calls.size ? call : -1;
        for (const one of [row, first ?? -1]) {
          if (one >= 0 && one < data.calls.size) for (const around of openFor(data.calls, one)) open.add(around);
        }
        return { data, row: row < 0 ? null : row, open, gone: before.gone + 1, isJump: isJump && before.data !== null };
      });
    },
    [report, fail],
  );
  return { where, setWhere, go };
}

/** A link of the address is followed; the address follows what is chosen. */
export function useAddress(
  report: Report,
  where: Where,
  go: (unit: number, call: number) => Promise<void>,
  fail: (text: string) => void,
) {
  const follow = useCallback(async () => {
    const place = placeOf(location.hash);
    const named = report.units.findIndex((unit) => unit.label === place.unit);
    const unit = named < 0 ? report.start : named;
    if (!report.units.length) return;
    const answered = report.head.answer.first?.place;
    let call = answered?.unit === unit ? (answered.call ?? -1) : (report.units[unit].first ?? -1);
    if (place.call) {
      call = (await report.unit(unit)).calls.find(place.call);
      if (call < 0) fail(t("unknown_call", shown(place.call), shown(report.units[unit].label)));
    }
    await go(unit, call);
  }, [report, go, fail]);
  useEffect(() => {
    const failed = (failure: unknown) => fail(t("failed", String(failure)));
    const changed = () => void follow().catch(failed);
    changed();
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, [follow, fail]);
  useEffect(() => {
    const { data, row } = where;
    if (!data || row === null || row < 0) return;
    const hash = hashOf({ call: data.calls.name(row), unit: data.unit.label });
    if (hash === location.hash) return;
    if (where.isJump) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }, [where]);
}
