// The tree of calls, with what is looked for in it.

import { useMemo } from "preact/hooks";
import { count, labelInside, shown } from "./format.ts";
import { t } from "./language.ts";
import { List } from "./list.tsx";
import { Bar, Mark, Overflow } from "./marks.tsx";
import { type Found, rowsOf } from "./rows.ts";
import type { UnitData } from "./unit.ts";
import { DIFFERS } from "./verdicts.ts";

const HEIGHT = 24;
const DEEPEST = 12;

interface Props {
  data: UnitData;
  found: Found | null;
  open: ReadonlySet<number>;
  /** The chosen row: a call, or ~i for a micro step. */
  chosen: number;
  goneTo: unknown;
  /** The first call of this unit that differs, -1 for none; and what it is called. */
  first: number;
  flag: string;
  choose: (row: number) => void;
  fold: (row: number, isOpen: boolean) => void;
}

export function Tree(props: Props) {
  const { data, found, open, chosen, choose, fold } = props;
  const { calls } = data;
  const rows = useMemo(() => rowsOf(calls, open, found), [calls, open, found]);
  const at = rows.indexOf(chosen);
  const isJudged = data.isJudged;
  const moved = (event: KeyboardEvent) => {
    const target = keyed(event.key, rows, at, props);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (target !== null && target !== chosen) choose(target);
  };
  if (!rows.length) return <p class="empty">{found ? t("nothing_found") : t("no_calls")}</p>;
  return (
    <List
      count={rows.length}
      height={HEIGHT}
      row={at}
      goneTo={props.goneTo}
      holder={{
        class: "tree",
        id: "tree",
        role: "tree",
        tabIndex: 0,
        "aria-label": t("tree", shown(data.unit.label)),
        "aria-activedescendant": at < 0 ? undefined : `row-${at}`,
        onKeyDown: moved,
      }}
      body={{ role: "presentation" }}
      render={(i) => (
        <Row
          key={rows[i]}
          at={i}
          row={rows[i]}
          data={data}
          flag={rows[i] === props.first ? props.flag : ""}
          isJudged={isJudged}
          isChosen={rows[i] === chosen}
          isOpen={found ? true : open.has(rows[i])}
          isDim={found !== null && rows[i] >= 0 && found.seen[rows[i]] === 2}
          choose={choose}
          fold={fold}
        />
      )}
    />
  );
}

/** The row to which a key moves; null where it does something else, undefined where it means nothing. */
function keyed(key: string, rows: number[], at: number, props: Props): number | null | undefined {
  const { data, open, found, fold } = props;
  const row = rows[at];
  const inside = row === undefined ? [] : insideOf(data, row);
  const isOpen = found !== null || open.has(row);
  switch (key) {
    case "ArrowDown":
      return rows[Math.min(rows.length - 1, at + 1)];
    case "ArrowUp":
      return rows[Math.max(0, at - 1)];
    case "Home":
      return rows[0];
    case "End":
      return rows[rows.length - 1];
    case "PageDown":
      return rows[Math.min(rows.length - 1, at + 20)];
    case "PageUp":
      return rows[Math.max(0, at - 20)];
    case "ArrowRight":
      if (!inside.length) return null;
      if (isOpen) return rows[at + 1];
      fold(row, true);
      return null;
    case "ArrowLeft":
      if (inside.length && open.has(row) && !found) {
        fold(row, false);
        return null;
      }
      return outside(data, row);
    case "Enter":
    case " ":
      if (inside.length) fold(row, !open.has(row));
      return null;
    default:
      return undefined;
  }
}

function insideOf(data: UnitData, row: number): number[] {
  return row < 0 ? (data.calls.micro[~row]?.roots ?? []) : data.calls.children[row];
}

function outside(data: UnitData, row: number | undefined): number | null {
  if (row === undefined || row < 0) return null;
  const parent = data.calls.parents[row];
  if (parent >= 0) return parent;
  const micro = data.calls.micro.findIndex((each) => each.roots.includes(row));
  return micro < 0 ? null : ~micro;
}

