// One call in all units: which steps and ranks stand out, and with which ranks it exchanged.

import { numberOf } from "./document.ts";
import { short, shown } from "./format.ts";
import { roleName, t } from "./language.ts";
import { Mark, Part, saidDistance, useAwaited, verdictName } from "./marks.tsx";
import type { Report } from "./report.ts";
import type { UnitData } from "./unit.ts";
import { lookOf, placeOf } from "./verdicts.ts";

const MOST = 512;

function rest(time: number): Promise<void> {
  return new Promise((done) => setTimeout(done, time));
}

export interface Place {
  unit: number;
  call: number;
  verdict: string;
  overflow: string;
  excess: number | null;
  /** The norm of its first output, where nothing was compared. */
  value: number | null;
}

/** By how much a value may differ from the median of all and still be like the others. */
const ALIKE = 0.01;

function rarer(places: Place[]): Place[] | null {
  const key = ({ verdict, overflow }: Place) => verdict + overflow;
  const numbers = new Map<string, number>();
  for (const place of places) numbers.set(key(place), (numbers.get(key(place)) ?? 0) + 1);
  const [common, most] = [...numbers].sort((a, b) => b[1] - a[1])[0];
  const others = places.filter((place) => key(place) !== common);
  return others.length && most > 2 * others.length ? others : null;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}

/** The places that stand out: those of the rarer verdict, where one is clearly more common; or far from the median. */
export function odd(places: Place[]): Place[] {
  if (places.length < 3) return [];
  const others = rarer(places);
  if (others) return others;
  const far = places.some(({ excess }) => excess !== null) ? farExcess(places) : farValue(places);
  return far.length * 3 <= places.length ? far : [];
}

function farExcess(places: Place[]): Place[] {
  const middle = median(places.map(({ excess }) => excess ?? 0));
  return places.filter(({ excess }) => excess !== null && excess > 10 * middle && excess > 0.1);
}

function farValue(places: Place[]): Place[] {
  const values = places.flatMap(({ value }) => (value === null ? [] : [value]));
  if (values.length < 3) return [];
  const middle = median(values);
  return places.filter(({ value }) => value !== null && !(Math.abs(value - middle) <= ALIKE * Math.abs(middle)));
}

/** Whether nothing tells one place from another; by more than noise in what was measured. */
export function areAlike(places: Place[]): boolean {
  const [first] = places;
  return places.every(
    ({ verdict, overflow, value }) =>
      verdict === first.verdict &&
      overflow === first.overflow &&
      (value === first.value || Math.abs((value ?? 0) - (first.value ?? 0)) <= ALIKE * Math.abs(first.value ?? 0)),
  );
}

async function normOf(report: Report, unit: number, call: number): Promise<number | null> {
  const details = await report.details(unit, call);
  const output = details?.records?.find(
    ({ part, target }) => part === "output" && target?.statistics?.norm !== undefined,
  );
  return numberOf(output?.target?.statistics?.norm);
}

const REST = 150; // milliseconds

let turn = 0;

/** A call in all units. Reading them waits until the reader rests, and ends when another call is asked for. */
async function placesOf(report: Report, data: UnitData, call: number): Promise<Place[]> {
  const mine = ++turn;
  await rest(REST);
  const name = data.calls.name(call);
  const isOfStep = report.units.length > MOST;
  const places: Place[] = [];
  for (let unit = 0; unit < report.units.length; unit++) {
    if (isOfStep && report.units[unit].step !== data.unit.step) continue;
    if (!report.ready(unit)) await rest(0);
    if (mine !== turn) return [];
    const one = await report.unit(unit);
    const there = one.calls === data.calls ? call : one.calls.find(name);
    if (there < 0) continue;
    const value = one.isJudged ? null : await normOf(report, unit, there);
    places.push({
      unit,
      call: there,
      verdict: one.verdict(there),
      overflow: one.overflow(there),
      excess: one.distance(there),
      value,
    });
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
  if (!places?.length) return <p class="empty">{t("loading")}</p>;
  const outstanding = odd(places);
  const steps = [...new Set(places.map(({ unit }) => report.units[unit].step ?? null))];
  const most = places.reduce((sum, { value }) => Math.max(sum, Math.abs(value ?? 0)), 0);
  return (
    <>
      <p class="said">
        {outstanding.length
          ? t(
              "odd_ranks",
              outstanding
                .slice(0, 6)
                .map(({ unit }) => shown(report.units[unit].label))
                .join(", "),
            )
          : areAlike(places)
            ? t("all_alike", places.length)
            : t("not_alike")}
      </p>
      {steps.map((step) => (
        <div class="everyone">
          {steps.length > 1 ? (
            <span class="quiet">
              {t("step")} {step ?? "–"}
            </span>
          ) : null}
          {places
            .filter(({ unit }) => (report.units[unit].step ?? null) === step)
            .map((place) => (
              <PlaceCell
                report={report}
                data={data}
                place={place}
                level={levelOf(place, most)}
                isOdd={outstanding.includes(place)}
                go={go}
              />
            ))}
        </div>
      ))}
    </>
  );
}

interface CellProps {
  report: Report;
  data: UnitData;
  place: Place;
  /** How high it is filled, in percent. */
  level: number;
  isOdd: boolean;
  go: Props["go"];
}

function PlaceCell({ report, data, place, level, isOdd, go }: CellProps) {
  const { label, rank } = report.units[place.unit];
  const said = [
    shown(label),
    data.isJudged ? verdictName(place.verdict) : "",
    place.excess === null ? "" : saidDistance(place.excess),
    place.value === null ? "" : `${t("value_of", "output")} ${short(place.value)}`,
  ];
  const text = said.filter(Boolean).join(", ");
  const classes = ["cell", lookOf(place.verdict).name, place.unit === data.number && "chosen", isOdd && "odd"];
  return (
    <button
      type="button"
      class={classes.filter(Boolean).join(" ")}
      title={text}
      aria-label={text}
      onClick={() => go(place.unit, place.call)}
    >
      <span class="level" style={{ height: `${level}%` }} />
      <span class="which">{rank ?? place.unit}</span>
      {place.overflow === "." ? null : <span class={`overflow ${place.overflow}`}>∞</span>}
    </button>
  );
}

function levelOf({ excess, value }: Place, most: number): number {
  return Math.max(
    6,
    excess === null && value !== null ? (80 * Math.abs(value)) / (most || 1) : 100 * placeOf(excess ?? 0),
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
              <code>{shown(meeting?.name ?? "")}</code> <span class="quiet">{roleName(meeting?.role ?? "")}</span>
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
