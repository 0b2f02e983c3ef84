// The chosen call: its values on both sides, where they come from and go to, and its stack.

import { useState } from "preact/hooks";
import { configurationOf } from "./collection.ts";
import type { CallDetails, CallRecord, Measured, Tensor } from "./document.ts";
import { Everywhere } from "./everywhere.tsx";
import { count, measured, shape, shown, told } from "./format.ts";
import { isKey, say, t } from "./language.ts";
import { Bar, Copy, Failure, Mark, Overflow, Part, saidDistance, useAwaited, verdictName } from "./marks.tsx";
import type { Report } from "./report.ts";
import type { Link, UnitData } from "./unit.ts";

const RECORDS = 40;
const LINKS = 12;

interface Props {
  report: Report;
  data: UnitData;
  call: number;
  go: (unit: number, call: number) => void;
}

export function DetailsPart({ report, data, call, go }: Props) {
  const { calls, unit } = data;
  const name = calls.name(call);
  const golden = calls.golden(call);
  const { value, failure } = useAwaited(
    async () => ({ details: await report.details(data.number, call) }),
    [data, call],
  );
  const excess = data.distance(call);
  return (
    <section class="details" aria-label={shown(name)}>
      <header>
        <h2>
          {data.isJudged ? <Mark letter={data.verdict(call)} /> : null} <code>{shown(name)}</code>{" "}
          <Overflow letter={data.overflow(call)} golden={data.goldenOverflow(call)} />
        </h2>
        <p class="facts">
          {data.isJudged ? <span>{verdictName(data.verdict(call))}</span> : null}
          {excess !== null && saysHowFar(data.verdict(call), excess) ? (
            <span class="distance">
              <Bar excess={excess} letter={data.verdict(call)} /> {saidDistance(excess)}
            </span>
          ) : null}
          {golden ? <span>{t("golden_name", shown(golden))}</span> : null}
          {calls.layout.classes?.[call] ? <span>{shown(calls.layout.classes[call])}</span> : null}
        </p>
        <Around data={data} call={call} go={go} />
        <p class="actions">
          <Copy text={name} label="copy_name" />
          <Copy text={location.href} label="copy_link" />
          <Copy text={configurationOf(name, unit.step, unit.rank)} label="copy_config" />
        </p>
      </header>
      {failure ? <Failure text={failure} /> : null}
      {value ? (
        <Records details={value.details} hasGolden={report.head.golden !== null} names={report.head.statistics} />
      ) : (
        <p class="empty">{failure ? "" : t("loading")}</p>
      )}
      <Dataflow data={data} call={call} go={go} />
      <Everywhere report={report} data={data} call={call} go={go} />
      {value?.details?.stack?.length ? <Stack title={t("stack")} lines={value.details.stack} /> : null}
      {value?.details?.golden_stack?.length ? (
        <Stack title={t("golden_stack")} lines={value.details.golden_stack} />
      ) : null}
    </section>
  );
}

/** Whether a distance says why a call has its verdict: what differs in kind or number may measure nothing. */
const saysHowFar = (letter: string, excess: number) => !"enu".includes(letter) || excess > 1;

function Around({ data, call, go }: { data: UnitData; call: number; go: Props["go"] }) {
  const { calls } = data;
  const path = calls.path(call).slice(-6);
  if (!path.length) return null;
  return (
    <p class="around">
      {path.map((one) => (
        <>
          <button type="button" class="link" title={shown(calls.name(one))} onClick={() => go(data.number, one)}>
            {shown(calls.partsOf(one).label)}
          </button>
          <span aria-hidden="true"> › </span>
        </>
      ))}
    </p>
  );
}

/** What the sheet writes where there is nothing to measure. */
const UNMEASURED = new Set<unknown>(["unsupported", "N/A", "None"]);

const PARTS = ["input", "parameters", "output", "parameters_grad", "debug"];

