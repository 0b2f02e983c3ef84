// The page: what is above everything, and the parts of the report that have data.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { AnswerPart } from "./answer.tsx";
import { Course } from "./course.tsx";
import { CurvesPart } from "./curves.tsx";
import { DetailsPart } from "./details.tsx";
import { About, Help } from "./dialogs.tsx";
import { shown } from "./format.ts";
import { isKey, type Language, speak, t } from "./language.ts";
import { hashOf, placeOf } from "./place.ts";
import type { Report } from "./report.ts";
import { type Filter, openFor, search } from "./rows.ts";
import { SpreadPart } from "./spread.tsx";
import { TablesPart } from "./tables.tsx";
import { Toolbar } from "./toolbar.tsx";
import { Tree } from "./tree.tsx";
import type { UnitData } from "./unit.ts";

type View = "calls" | "spread" | "curves" | "tables";

const NOTHING: Filter = { query: "", verdicts: new Set(), direction: "", ofDtype: null, overflow: false };

function kept(key: string, value?: string): string {
  try {
    if (value !== undefined) localStorage.setItem(`msprobe-${key}`, value);
    return localStorage.getItem(`msprobe-${key}`) ?? "";
  } catch {
    return value ?? ""; // A page from a file may keep nothing.
  }
}

function preferred(): { language: Language; theme: string } {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const chinese = navigator.language.toLowerCase().startsWith("zh");
  return {
    language: (kept("language") || (chinese ? "zh" : "en")) as Language,
    theme: kept("theme") || (dark ? "dark" : "light"),
  };
}

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

interface Where {
  data: UnitData | null;
  /** The chosen call, ~i for micro step i; null for none. */
  row: number | null;
  open: ReadonlySet<number>;
  /** Counts what was gone to, so that the tree brings it into sight. */
  gone: number;
}

/** What is shown of the units: the chosen unit and row, and how one goes elsewhere. */
function useWhere(report: Report, fail: (text: string) => void) {
  const [where, setWhere] = useState<Where>({ data: null, row: null, open: new Set(), gone: 0 });
  const wanted = useRef(0);
  const go = useCallback(
    async (unit: number, call: number): Promise<void> => {
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
        const first = unit === report.head.answer.first?.unit ? report.head.answer.first.call : data.unit.first;
        const row = call >= 0 && call < data.calls.size ? call : -1;
        for (const one of [row, first ?? -1]) {
          if (one >= 0 && one < data.calls.size) for (const around of openFor(data.calls, one)) open.add(around);
        }
        return { data, row: row < 0 ? null : row, open, gone: before.gone + 1 };
      });
    },
    [report, fail],
  );
  return { where, setWhere, go };
}

