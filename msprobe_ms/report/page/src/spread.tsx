// Maps of ranks and steps, and of ranks and modules; what ranks exchanged.

import { useEffect, useState } from "preact/hooks";
import type { Meeting } from "./document.ts";
import { count, shown } from "./format.ts";
import { roleName, say, t } from "./language.ts";
import { List } from "./list.tsx";
import { Mark, saidDistance, verdictName } from "./marks.tsx";
import { assigned, type Cell, type Columns, cellsOf, columnsOf } from "./modules.ts";
import type { Report } from "./report.ts";
import { letterOf, lookOf, placeOf, worstOf } from "./verdicts.ts";

interface Props {
  report: Report;
  unit: number;
  /** Shows a call, or the beginning of a unit (-1). */
  go: (unit: number, call: number) => void;
}

export function SpreadPart(props: Props) {
  const { report } = props;
  const step = report.units[props.unit]?.step;
  const numbers = report.units.map((_, number) => number).filter((number) => report.units[number].step === step);
  const rows = useRows(report, numbers, String(step));
  return (
    <div class="spread-part">
      {report.head.merged ? (
        <p class="merged">
          <b>{t("merged")}</b> {say(report.head.merged)}
        </p>
      ) : null}
      <ByStep {...props} />
      <ByModule {...props} numbers={numbers} rows={rows} />
      {report.head.meetings?.length ? <Meetings {...props} /> : null}
    </div>
  );
}