function Records(props: { details: CallDetails | null; hasGolden: boolean; names: string[] }) {
  const { details, hasGolden, names } = props;
  const [limit, setLimit] = useState(RECORDS);
  const records = details?.records ?? [];
  if (!records.length) return <p class="empty">{t("no_records")}</p>;
  const parts = [...PARTS, ...new Set(records.map((r) => r.part).filter((part) => !PARTS.includes(part)))];
  const sorted = parts.flatMap((part) => records.filter((record) => record.part === part)).slice(0, limit);
  return (
    <div class="records" tabIndex={0} role="region" aria-label={t("records")}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("place")}</th>
            <th scope="col">{hasGolden ? t("side") : ""}</th>
            <th scope="col">dtype</th>
            {names.map((name) => (
              <th scope="col" class="figure">
                {isKey(name) ? t(name as "max") : name}
              </th>
            ))}
          </tr>
        </thead>
        {sorted.map((record, i) => (
          <>
            {record.part !== sorted[i - 1]?.part ? (
              <tbody>
                <tr class="part-title">
                  <th colSpan={3 + names.length} scope="rowgroup">
                    {isKey(`part_${record.part}`) ? t(`part_${record.part}` as "part_input") : shown(record.part)}
                  </th>
                </tr>
              </tbody>
            ) : null}
            <RecordRows record={record} hasGolden={hasGolden} names={names} />
          </>
        ))}
      </table>
      {records.length > sorted.length ? (
        <button type="button" class="link" onClick={() => setLimit(limit + 200)}>
          {t("more", count(Math.min(200, records.length - sorted.length)))}
        </button>
      ) : null}
    </div>
  );
}

function RecordRows(props: { record: CallRecord; hasGolden: boolean; names: string[] }) {
  const { record, hasGolden, names } = props;
  const { target, golden } = record;
  // Of what one side alone has nothing was measured, whatever the columns of the sheet say.
  const isMeasured = !hasGolden || (target && golden);
  const measures = Object.entries((isMeasured && record.measures) || {}).filter(
    ([, value]) => value !== null && value !== "" && !UNMEASURED.has(value),
  );
  const both = hasGolden && !(record.part === "output" && !target && !golden);
  return (
    <tbody class={`record verdict-${record.verdict === "." ? "none" : (record.verdict ?? "none")}`}>
      <tr>
        <th scope="row" rowSpan={both ? 2 : 1}>
          {record.verdict && record.verdict !== "." ? <Mark letter={record.verdict} small /> : null}{" "}
          {shown(record.place)}
        </th>
        <SideCells name={hasGolden ? t("target") : ""} one={target} other={both ? golden : undefined} names={names} />
      </tr>
      {both ? (
        <tr class="golden">
          <SideCells name={t("golden")} one={golden} other={target} names={names} />
        </tr>
      ) : null}
      {measures.length || record.limits || record.reasons?.length || record.decision?.length ? (
        <tr class="judged">
          <td colSpan={3 + names.length}>
            {record.reasons?.map((reason) => (
              <p class="because">{say(reason)}</p>
            ))}
            {measures.length ? (
              <p class="measures">
                {measures.map(([title, value]) => (
                  <span>
                    <i>{shown(title)}</i> {measured(value)}
                  </span>
                ))}
              </p>
            ) : null}
            {record.limits ? <p class="limits">{shown(record.limits)}</p> : null}
            <Decision record={record} />
          </td>
        </tr>
      ) : null}
    </tbody>
  );
}

/** The rule that decided, its numbers, and what would have to change for another verdict. */
function Decision({ record }: { record: CallRecord }) {
  const { decision, state } = record;
  if (!decision?.length) return null;
  const key = `state_of_${state}`;
  const title = isKey(key) ? t("decision", t(key as "state_of_noise")) : t("decided");
  return (
    <Part title={title} class="decision">
      {() => (
        <ul>
          {decision.map((line) => (
            <li>{say(line)}</li>
          ))}
        </ul>
      )}
    </Part>
  );
}

