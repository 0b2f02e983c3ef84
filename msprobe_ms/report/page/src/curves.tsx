// Curves of a monitor: both runs over the steps, with the band in which two correct runs stay.

import { useState } from "preact/hooks";
import type uPlot from "uplot";
import { type Curve, type CurveSet, type Measured, numberOf } from "./document.ts";
import { short, shown } from "./format.ts";
import { say, t } from "./language.ts";
import { List } from "./list.tsx";
import { Failure, Mark, useAwaited } from "./marks.tsx";
import { axis, type Colors, Plot } from "./plot.tsx";
import type { Report } from "./report.ts";

const SHOWN = 8;

/** The curves of the answer first, then those furthest outside. */
export function sorted(sets: CurveSet[]): CurveSet[] {
  const rank = (set: CurveSet) => numberOf(set.excess) ?? -1;
  return [...sets].sort((a, b) => Number(b.is_answer ?? 0) - Number(a.is_answer ?? 0) || rank(b) - rank(a) || 0);
}

export function CurvesPart({ report, theme }: { report: Report; theme: string }) {
  const [query, setQuery] = useState("");
  const sets = sorted(report.head.curves ?? []);
  const [chosen, setChosen] = useState(sets[0]);
  const wanted = query.trim().toLowerCase();
  const found = sets.filter(({ target, stage }) => `${target} ${say(stage)}`.toLowerCase().includes(wanted));
  return (
    <div class="curves-part">
      <nav aria-label={t("targets")}>
        <input
          type="search"
          placeholder={t("targets")}
          aria-label={t("targets")}
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <List
          count={found.length}
          height={40}
          holder={{ class: "targets", role: "list", "aria-label": t("targets"), tabIndex: 0 }}
          body={{ role: "presentation" }}
          render={(i) => <Target key={i} set={found[i]} isChosen={found[i] === chosen} choose={setChosen} />}
        />
      </nav>
      {chosen ? <Charts key={chosen.chunk} report={report} set={chosen} theme={theme} /> : null}
    </div>
  );
}

function Target({ set, isChosen, choose }: { set: CurveSet; isChosen: boolean; choose: (set: CurveSet) => void }) {
  const excess = numberOf(set.excess);
  const letter = set.is_answer || (excess !== null && excess > 1) ? "e" : excess === null ? "." : "p";
  return (
    <div role="listitem" style={{ height: "40px" }}>
      <button
        type="button"
        class={isChosen ? "target chosen" : "target"}
        aria-pressed={isChosen}
        onClick={() => choose(set)}
      >
        <Mark letter={letter} small />
        <span class="text" title={shown(set.target)}>
          {shown(set.target)}
        </span>
        <span class="quiet" title={say(set.stage)}>
          {excess !== null && Number.isFinite(excess) ? `×${short(excess)} · ` : ""}
          {say(set.stage)}
        </span>
      </button>
    </div>
  );
}

function Charts({ report, set, theme }: { report: Report; set: CurveSet; theme: string }) {
  const { value: curves, failure } = useAwaited(() => report.curves(set.chunk), [set]);
  const [limit, setLimit] = useState(SHOWN);
  const [wish, setWish] = useState<Shape>("ratio");
  if (failure) return <Failure text={failure} />;
  if (!curves) return <p class="empty">{t("loading")}</p>;
  const left = (curve: Curve) => curve.left ?? Number.POSITIVE_INFINITY;
  const ordered = [...curves].sort((a, b) => (left(a) === left(b) ? 0 : left(a) - left(b)));
  return (
    <div class="charts">
      <h2>
        <code>{shown(set.target)}</code> <span class="quiet">{say(set.stage)}</span>
      </h2>
      {curves.some(hasRatio) ? (
        <span class="switch">
          {(["ratio", "values"] as const).map((one) => (
            <button type="button" aria-pressed={one === wish} onClick={() => setWish(one)}>
              {t(`curve_${one}`)}
            </button>
          ))}
        </span>
      ) : null}
      <p class="legend">
        <span class="swatch target" /> {t("target")} <span class="swatch golden" /> {t("golden")}{" "}
        <span class="swatch band" /> {t("band")}
      </p>
      <div class="grid">
        {ordered.slice(0, limit).map((curve) => (
          <Chart curve={curve} theme={theme} shape={hasRatio(curve) ? wish : "values"} />
        ))}
      </div>
      {ordered.length > limit ? (
        <button type="button" class="link" onClick={() => setLimit(limit + SHOWN)}>
          {t("more", Math.min(SHOWN, ordered.length - limit))}
        </button>
      ) : null}
    </div>
  );
}

