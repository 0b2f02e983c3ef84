// The top of the page: the answer, what it rests on, and what to do.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Finding, Head, Place, Side, Source, Suggestion, Words } from "./document.ts";
import { count, shown, sourceLine } from "./format.ts";
import { kindName, printed, say, t } from "./language.ts";
import { Copy, Mark, Part, verdictName } from "./marks.tsx";
import { LETTERS, LOOKS } from "./verdicts.ts";

const SHOWN = 8;

type Go = (unit: number, call: number) => void;

const STATES = { differs: "e", clean: "p", unjudged: "u", shown: "." } as const;

function isState(state: string): state is keyof typeof STATES {
  return state in STATES;
}

export function AnswerPart({ head, go }: { head: Head; go: Go }) {
  const { answer } = head;
  const judged = judgedOf(head.counts);
  const isThin = answer.state === "clean" && head.kind === "compare" && 2 * judged.judged < judged.total;
  const state = isThin ? "unjudged" : isState(answer.state) ? answer.state : "shown";
  const { first } = answer;
  const source = first?.place.source;
  const hasSource = Boolean(source?.lines?.length);
  // "First wrong call" is what two runs have; a run alone has what was found first.
  const title =
    head.kind === "graft"
      ? "state_graft"
      : state === "differs" && (head.kind !== "compare" || !first)
        ? "state_found"
        : isThin
          ? "state_thin"
          : (`state_${state}` as const);
  return (
    <section class={`answer ${state}`} aria-labelledby="answer-title">
      <div class="columns">
        <div class="statement">
          <h1 id="answer-title">
            <Mark letter={STATES[state]} />
            <span>{t(title)}</span>
          </h1>
          {first ? <First first={first} go={go} /> : <p class="line">{say(answer.line)}</p>}
          {!first && head.kind === "compare" && judged.total ? (
            <p class="line judged">{t("judged", count(judged.judged), count(judged.total))}</p>
          ) : null}
          {hasSource ? null : <Texts class="notes" label={t("notes")} list={answer.notes} />}
        </div>
        {hasSource && source ? (
          <div class="beside">
            <Snippet source={source} />
            <Texts class="notes" label={t("notes")} list={answer.notes} />
          </div>
        ) : null}
        {answer.advice?.length ? <ToDo advice={answer.advice} /> : null}
      </div>
      <Counts counts={head.counts} />
      <div class="folded">
        <Findings title={t(head.kind === "graft" ? "next_graft" : "next")} list={answer.next} go={go} />
        <Findings title={t("harmless")} list={answer.harmless} go={go} />
        {head.causes?.length ? (
          <Part title={<Titled title={t("causes")} number={head.causes.length} />}>
            {() => (
              <ul class="causes">
                {head.causes?.map(([number, cause]) => (
                  <li>
                    <b>{count(number)}</b> {say(cause)}
                  </li>
                ))}
              </ul>
            )}
          </Part>
        ) : null}
        <Part title={t("as_printed")} class="printed">
          {() => (
            <div>
              <Line text={printed(answer.line)} />
              <p class="label">{t("command")}</p>
              <Line text={head.command} />
            </div>
          )}
        </Part>
        <Sides head={head} />
      </div>
    </section>
  );
}

function Texts({ class: kind, label, list }: { class: string; label: string; list: Words[] | undefined }) {
  const [limit, setLimit] = useState(SHOWN);
  if (!list?.length) return null;
  return (
    <>
      <ul class={kind} aria-label={label}>
        {list.slice(0, limit).map((text) => (
          <li>{say(text)}</li>
        ))}
      </ul>
      {list.length > limit ? (
        <button type="button" class="link" onClick={() => setLimit(limit + 200)}>
          {t("more", count(Math.min(200, list.length - limit)))}
        </button>
      ) : null}
    </>
  );
}

function Titled({ title, number }: { title: ComponentChildren; number: number }) {
  return (
    <>
      {title} <span class="number">{count(number)}</span>
    </>
  );
}

function Where({ place }: { place: Place }) {
  return (
    <span class="where">
      {place.step !== undefined && place.step !== null && (
        <span class="chip">
          {t("step")} {place.step}
        </span>
      )}
      {place.rank !== undefined && place.rank !== null && (
        <span class="chip">
          {t("rank")} {place.rank}
        </span>
      )}
    </span>
  );
}

function Name({ place, go }: { place: Place; go: Go }) {
  const { unit, call } = place;
  if (unit === undefined || call === undefined) return <code class="name">{shown(place.name)}</code>;
  return (
    <button type="button" class="name link" title={t("show_in_tree")} onClick={() => go(unit, call)}>
      <code>{shown(place.name)}</code>
    </button>
  );
}

