// The page: what is above everything, and the parts of the report that have data.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { AnswerPart } from "./answer.tsx";
import { Course } from "./course.tsx";
import { CurvesPart } from "./curves.tsx";
import { DetailsPart } from "./details.tsx";
import { About, Help } from "./dialogs.tsx";
import { shown } from "./format.ts";
import { Guard } from "./guard.tsx";
import { useKeys } from "./keys.ts";
import { printed, say, speak, t } from "./language.ts";
import type { Report } from "./report.ts";
import { type Filter, openFor, search } from "./rows.ts";
import { SpreadPart } from "./spread.tsx";
import { TablesPart } from "./tables.tsx";
import { Toolbar, Units } from "./toolbar.tsx";
import { kept, preferred, Top } from "./top.tsx";
import { Tree } from "./tree.tsx";
import type { UnitData } from "./unit.ts";
import { useAddress, useWhere } from "./where.ts";

type View = "calls" | "spread" | "curves" | "tables";

const NOTHING: Filter = { query: "", verdicts: new Set(), direction: "", ofDtype: null, overflow: false };

/** The views that have data, the most telling first. */
export function viewsOf(report: Report): View[] {
  const { head, units } = report;
  const views: View[] = [];
  if (units.length) views.push("calls");
  if (head.curves?.length) views.push("curves");
  if (units.length > 1) views.push("spread");
  if (head.tables?.length) views.push("tables");
  return views;
}