type Shape = "ratio" | "values";
type Column = (number | null)[];

/** Whether both runs have numbers; then one divided by the other shows what two lines on each other hide. */
const hasRatio = (curve: Curve) => Boolean(curve.golden?.length && curve.target.length);

function column(values: Measured[] | undefined, size: number): Column {
  return Array.from({ length: size }, (_, i) => {
    const value = numberOf(values?.[i]);
    return value === null || !Number.isFinite(value) ? null : value;
  });
}

/** Low and high end of the band, golden and target by step; of shape ratio all divided by the golden. */
export function columnsOf(curve: Curve, shape: Shape): Column[] {
  const size = curve.steps.length;
  const [low, high, golden, target] = [curve.low, curve.high, curve.golden, curve.target].map((each) =>
    column(each, size),
  );
  if (shape === "values") return [low, high, golden, target];
  const divided = (values: Column) => values.map((one, i) => (one === null || !golden[i] ? null : one / golden[i]));
  const [one, other] = [divided(low), divided(high)];
  const lower = one.map((value, i) => (value === null || other[i] === null ? null : Math.min(value, other[i])));
  const upper = one.map((value, i) => (value === null || other[i] === null ? null : Math.max(value, other[i])));
  return [lower, upper, divided(golden), divided(target)];
}

function Chart({ curve, theme, shape }: { curve: Curve; theme: string; shape: Shape }) {
  const isLeft = curve.left !== undefined && curve.left !== null;
  const name = `${curve.statistic}${curve.rank === null ? "" : ` · ${t("rank")} ${curve.rank}`}`;
  const said = isLeft ? t("left_at", curve.left as number) : curve.low?.length ? t("stays") : "";
  const columns = [curve.steps, ...columnsOf(curve, shape)];
  return (
    <figure class={isLeft ? "chart left" : "chart"}>
      <figcaption>
        <b>{shown(name)}</b> <span>{said}</span>
      </figcaption>
      <Plot
        label={`${shown(name)}: ${said}`}
        height={190}
        on={[curve, theme, shape]}
        data={columns as uPlot.AlignedData}
        options={(color) => optionsOf(color, curve.left ?? null)}
      />
    </figure>
  );
}

function optionsOf(color: Colors, left: number | null): Omit<uPlot.Options, "width" | "height"> {
  const points = { show: false };
  return {
    legend: { show: false },
    scales: { x: { time: false } },
    axes: [
      axis(color, { size: 26 }),
      axis(color, { size: 56, space: 28, values: (_, splits) => splits.map((one) => short(one)) }),
    ],
    series: [
      {},
      { stroke: color("band-line"), width: 1, points },
      { stroke: color("band-line"), width: 1, points },
      { stroke: color("golden"), width: 1.5, dash: [6, 4], points },
      { stroke: color("accent"), width: 1.75, points },
    ],
    bands: [{ series: [2, 1], fill: color("band") }],
    hooks: {
      draw: [
        (plot) => {
          if (left === null) return;
          const x = plot.valToPos(left, "x", true);
          plot.ctx.save();
          plot.ctx.strokeStyle = color("error");
          plot.ctx.lineWidth = 1.5 * (devicePixelRatio || 1);
          plot.ctx.beginPath();
          plot.ctx.moveTo(x, plot.bbox.top);
          plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          plot.ctx.stroke();
          plot.ctx.restore();
        },
      ],
    },
  };
}