function First({ first, go }: { first: Finding; go: Go }) {
  const { place } = first;
  return (
    <>
      <p class="headline">
        <Name place={place} go={go} />
        {place.cell ? (
          <span class="cell">
            {" "}
            {t("in_cell")} <code>{shown(place.cell)}</code>
          </span>
        ) : null}
      </p>
      <p class="reason">
        <strong>{kindName(first.kind)}</strong>
        {first.reason ? <span class="because">{t("because", say(first.reason))}</span> : null}
      </p>
      <p class="facts">
        <Where place={place} />
        {place.source && !place.source.lines?.length ? (
          <span class="chip file">
            {shown(place.source.file)}:{place.source.line}
          </span>
        ) : null}
        {first.later_calls !== undefined && first.later_calls !== null ? (
          <span>{t("reaches", count(first.later_calls))}</span>
        ) : null}
        {first.reaches_loss !== undefined && first.reaches_loss !== null ? (
          <span>{t(first.reaches_loss ? "to_loss" : "not_to_loss")}</span>
        ) : null}
      </p>
      <Texts class="evidence" label={t("evidence")} list={first.evidence} />
    </>
  );
}

function Snippet({ source }: { source: Source }) {
  const first = source.first ?? source.line;
  return (
    <figure class="snippet">
      <figcaption>
        <span class="label">{t("source")}</span>
        <span class="file" title={shown(source.file)}>
          {shown(source.file.split("/").slice(-2).join("/"))}:{source.line}
        </span>
        <Copy text={`${source.file}:${source.line}`} quiet />
      </figcaption>
      <pre tabIndex={0} aria-label={t("source")}>
        {source.lines?.map((line, i) => (
          <span class={first + i === source.line ? "row here" : "row"}>
            <span class="line-number">{first + i}</span>
            <span class="text">{sourceLine(line) || " "}</span>
          </span>
        ))}
      </pre>
    </figure>
  );
}

function ToDo({ advice }: { advice: Suggestion[] }) {
  return (
    <div class="todo">
      <h2>{t("advice")}</h2>
      <ol tabIndex={0}>
        {advice.map(({ text, command, config }) => (
          <li>
            <p>{say(text)}</p>
            {command ? <Line text={command} /> : null}
            {config ? <Line text={config} /> : null}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Line({ text }: { text: string }) {
  return (
    <div class="command">
      <pre tabIndex={0}>{text.split("\n").map(sourceLine).join("\n")}</pre>
      <Copy text={text} />
    </div>
  );
}

function Findings({ title, list, go }: { title: string; list: Finding[] | undefined; go: Go }) {
  if (!list?.length) return null;
  return (
    <Part title={<Titled title={title} number={list.length} />}>
      {() => (
        <ol class="beginnings" tabIndex={0}>
          {list.slice(0, 200).map((one) => (
            <li>
              <Name place={one.place} go={go} /> <Where place={one.place} />
              <div class="because">
                {kindName(one.kind)}
                {one.reason ? t("because", say(one.reason)) : ""}
                {one.place.source ? (
                  <span class="file">
                    {" "}
                    {shown(one.place.source.file)}:{one.place.source.line}
                  </span>
                ) : null}
              </div>
            </li>
          ))}
        </ol>
      )}
    </Part>
  );
}

/** Of how many values it was judged whether they agree. */
function judgedOf(counts: Record<string, number> | undefined) {
  const total = Object.values(counts ?? {}).reduce((sum, number) => sum + number, 0);
  return { judged: total - (counts?.unjudged ?? 0), total };
}

/** How many values have which verdict, as a bar with a legend. */
export function Counts({ counts }: { counts: Record<string, number> | undefined }) {
  const held = LETTERS.map((letter) => ({ letter, number: counts?.[LOOKS[letter].name] ?? 0 })).filter((e) => e.number);
  const total = held.reduce((sum, each) => sum + each.number, 0);
  if (!total) return null;
  return (
    <div class="counts">
      <div class="stack" aria-hidden="true">
        {held.map(({ letter, number }) => (
          <span class={LOOKS[letter].name} style={{ flexGrow: number }} />
        ))}
      </div>
      <ul>
        {held.map(({ letter, number }) => (
          <li>
            <Mark letter={letter} small /> <b>{count(number)}</b> {verdictName(letter)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Sides({ head }: { head: Head }) {
  return (
    <Part title={t(head.golden ? "runs" : "run")} class="sides">
      {() => (
        <dl>
          <SideRow name={t("target")} side={head.target} />
          {head.golden ? <SideRow name={t("golden")} side={head.golden} /> : null}
          {head.merged ? (
            <>
              <dt>{t("merged")}</dt>
              <dd>{say(head.merged)}</dd>
            </>
          ) : null}
        </dl>
      )}
    </Part>
  );
}

function SideRow({ name, side }: { name: string; side: Side }) {
  const about = [side.framework, side.level, side.task, ...Object.entries(side.versions ?? {}).map((e) => e.join(" "))];
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <code>{shown(side.path)}</code>{" "}
        <span class="quiet">
          {about
            .filter(Boolean)
            .map((e) => shown(e ?? ""))
            .join(" · ")}
        </span>
      </dd>
    </>
  );
}