/** A link of the address is followed; the address follows what is chosen. */
function useAddress(report: Report, where: Where, go: (unit: number, call: number) => Promise<void>, fail: (text: string) => void) {
  const follow = useCallback(async () => {
    const place = placeOf(location.hash);
    const named = report.units.findIndex((unit) => unit.label === place.unit);
    const unit = named < 0 ? report.start : named;
    if (!report.units.length) return;
    const answered = report.head.answer.first;
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
    if (hash !== location.hash) history.replaceState(null, "", hash);
  }, [where]);
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
  const answered = report.head.answer.first;
  const first = data && answered?.unit === data.number ? (answered.call ?? -1) : (data?.unit.first ?? -1);
  const show = useCallback(
    (unit: number, call: number) => {
      setView("calls");
      fail("");
      void go(unit, call).then(() => work.current?.scrollIntoView({ block: "nearest" }));
    },
    [go],
  );
  const choose = useCallback((one: number) => setWhere((before) => ({ ...before, row: one, gone: before.gone + 1 })), [setWhere]);
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
        return { ...before, open: new Set(around), row: call >= 0 ? call : before.row, gone: before.gone + 1 };
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
  useKeys({ step, help: () => setDialog("help"), toFirst: () => answered?.unit !== undefined && answered.call !== undefined && show(answered.unit, answered.call) });

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
            <div class="views" role="tablist" aria-label={shown(report.head.title)}>
              {views.map((one) => (
                <button
                  type="button"
                  role="tab"
                  id={`tab-${one}`}
                  aria-selected={one === view}
                  aria-controls="view"
                  class={one === view ? "chosen" : ""}
                  onClick={() => setView(one)}
                >
                  {t(`view_${one}`)}
                </button>
              ))}
            </div>
            <div class={`view ${view}`} id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
              {view === "calls" && !data ? <p class="empty">{failure ? "" : t("loading")}</p> : null}
              {view === "calls" && data ? (
                <>
                  <Course data={data} chosen={call} first={first} theme={theme} choose={(one) => void go(data.number, one)} />
                  <Toolbar
                    report={report}
                    data={data}
                    filter={filter}
                    found={found}
                    first={first}
                    setFilter={setFilter}
                    setUnit={(unit) => void go(unit, sameCall(report, data, call, unit))}
                    step={step}
                    foldTo={foldTo}
                  />
                  <div class="panes">
                    <Tree
                      key={data.calls.size ? "tree" : "none"}
                      data={data}
                      found={found}
                      open={open}
                      chosen={row ?? Number.NaN}
                      goneTo={gone}
                      first={first}
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
              {view === "spread" ? <SpreadPart report={report} unit={data?.number ?? report.start} go={show} /> : null}
              {view === "curves" ? <CurvesPart report={report} theme={theme} /> : null}
              {view === "tables" ? <TablesPart report={report} /> : null}
            </div>
          </section>
        ) : null}
      </main>
      {dialog === "help" ? <Help close={() => setDialog("")} /> : null}
      {dialog === "about" ? <About head={report.head} close={() => setDialog("")} /> : null}
    </>
  );
}

/** The call to show in another unit: the same one, where it has the same calls. */
function sameCall(report: Report, data: UnitData, call: number, unit: number): number {
  return report.units[unit].layout === data.unit.layout && call >= 0 ? call : (report.units[unit].first ?? -1);
}

interface Keys {
  step: (by: 1 | -1) => void;
  help: () => void;
  toFirst: () => void;
}

function useKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const element = event.target as HTMLElement;
      const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && isTyping) {
        element.blur();
        document.getElementById("tree")?.focus();
      }
      if (isTyping || document.querySelector("dialog[open]")) return;
      const does: Record<string, () => void> = {
        "/": () => (document.getElementById("search") ?? document.querySelector<HTMLElement>("input[type=search]"))?.focus(),
        n: () => now.current.step(1),
        p: () => now.current.step(-1),
        f: () => now.current.toFirst(),
        "?": () => now.current.help(),
      };
      if (!(event.key in does)) return;
      event.preventDefault();
      does[event.key]();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

interface TopProps {
  report: Report;
  language: Language;
  theme: string;
  setLook: (look: { language: Language; theme: string }) => void;
  open: (dialog: "help" | "about") => void;
}

function Top({ report, language, theme, setLook, open }: TopProps) {
  const { head } = report;
  const kind = `kind_${head.kind}`;
  return (
    <header class="top">
      <a class="skip" href="#work" onClick={(event) => {
        event.preventDefault();
        document.getElementById("tree")?.focus();
      }}>
        {t("skip")}
      </a>
      <span class="brand">msprobe</span>
      <span class="title" title={shown(head.title)}>
        {shown(head.title)}
      </span>
      <span class="quiet kind">{isKey(kind) ? t(kind) : shown(head.kind)}</span>
      <span class="space" />
      <button type="button" onClick={() => setLook({ language: language === "zh" ? "en" : "zh", theme })} lang={language === "zh" ? "en" : "zh"}>
        {t("language")}
      </button>
      <button
        type="button"
        aria-label={t("theme")}
        title={t("theme")}
        aria-pressed={theme === "dark"}
        onClick={() => setLook({ language, theme: theme === "dark" ? "light" : "dark" })}
      >
        {theme === "dark" ? "☀" : "☾"}
      </button>
      <button type="button" aria-label={t("help")} title={t("help")} onClick={() => open("help")}>
        ?
      </button>
      <button type="button" onClick={() => open("about")} aria-label={t("about")} title={t("about")}>
        ⓘ
      </button>
    </header>
  );
}