function ByStep({ report, unit: chosen, go }: Props) {
  const { units } = report;
  const steps = [...new Set(units.map((unit) => unit.step ?? null))].sort((a, b) => (a ?? -1) - (b ?? -1));
  const ranks = [...new Set(units.map((unit) => unit.rank ?? null))].sort((a, b) => (a ?? -1) - (b ?? -1));
  const at = new Map(units.map((unit, number) => [`${unit.rank ?? null} ${unit.step ?? null}`, number]));
  const most = units.reduce((sum, unit) => Math.max(sum, unit.counts?.error ?? 0), 1);
  return (
    <section>
      <h2>{t("by_step")}</h2>
      <div class="map-holder" tabIndex={0} role="region" aria-label={t("by_step")}>
        <table class="map">
          <thead>
            <tr>
              <th scope="col">
                {t("step")} ╲ {t("rank")}
              </th>
              {ranks.map((rank) => (
                <th scope="col">{rank ?? "–"}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {steps.map((step) => (
              <tr>
                <th scope="row">{step ?? "–"}</th>
                {ranks.map((rank) => {
                  const number = at.get(`${rank} ${step}`);
                  if (number === undefined) return <td />;
                  const unit = units[number];
                  const letter = worstOf(unit);
                  const errors = unit.counts?.error ?? 0;
                  const said = `${shown(unit.label)}: ${verdictName(letter)}, ${count(errors)}`;
                  return (
                    <td>
                      <button
                        type="button"
                        class={`map-cell ${lookOf(letter).name}${number === chosen ? " chosen" : ""}`}
                        style={{ "--level": String(0.2 + (0.45 * errors) / most) }}
                        title={said}
                        aria-label={said}
                        onClick={() => go(number, unit.first ?? -1)}
                      >
                        {lookOf(letter).mark}
                      </button>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface Rows extends Columns {
  cells: Map<number, (Cell | null)[]>;
}

const AT_ONCE = 8;
/** From this share of the range (of logarithms) on a cell has the full colour. */
const STRONG = 0.9;

/** How far a distance is on the way from the tolerance to the greatest one, by its logarithm. */
function levelOf(excess: number, greatest: number): number {
  if (!(excess > 1)) return excess > 0 ? 0.15 * placeOf(excess) : 0;
  return Math.min(1, Math.max(0.1, Math.log(excess) / Math.log(Math.max(10, greatest))));
}

/** The cells of all ranks of a step, read one after the other; `rows` grows. */
function useRows(report: Report, numbers: number[], key: string): Rows | null {
  const [rows, setRows] = useState<Rows | null>(null);
  // `key` names the units.
  useEffect(() => {
    let isWanted = true;
    const read = async () => {
      const cells = new Map<number, (Cell | null)[]>();
      const layouts = new Map<unknown, Int32Array>();
      let made: Columns | null = null;
      for (const [i, number] of numbers.entries()) {
        const data = await report.unit(number);
        if (!isWanted) return;
        made ??= columnsOf(data.calls);
        const of = layouts.get(data.calls) ?? assigned(data.calls, made);
        layouts.set(data.calls, of);
        cells.set(number, cellsOf(data, of, made.columns.length));
        if (i % AT_ONCE === AT_ONCE - 1 || i === numbers.length - 1) setRows({ ...made, cells: new Map(cells) });
      }
    };
    setRows(null);
    read().catch(() => setRows(null));
    return () => {
      isWanted = false;
    };
  }, [report, key]);
  return rows;
}

function ByModule({ report, unit: chosen, go, numbers, rows }: Props & { numbers: number[]; rows: Rows | null }) {
  const step = report.units[chosen]?.step;
  if (!rows) return <p class="empty">{t("loading")}</p>;
  let greatest = 1;
  for (const cells of rows.cells.values()) {
    for (const cell of cells)
      if (cell && cell.excess < Number.POSITIVE_INFINITY) greatest = Math.max(greatest, cell.excess);
  }
  const title = t(rows.isOfModules ? "by_module" : "by_calls", step ?? "–");
  return (
    <section>
      <h2>{title}</h2>
      {rows.cells.size < numbers.length ? (
        <p class="quiet">{t("read_units", rows.cells.size, numbers.length)}</p>
      ) : null}
      <div class="map-holder" tabIndex={0} role="region" aria-label={title}>
        <table class="map modules">
          <thead>
            <tr>
              <th scope="col">{t("rank")}</th>
              {rows.columns.map(({ label }) => (
                <th scope="col" class="turned" title={shown(label)}>
                  <span>{shown(label)}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {numbers.map((number) => (
              <tr class={number === chosen ? "chosen" : ""}>
                <th scope="row">{report.units[number].rank ?? shown(report.units[number].label)}</th>
                {rows.columns.map(({ label }, column) => {
                  const cell = rows.cells.get(number)?.[column];
                  if (!cell) return <td />;
                  const letter = letterOf(cell.severity);
                  const said = `${shown(report.units[number].label)}, ${shown(label)}: ${verdictName(letter)}${cell.excess ? `, ${saidDistance(cell.excess)}` : ""}`;
                  return (
                    <td>
                      <button
                        type="button"
                        class={`map-cell ${lookOf(letter).name}${levelOf(cell.excess, greatest) > STRONG ? " strong" : ""}`}
                        style={{ "--level": String(0.65 * levelOf(cell.excess, greatest)) }}
                        title={said}
                        aria-label={said}
                        onClick={() => go(number, cell.call)}
                      >
                        {cell.severity > 2 ? lookOf(letter).mark : ""}
                      </button>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The name of an exchange's call, where one of its units is read. */
function nameOf(report: Report, meeting: Meeting): string {
  for (const [unit, call] of meeting.calls) {
    const name = report.ready(unit)?.calls.name(call);
    if (name) return shown(name);
  }
  return "";
}

function Meetings({ report, go }: Props) {
  const meetings = report.head.meetings ?? [];
  return (
    <section>
      <h2>
        {t("meetings")} <span class="number">{count(meetings.length)}</span>
      </h2>
      <List
        count={meetings.length}
        height={26}
        holder={{ class: "meetings", tabIndex: 0, role: "region", "aria-label": t("meetings") }}
        render={(i) => (
          <div class="meeting" key={i} style={{ height: "26px" }}>
            <code>{shown(meetings[i].name)}</code> <span class="quiet">{roleName(meetings[i].role ?? "")}</span>
            <code class="quiet">{nameOf(report, meetings[i])}</code>
            {meetings[i].calls.slice(0, 24).map(([unit, call]) => {
              const held = report.ready(unit);
              return (
                <button type="button" class="link" onClick={() => go(unit, call)}>
                  {held ? <Mark letter={held.verdict(call)} small /> : null}
                  {shown(report.units[unit]?.label ?? String(unit))}
                </button>
              );
            })}
            {meetings[i].calls.length > 24 ? <span class="quiet">+{meetings[i].calls.length - 24}</span> : null}
          </div>
        )}
      />
    </section>
  );
}