function SideCells(props: { name: string; one: Tensor | undefined; other: Tensor | undefined; names: string[] }) {
  const { name, one, other, names } = props;
  if (!one) {
    return (
      <>
        <td class="side">{name}</td>
        <td colSpan={1 + names.length} class="quiet">
          {t("one_side")}
        </td>
      </>
    );
  }
  const isUnlike = (value: unknown, others: unknown) => other !== undefined && String(value) !== String(others);
  const differs = (key: keyof Tensor) => isUnlike(one[key], other?.[key]);
  const of = `${shown(one.dtype ?? "")} ${shape(one.shape)}`.trim();
  const digest = one.digest ? (
    <div class={`digest${differs("digest") ? " unlike" : ""}`} title={t("digest")}>
      {shown(one.digest)}
    </div>
  ) : null;
  if (one.value) {
    return (
      <>
        <td class="side">{name}</td>
        <td colSpan={1 + names.length} class={`text${differs("value") ? " unlike" : ""}`}>
          {of ? <span class="quiet">{of} </span> : null}
          <code>{shown(one.value)}</code>
          {digest}
        </td>
      </>
    );
  }
  return (
    <>
      <td class="side">{name}</td>
      <td class={`text${differs("dtype") || differs("shape") ? " unlike" : ""}`}>
        {of}
        {digest}
      </td>
      {names.map((key) => {
        const [value, others] = [one.statistics?.[key], other?.statistics?.[key]];
        return <Figure value={value} other={others} isUnlike={isUnlike(value, others)} />;
      })}
    </>
  );
}

function Figure(props: { value: Measured | undefined; other: Measured | undefined; isUnlike: boolean }) {
  const { value, other, isUnlike } = props;
  return (
    <td
      class={`figure${isUnlike ? " unlike" : ""}`}
      title={value === null || value === undefined ? undefined : String(value)}
    >
      {told(value, other)}
    </td>
  );
}

function Dataflow(props: { data: UnitData; call: number; go: Props["go"] }) {
  const { data, call, go } = props;
  const made = data.madeBy(call);
  const used = data.usedBy(call);
  if (!data.links.size) return null;
  return (
    <Part title={t("dataflow")} open={true} class="dataflow">
      {() =>
        made.length || used.length ? (
          <div class="ways">
            <Links title={t("made_by")} list={made} data={data} go={go} isMade={true} />
            <Links title={t("used_by")} list={used} data={data} go={go} isMade={false} />
          </div>
        ) : (
          <p class="empty">{t("no_links")}</p>
        )
      }
    </Part>
  );
}

function Links(props: { title: string; list: Link[]; data: UnitData; go: Props["go"]; isMade: boolean }) {
  const { title, list, data, go, isMade } = props;
  const [limit, setLimit] = useState(LINKS);
  if (!list.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul>
        {list.slice(0, limit).map(({ place, call, other }) => (
          <li>
            <span class="place">{shown(place)}</span>
            <span class="arrow" aria-hidden="true">
              {isMade ? "←" : "→"}
            </span>
            <button type="button" class="link" onClick={() => go(data.number, call)}>
              {data.isJudged ? <Mark letter={data.verdict(call)} small /> : null}{" "}
              <Overflow letter={data.overflow(call)} golden={data.goldenOverflow(call)} />
              <code>{shown(data.calls.name(call))}</code>
            </button>
            <span class="quiet"> {shown(other)}</span>
          </li>
        ))}
      </ul>
      {list.length > limit ? (
        <button type="button" class="link" onClick={() => setLimit(limit + 100)}>
          {t("more", count(Math.min(100, list.length - limit)))}
        </button>
      ) : null}
    </div>
  );
}

function Stack({ title, lines }: { title: string; lines: string[] }) {
  return (
    <Part title={title} open={true} class="stack-lines">
      {() => (
        <ol>
          {lines.slice(0, 100).map((line) => (
            <li>
              <code>{shown(line.trim().replace(/\s*\n\s*/g, "  "))}</code>
            </li>
          ))}
        </ol>
      )}
    </Part>
  );
}
