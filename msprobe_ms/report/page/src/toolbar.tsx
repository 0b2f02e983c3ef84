// Above the tree: which step and rank, and what is looked for.

import { useEffect, useState } from "preact/hooks";
import { count, shown } from "./format.ts";
import { t } from "./language.ts";
import { Mark, verdictName } from "./marks.tsx";
import type { Report } from "./report.ts";
import { type Filter, type Found, isFiltering } from "./rows.ts";
import type { UnitData } from "./unit.ts";
import { LETTERS, lookOf, worstOf } from "./verdicts.ts";

interface Props {
  report: Report;
  data: UnitData;
  filter: Filter;
  found: Found | null;
  first: number;
  setFilter: (filter: Filter) => void;
  step: (by: 1 | -1) => void;
  foldTo: (call: number) => void;
}

export function Toolbar(props: Props) {
  const { report, data, filter, found, first, setFilter, step, foldTo } = props;
  const held = LETTERS.filter((letter) => data.verdicts.includes(letter));
  const worst = ["c", "h", "m"].find((letter) => (data.overflows + data.goldenOverflows).includes(letter));
  const toggle = (letter: string) => {
    const verdicts = new Set(filter.verdicts);
    if (!verdicts.delete(letter)) verdicts.add(letter);
    setFilter({ ...filter, verdicts });
  };
  return (
    <div class="tools" role="toolbar" aria-label={t("filter")}>
      <input
        id="search"
        type="search"
        placeholder={t("search")}
        aria-label={t("search")}
        value={filter.query}
        onInput={(event) => setFilter({ ...filter, query: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)}
      />
      <span class="chips">
        {(data.isJudged ? held : []).map((letter) => (
          <button type="button" class="chip" aria-pressed={filter.verdicts.has(letter)} onClick={() => toggle(letter)}>
            <Mark letter={letter} small /> {verdictName(letter)}
          </button>
        ))}
        {worst ? (
          <button
            type="button"
            class="chip"
            aria-pressed={filter.overflow}
            onClick={() => setFilter({ ...filter, overflow: !filter.overflow })}
          >
            <span class={`overflow ${worst}`}>∞</span> {t("overflow")}
          </button>
        ) : null}
      </span>
      <select
        aria-label={t("both")}
        value={filter.direction}
        onChange={(event) => setFilter({ ...filter, direction: event.currentTarget.value })}
      >
        <option value="">{t("both")}</option>
        <option value="f">{t("forward")}</option>
        <option value="b">{t("backward")}</option>
      </select>
      <Dtypes {...props} />
      {isFiltering(filter) ? (
        <button
          type="button"
          onClick={() => setFilter({ query: "", verdicts: new Set(), direction: "", ofDtype: null, overflow: false })}
        >
          {t("reset")}
        </button>
      ) : null}
      <span class="quiet found" aria-live="polite">
        {found
          ? t("found", count(found.calls.length), count(data.calls.size))
          : t("calls_count", count(data.calls.size))}
      </span>
      <span class="space" />
      <button type="button" title={t("previous_marked")} aria-label={t("previous_marked")} onClick={() => step(-1)}>
        ↑
      </button>
      <button type="button" title={t("next_marked")} aria-label={t("next_marked")} onClick={() => step(1)}>
        ↓
      </button>
      {first >= 0 ? (
        <button type="button" onClick={() => foldTo(first)}>
          {t(report.head.kind === "compare" ? "unfold_path" : "unfold_found")}
        </button>
      ) : (
        <button type="button" onClick={() => foldTo(-1)}>
          {t("fold_all")}
        </button>
      )}
    </div>
  );
}

/** Which step of which rank is shown. */
export function Units({ report, data, setUnit }: { report: Report; data: UnitData; setUnit: (unit: number) => void }) {
  const sign = (number: number) => {
    const letter = worstOf(report.units[number]);
    return letter === "e" || letter === "w" ? `${lookOf(letter).mark} ` : "";
  };
  return (
    <span class="units">
      <button type="button" aria-label="−" disabled={data.number === 0} onClick={() => setUnit(data.number - 1)}>
        ‹
      </button>
      <select
        aria-label={t("unit")}
        value={String(data.number)}
        onChange={(event) => setUnit(Number(event.currentTarget.value))}
      >
        {report.units.map((unit, number) => (
          <option value={String(number)}>
            {sign(number)}
            {shown(unit.label)}
            {unit.stage ? ` (${shown(unit.stage)})` : ""}
          </option>
        ))}
      </select>
      <button
        type="button"
        aria-label="+"
        disabled={data.number === report.units.length - 1}
        onClick={() => setUnit(data.number + 1)}
      >
        ›
      </button>
    </span>
  );
}

/** The dtypes are read when somebody asks for them: they stand with the records. */
function Dtypes({ report, data, filter, setFilter }: Props) {
  const [dtypes, setDtypes] = useState<Map<string, Uint8Array> | null>(null);
  const [chosen, setChosen] = useState("");
  const isReset = filter.ofDtype === null;
  // Another unit has other calls of a dtype.
  useEffect(() => {
    setDtypes(null);
    setChosen("");
    if (filter.ofDtype) setFilter({ ...filter, ofDtype: null });
  }, [data]);
  useEffect(() => {
    if (isReset) setChosen("");
  }, [isReset]);
  if (!data.unit.details?.length) return null;
  const read = () => void report.dtypesOf(data).then(setDtypes, () => setDtypes(new Map()));
  return (
    <select
      aria-label="dtype"
      value={chosen}
      onFocus={read}
      onPointerEnter={read}
      onChange={(event) => {
        const dtype = event.currentTarget.value;
        setChosen(dtype);
        setFilter({ ...filter, ofDtype: dtypes?.get(dtype) ?? null });
      }}
    >
      <option value="">{t("any_dtype")}</option>
      {[...(dtypes?.keys() ?? [])].sort().map((dtype) => (
        <option value={dtype}>{shown(dtype)}</option>
      ))}
    </select>
  );
}
