// One call in all units: which steps and ranks stand out, and with which ranks it exchanged.

import { short, shown } from "./format.ts";
import { t } from "./language.ts";
import { Mark, Part, useAwaited, verdictName } from "./marks.tsx";
import type { Report } from "./report.ts";
import type { UnitData } from "./unit.ts";
import { lookOf, placeOf } from "./verdicts.ts";

const MOST = 512;

export interface Place {
  unit: number;
  call: number;
  verdict: string;
  excess: number | null;
}

/** The places that stand out: those of the rarer verdict, where one is clearly more common, or far from the median. */
export function odd(places: Place[]): Place[] {
  if (places.length < 3) return [];
  const numbers = new Map<string, number>();
  for (const { verdict } of places) numbers.set(verdict, (numbers.get(verdict) ?? 0) + 1);
  const [common, most] = [...numbers].sort((a, b) => b[1] - a[1])[0];
  const others = places.filter(({ verdict }) => verdict !== common);
  if (others.length && most > 2 * others.length) return others;
  const sizes = places.map(({ excess }) => excess ?? 0).sort((a, b) => a - b);
  const median = sizes[sizes.length >> 1];
  const far = places.filter(({ excess }) => excess !== null && excess > 10 * median && excess > 0.1);
  return far.length * 3 <= places.length ? far : [];
}

async function placesOf(report: Report, data: UnitData, call: number): Promise<Place[]> {
  const name = data.calls.name(call);
  const isOfStep = report.units.length > MOST;
  const places: Place[] = [];
  for (let number = 0; number < report.units.length; number++) {
    if (isOfStep && report.units[number].step !== data.unit.step) continue;
    const one = await report.unit(number);
    const there = one.calls === data.calls ? call : one.calls.find(name);
    if (there >= 0) places.push({ unit: number, call: there, verdict: one.verdict(there), excess: one.distance(there) });
  }
  return places;
}

interface Props {
  report: Report;
  data: UnitData;
  call: number;
  go: (unit: number, call: number) => void;
}

export function Everywhere(props: Props) {
  if (props.report.units.length < 2) return null;
  return (
    <>
      <Part title={t("everywhere")} open={true} class="everywhere">
        {() => <Spread {...props} />}
      </Part>
      <Meetings {...props} />
    </>
  );
}

function Spread({ report, data, call, go }: Props) {
  const { value: places } = useAwaited(() => placesOf(report, data, call), [report, data, call]);
  if (!places) return <p class="empty">{t("loading")}</p>;
  const outstanding = odd(places);
  return (
    <>
      <p class="said">
        {outstanding.length
          ? t("odd_ranks", outstanding.slice(0, 6).map(({ unit }) => shown(report.units[unit].label)).join(", "))
          : t("all_alike", places.length)}
      </p>
      <div class="spread">
        {places.map((place) => {
          const { label } = report.units[place.unit];
          const said = [shown(label), verdictName(place.verdict), place.excess === null ? "" : t("distance_times", short(place.excess))];
          const classes = [lookOf(place.verdict).name, place.unit === data.number && "chosen", outstanding.includes(place) && "odd"];
          return (
            <button
              type="button"
              class={`cell ${classes.filter(Boolean).join(" ")}`}
              title={said.filter(Boolean).join(", ")}
              aria-label={said.filter(Boolean).join(", ")}
              onClick={() => go(place.unit, place.call)}
            >
              <span class="level" style={{ height: `${Math.max(6, placeOf(place.excess ?? 0) * 100)}%` }} />
              <span class="which">{report.units[place.unit].rank ?? place.unit}</span>
            </button>
          );
        })}
      </div>
    </>
  );
}

function Meetings({ report, data, call, go }: Props) {
  const numbers = report.meetingsOf(data.number, call);
  if (!numbers.length) return null;
  return (
    <Part title={t("met")} open={true} class="met">
      {() =>
        numbers.slice(0, 8).map((number) => {
          const meeting = report.head.meetings?.[number];
          return (
            <p>
              <code>{shown(meeting?.name ?? "")}</code> <span class="quiet">{shown(meeting?.role ?? "")}</span>
              <span class="partners">
                {meeting?.calls
                  .filter(([unit, one]) => unit !== data.number || one !== call)
                  .slice(0, 128)
                  .map(([unit, one]) => (
                    <Partner report={report} unit={unit} call={one} go={go} />
                  ))}
              </span>
            </p>
          );
        })
      }
    </Part>
  );
}

function Partner({ report, unit, call, go }: { report: Report; unit: number; call: number; go: Props["go"] }) {
  const held = report.ready(unit);
  return (
    <button type="button" class="link" onClick={() => go(unit, call)}>
      {held ? <Mark letter={held.verdict(call)} small /> : null} {shown(report.units[unit]?.label ?? String(unit))}
    </button>
  );
}