export function App({ report }: { report: Report }) {
  const [{ language, theme }, setLook] = useState(preferred);
  const [dialog, setDialog] = useState<"" | "help" | "about">("");
  const views = useMemo(() => viewsOf(report), [report]);
  const [view, setView] = useState<View | undefined>(views[0]);
  const [filter, setFilter] = useState<Filter>(NOTHING);
  const [failure, fail] = useState("");
  const { where, setWhere, go } = useWhere(report, fail);
  const { data, row, open, gone } = where;
  const work = useRef<HTMLElement>(null);
  speak(language);
  useAddress(report, where, go, fail);
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    document.documentElement.dataset.theme = theme;
  }, [language, theme]);

  const found = useMemo(() => (data ? search(data, filter) : null), [data, filter]);
  const answered = report.head.answer.first?.place;
  const first = data && answered?.unit === data.number ? (answered.call ?? -1) : (data?.unit.first ?? -1);
  const show = useCallback(
    (unit: number, call: number) => {
      setView("calls");
      fail("");
      void go(unit, call, true).then(() => work.current?.scrollIntoView({ block: "start" }));
    },
    [go],
  );
  const choose = useCallback(
    (one: number) => setWhere((before) => ({ ...before, row: one, gone: before.gone + 1, isJump: false })),
    [setWhere],
  );
  const fold = useCallback(
    (one: number, isOpen: boolean) =>
      setWhere((before) => {
        const next = new Set(before.open);
        if (isOpen) next.add(one);
        else next.delete(one);
        return { ...before, open: next };
      }),
    [setWhere],
  );
  const foldTo = useCallback(
    (call: number) => {
      setFilter(NOTHING);
      setWhere((before) => {
        const around = before.data && call >= 0 ? openFor(before.data.calls, call) : [];
        return {
          ...before,
          open: new Set(around),
          row: call >= 0 ? call : before.row,
          gone: before.gone + 1,
          isJump: true,
        };
      });
    },
    [setWhere],
  );
  const step = useCallback(
    (by: 1 | -1) => {
      if (!data) return;
      const from = row !== null && row >= 0 ? row : by > 0 ? -1 : data.calls.size;
      const list = found?.calls;
      const next = list
        ? ((by > 0 ? list.find((one) => one > from) : list.findLast((one) => one < from)) ?? -1)
        : data.nextMarked(from, by);
      if (next >= 0) void go(data.number, next);
    },
    [data, row, found, go],
  );
  useKeys({
    step,
    help: () => setDialog("help"),
    toFirst: () => answered?.unit !== undefined && answered.call !== undefined && show(answered.unit, answered.call),
  });

  const call = row !== null && row >= 0 ? row : -1;
  return (
    <>
      <Top
        report={report}
        language={language}
        theme={theme}
        setLook={(next) => {
          kept("language", next.language);
          kept("theme", next.theme);
          setLook(next);
        }}
        open={setDialog}
      />
      <main>
        <AnswerPart head={report.head} go={show} />
        {failure ? (
          <p class="failure" role="alert">
            {failure}
          </p>
        ) : null}
        {view ? (
          <section class="work" ref={work} aria-label={t(`view_${view}`)}>
            <div class="views">
              <div
                role="tablist"
                aria-label={say(report.head.title)}
                onKeyDown={(event) => {
                  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
                  const next = views[views.indexOf(view) + by];
                  if (!by || !next) return;
                  setView(next);
                  document.getElementById(`tab-${next}`)?.focus();
                }}
              >
                {views.map((one) => (
                  <button
                    type="button"
                    role="tab"
                    id={`tab-${one}`}
                    aria-selected={one === view}
                    aria-controls="view"
                    tabIndex={one === view ? 0 : -1}
                    class={one === view ? "chosen" : ""}
                    onClick={() => setView(one)}
                  >
                    {t(`view_${one}`)}
                  </button>
                ))}
              </div>
              <span class="space" />
              {data && report.units.length > 1 && (view === "calls" || view === "spread") ? (
                <Units
                  report={report}
                  data={data}
                  setUnit={(unit) => void go(unit, sameCall(report, data, call, unit))}
                />
              ) : null}
            </div>
            <div class={`view ${view}`} id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
              <Guard key={view}>
                {view === "calls" && !data ? <p class="empty">{failure ? "" : t("loading")}</p> : null}
                {view === "calls" && data ? (
                  <>
                    {data.unit.line && printed(data.unit.line) !== printed(report.head.answer.line) ? (
                      <p class="unit-line">{say(data.unit.line)}</p>
                    ) : null}
                    <Course
                      data={data}
                      chosen={call}
                      first={first}
                      theme={theme}
                      choose={(one) => void go(data.number, one)}
                    />
                    <Toolbar
                      report={report}
                      data={data}
                      filter={filter}
                      found={found}
                      first={first}
                      setFilter={setFilter}
                      step={step}
                      foldTo={foldTo}
                    />
                    <p class="on-paper">{t("tree", shown(data.unit.label))}</p>
                    <div class="panes">
                      <Tree
                        key={data.calls.size ? "tree" : "none"}
                        data={data}
                        found={found}
                        open={open}
                        chosen={row ?? Number.NaN}
                        goneTo={gone}
                        first={first}
                        flag={flagOf(report, data, first)}
                        choose={choose}
                        fold={fold}
                      />
                      {call >= 0 ? (
                        <DetailsPart key={`${data.number}.${call}`} report={report} data={data} call={call} go={show} />
                      ) : (
                        <p class="details empty">{t("choose")}</p>
                      )}
                    </div>
                  </>
                ) : null}
                {view === "spread" ? (
                  <SpreadPart report={report} unit={data?.number ?? report.start} go={show} />
                ) : null}
                {view === "curves" ? <CurvesPart report={report} theme={theme} /> : null}
                {view === "tables" ? <TablesPart report={report} /> : null}
              </Guard>
            </div>
          </section>
        ) : null}
      </main>
      {dialog === "help" ? <Help close={() => setDialog("")} /> : null}
      {dialog === "about" ? <About head={report.head} close={() => setDialog("")} /> : null}
    </>
  );
}

/** What the first call that differs in a unit is called in the tree. */
function flagOf(report: Report, data: UnitData, first: number): string {
  const { answer, kind } = report.head;
  if (answer.first?.place.unit !== data.number || answer.first.place.call !== first) return t("first_of_unit");
  return t(kind === "compare" ? "first_wrong" : "first_found");
}

/** The call to show in another unit: the same one, where it has the same calls. */
function sameCall(report: Report, data: UnitData, call: number, unit: number): number {
  return report.units[unit].layout === data.unit.layout && call >= 0 ? call : (report.units[unit].first ?? -1);
}