interface RowProps {
  at: number;
  row: number;
  data: UnitData;
  flag: string;
  isJudged: boolean;
  isChosen: boolean;
  isOpen: boolean;
  isDim: boolean;
  choose: (row: number) => void;
  fold: (row: number, isOpen: boolean) => void;
}

function Row(props: RowProps) {
  const { at, row, data, flag, isChosen, isOpen, choose, fold } = props;
  const inside = insideOf(data, row);
  const micro = data.calls.micro.length ? 1 : 0;
  const depth = row < 0 ? 0 : data.calls.depth[row] + micro;
  const classes = ["row", isChosen && "chosen", flag && "first", props.isDim && "dim", row < 0 && "group"];
  return (
    <div
      class={classes.filter(Boolean).join(" ")}
      id={`row-${at}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={isChosen}
      aria-expanded={inside.length ? isOpen : undefined}
      style={{ height: `${HEIGHT}px`, paddingInlineStart: `${6 + Math.min(depth, DEEPEST) * 14}px` }}
      onClick={() => choose(row)}
      onDblClick={() => inside.length && fold(row, !isOpen)}
    >
      {inside.length ? (
        <span
          class={isOpen ? "twist open" : "twist"}
          aria-hidden="true"
          onClick={(event) => {
            event.stopPropagation();
            fold(row, !isOpen);
          }}
        />
      ) : (
        <span class="twist leaf" aria-hidden="true" />
      )}
      {row < 0 ? (
        <MicroStep data={data} row={row} />
      ) : (
        <CallRow {...props} depth={depth} hasInside={inside.length > 0} />
      )}
    </div>
  );
}

function MicroStep({ data, row }: { data: UnitData; row: number }) {
  const { step, roots } = data.calls.micro[~row];
  let differing = 0;
  for (const call of roots) differing += data.inside(call).differing + Number(data.severity[call] >= DIFFERS);
  return (
    <>
      <span class="label">{t("micro_step", step)}</span>
      {differing ? <Differing number={differing} worst="e" /> : null}
    </>
  );
}

function Differing({ number, worst }: { number: number; worst: string }) {
  const said = t("differing_inside", count(number));
  return (
    <span class={`differing ${worst}`} title={said} role="img" aria-label={said}>
      {count(number)}
    </span>
  );
}

function CallRow({
  row: call,
  data,
  flag,
  isJudged,
  isOpen,
  depth,
  hasInside,
}: RowProps & { depth: number; hasInside: boolean }) {
  const { calls } = data;
  const parts = calls.partsOf(call);
  const parent = calls.parents[call];
  const label = labelInside(parts, parent < 0 ? null : calls.partsOf(parent));
  const { differing, worst } = data.inside(call);
  const direction = calls.direction(call);
  const letter = data.verdict(call);
  const of = parts.of || calls.layout.classes?.[call] || "";
  return (
    <>
      {isJudged ? <Mark letter={letter} /> : null}
      {direction === "f" || direction === "b" ? (
        <span class={`direction ${direction}`} title={t(direction === "f" ? "forward" : "backward")}>
          {direction === "f" ? "→" : "←"}
        </span>
      ) : (
        <span class="direction" />
      )}
      <span class={`label kind-${calls.kind(call)}`} title={shown(calls.name(call))}>
        {depth > DEEPEST ? <span class="depth">{depth} </span> : null}
        {shown(label)}
        {parts.number && parts.number !== "0" ? <span class="times">·{parts.number}</span> : null}
        {of ? <span class="of"> {shown(of)}</span> : null}
      </span>
      {flag ? <span class="flag">{flag}</span> : null}
      <Overflow letter={data.overflow(call)} golden={data.goldenOverflow(call)} />
      {hasInside && !isOpen && differing ? <Differing number={differing} worst={worst} /> : null}
      {data.excess ? <Bar excess={data.distance(call)} letter={letter} /> : null}
    </>
  );
}
