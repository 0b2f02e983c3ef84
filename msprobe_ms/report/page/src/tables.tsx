// Tables as the commands write them: sorted by any column, filtered, of any length.

import { useMemo, useState } from "preact/hooks";
import type { Cell, Table, Words } from "./document.ts";
import { count, short } from "./format.ts";
import { say, t } from "./language.ts";
import { List } from "./list.tsx";
import { Failure, Mark, useAwaited, verdictName } from "./marks.tsx";
import { isNumber, type Order, rowsWanted, verdictsOf, widthsOf } from "./ordered.ts";
import type { Report } from "./report.ts";

const HEIGHT = 26;

export function TablesPart({ report }: { report: Report }) {
  const sets = report.head.tables ?? [];
  const [at, setAt] = useState(0);
  const { value: table, failure } = useAwaited(() => report.table(sets[at].chunk), [report, at]);
  return (
    <div class="tables-part">
      <nav aria-label={t("view_tables")}>
        {sets.map(({ title, rows }, i) => (
          <button
            type="button"
            aria-pressed={i === at}
            class={i === at ? "tab chosen" : "tab"}
            onClick={() => setAt(i)}
          >
            {say(title)} {rows ? <span class="number">{count(rows)}</span> : null}
          </button>
        ))}
      </nav>
      {failure ? <Failure text={failure} /> : null}
      {table ? (
        <Rows key={at} table={table} title={sets[at].title} />
      ) : (
        <p class="empty">{failure ? "" : t("loading")}</p>
      )}
    </div>
  );
}

function textOf(value: Cell): string {
  return value === null ? "" : say(typeof value === "number" ? String(value) : value);
}

function toggled(set: ReadonlySet<string>, one: string): Set<string> {
  const next = new Set(set);
  if (!next.delete(one)) next.add(one);
  return next;
}

function Rows({ table, title }: { table: Table; title: Words }) {
  const [query, setQuery] = useState("");
  const [verdicts, setVerdicts] = useState<ReadonlySet<string>>(new Set());
  const [order, setOrder] = useState<Order | null>(null);
  const [chosen, setChosen] = useState(-1);
  const rows = useMemo(() => rowsWanted(table, query, verdicts, order), [table, query, verdicts, order]);
  const widths = useMemo(() => widthsOf(table), [table]);
  const held = useMemo(() => verdictsOf(table), [table]);
  const width = widths.reduce((sum, one) => sum + one, held.length ? 34 : 0);
  const template = `${held.length ? "34px " : ""}${widths.map((width) => `minmax(${width}px, ${width}fr)`).join(" ")}`;
  const sort = (column: number) => {
    setOrder(
      order?.column !== column
        ? { column, isDown: column < 0 }
        : order.isDown === column < 0
          ? { column, isDown: !order.isDown }
          : null,
    );
  };
  const arrow = (column: number) => (order?.column === column ? (order.isDown ? " ▾" : " ▴") : "");
  const sorted = (column: number) => (order?.column === column ? (order.isDown ? "descending" : "ascending") : "none");
  const heads = [
    ...(held.length ? [{ column: -1, name: "" }] : []),
    ...table.columns.map((name, column) => ({ column, name: say(name) })),
  ];
  return (
    <div class="table-part">
      <div class="tools">
        <input
          type="search"
          placeholder={t("filter_rows")}
          aria-label={t("filter_rows")}
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        {held.map(([letter, number]) => (
          <button
            type="button"
            class="chip"
            aria-pressed={verdicts.has(letter)}
            onClick={() => setVerdicts(toggled(verdicts, letter))}
          >
            <Mark letter={letter} small /> {verdictName(letter)} {count(number)}
          </button>
        ))}
        <span class="quiet">{t("rows", count(rows.length), count(table.rows.length))}</span>
      </div>
      <List
        count={rows.length}
        height={HEIGHT}
        width={width}
        holder={{
          class: "table",
          role: "table",
          tabIndex: 0,
          "aria-label": say(title),
          "aria-rowcount": rows.length + 1,
        }}
        body={{ role: "rowgroup" }}
        above={
          <div class="heads" role="row" style={{ gridTemplateColumns: template, minWidth: `${width}px` }}>
            {heads.map(({ column, name }) => (
              <div role="columnheader" aria-sort={sorted(column)}>
                <button type="button" title={t("sort_by", name || t("verdict"))} onClick={() => sort(column)}>
                  {column < 0 ? <span class="unseen">{t("verdict")}</span> : name}
                  {arrow(column) || (column < 0 ? "↕" : "")}
                </button>
              </div>
            ))}
          </div>
        }
        render={(i) => {
          const row = table.rows[rows[i]];
          const letter = table.verdicts?.[rows[i]];
          return (
            <div
              key={rows[i]}
              role="row"
              aria-rowindex={i + 2}
              class={`line${rows[i] === chosen ? " chosen" : ""}`}
              style={{ gridTemplateColumns: template, height: `${HEIGHT}px` }}
              onClick={() => setChosen(rows[i])}
            >
              {held.length ? (
                <div role="cell">
                  <Mark letter={letter ?? "."} small />
                </div>
              ) : null}
              {table.columns.map((_, column) => {
                const value = row[column] ?? null;
                return (
                  <div role="cell" class={isNumber(value) ? "figure" : ""} title={textOf(value)}>
                    {typeof value === "number" ? short(value) : textOf(value)}
                  </div>
                );
              })}
            </div>
          );
        }}
      />
      {chosen >= 0 ? <Whole table={table} row={chosen} /> : null}
    </div>
  );
}

/** All cells of the chosen row, in full. */
function Whole({ table, row }: { table: Table; row: number }) {
  return (
    <dl class="whole" aria-live="polite">
      {table.columns.map((title, column) => {
        const value = textOf(table.rows[row][column] ?? null);
        return value === "" ? null : (
          <>
            <dt>{say(title)}</dt>
            <dd>{value}</dd>
          </>
        );
      })}
    </dl>
  );
}
