// The error along the step: one mark for each call, in execution order.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { count, short, shown } from "./format.ts";
import { t } from "./language.ts";
import { verdictName } from "./marks.tsx";
import { axis, type Colors, Plot } from "./plot.tsx";
import type { UnitData } from "./unit.ts";
import { DIFFERS, lookOf } from "./verdicts.ts";

interface Props {
  data: UnitData;
  chosen: number;
  first: number;
  theme: string;
  choose: (call: number) => void;
}

interface Range {
  low: number;
  high: number;
}

/** The limits of the logarithmic axis, whole powers of ten; zeros stand at its foot, infinities at its head. */
export function rangeOf(values: Float32Array): Range {
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  for (const value of values) {
    if (!(value > 0) || value === Number.POSITIVE_INFINITY) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!high) return { low: 1e-6, high: 1 };
  const foot = Math.max(low, high / 1e10);
  return { low: 10 ** Math.floor(Math.log10(foot) - 0.3), high: 10 ** Math.ceil(Math.log10(high) + 0.1) };
}

export function Course({ data, chosen, first, theme, choose }: Props) {
  const [wish, setWish] = useState<"error" | "excess">("error");
  const which = wish === "error" && data.errors ? "error" : data.excess ? "excess" : "error";
  const values = which === "error" ? data.errors : data.excess;
  const [at, setAt] = useState(-1);
  const plot = useRef<uPlot | null>(null);
  const now = useRef(first);
  now.current = first;
  const pointed = useRef(chosen);
  pointed.current = chosen;
  useEffect(() => {
    if (plot.current) point(plot.current, chosen === first ? -1 : chosen);
  }, [chosen, first]);
  const range = useMemo(() => rangeOf(values ?? new Float32Array()), [values]);
  const columns = useMemo(() => columnsOf(values ?? new Float32Array(), range), [values, range]);
  const differing = useMemo(() => data.severity.reduce((sum, one) => sum + Number(one >= DIFFERS), 0), [data]);
  if (!values) return null;
  const pick = () => (plot.current ? nearest(plot.current, columns[1] as number[]) : -1);
  const label = t("course_label", count(data.calls.size), count(differing), first < 0 ? "–" : first);
  return (
    <section class="course" aria-label={t("course")}>
      <header>
        <h2>{t("course")}</h2>
        {data.errors && data.excess ? (
          <span class="switch">
            {(["error", "excess"] as const).map((one) => (
              <button type="button" aria-pressed={which === one} onClick={() => setWish(one)}>
                {t(`course_${one}`)}
              </button>
            ))}
          </span>
        ) : (
          <span class="quiet">{t(`course_${which}`)}</span>
        )}
        {which === "error" && data.noise ? (
          <span class="quiet">
            <span class="swatch noise" /> {t("noise")}
          </span>
        ) : null}
        <span class="hint" aria-hidden="true">
          {at >= 0 ? `${shown(data.calls.name(at))}  ${short(values[at])}  ${verdictName(data.verdict(at))}` : ""}
        </span>
      </header>
      <div
        class="surface"
        onMouseMove={() => setAt(pick())}
        onMouseLeave={() => setAt(-1)}
        onClick={() => {
          const call = pick();
          if (call >= 0) choose(call);
        }}
      >
        <Plot
          label={label}
          height={118}
          on={[data, which, theme]}
          data={columns}
          options={(color) => optionsOf(data, which, range, color, now, pointed)}
          made={(one) => {
            plot.current = one;
          }}
        />
      </div>
    </section>
  );
}

function columnsOf(values: Float32Array, { low, high }: Range): uPlot.AlignedData {
  const x = Array.from(values, (_, call) => call);
  const y = Array.from(values, (value) => (Number.isNaN(value) ? null : Math.min(high, Math.max(low, value))));
  return [x, y];
}

/** Powers of ten in a range, at most some six of them. */
function decades({ low, high }: Range): number[] {
  const [from, to] = [Math.round(Math.log10(low)), Math.round(Math.log10(high))];
  const by = Math.max(1, Math.ceil((to - from) / 6));
  return Array.from({ length: Math.floor((to - from) / by) + 1 }, (_, i) => 10 ** (from + i * by));
}

/** A power of ten, short enough for the axis. */
const decade = (one: number) => (one >= 1e5 ? one.toExponential().replace("e+", "e") : short(one));

/** The call whose mark is nearest to the pointer. */
function nearest(plot: uPlot, y: (number | null)[]): number {
  const { left = -1, top = -1 } = plot.cursor;
  if (left < 0 || top < 0) return -1;
  const from = Math.max(0, Math.floor(plot.posToVal(left - 8, "x")));
  const to = Math.min(y.length - 1, Math.ceil(plot.posToVal(left + 8, "x")));
  let found = -1;
  let least = 1600;
  for (let call = from; call <= to; call++) {
    const value = y[call];
    if (value === null || value === undefined) continue;
    const distance = (plot.valToPos(call, "x") - left) ** 2 + (plot.valToPos(value, "y") - top) ** 2;
    if (distance < least) {
      least = distance;
      found = call;
    }
  }
  return found;
}

type Now = { current: number };

/** The line at the chosen call: it stands above the canvas, which is not drawn again for it. */
function point(plot: uPlot, call: number): void {
  let line = plot.over.querySelector<HTMLElement>(".here");
  if (!line) {
    line = document.createElement("div");
    line.className = "here";
    plot.over.append(line);
  }
  const left = call < 0 ? -1 : plot.valToPos(call, "x");
  line.hidden = !(left >= 0 && left <= plot.over.clientWidth);
  line.style.transform = `translateX(${left}px)`;
}

function optionsOf(data: UnitData, which: string, range: Range, color: Colors, first: Now, chosen: Now) {
  const hasZeros = (which === "error" ? data.errors : data.excess)?.includes(0) ?? false;
  return {
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: { distr: 3 as const, range: [range.low, range.high] as [number, number] } },
    axes: [
      axis(color, {
        size: 26,
        grid: { show: false },
        values: (_, splits) => splits.map((one) => (Number.isInteger(one) ? count(one) : "")),
      }),
      axis(color, {
        size: 52,
        space: 24,
        splits: () => decades(range),
        filter: (_, splits) => splits,
        values: (_, splits) => splits.map((one) => (one === range.low && hasZeros ? "0" : decade(one))),
      }),
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: {
      draw: [
        (plot: uPlot) => {
          draw(plot, data, which, range, color, first.current);
          point(plot, chosen.current === first.current ? -1 : chosen.current);
        },
      ],
    },
  };
}

/** Marks by verdict, the worse above the others; the band of noise below them. */
function draw(plot: uPlot, data: UnitData, which: string, range: Range, color: Colors, first: number) {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio || 1;
  const x = (call: number) => plot.valToPos(call, "x", true);
  const y = (value: number) => plot.valToPos(Math.min(range.high, Math.max(range.low, value)), "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 4, bbox.top - 4, bbox.width + 8, bbox.height + 8);
  ctx.clip();
  const edges = plot.scales.x;
  const from = Math.max(0, Math.floor(edges.min ?? 0));
  const to = Math.min(data.calls.size - 1, Math.ceil(edges.max ?? 0));
  const width = Math.max(scale, bbox.width / Math.max(1, to - from));
  if (which === "error" && data.noise) {
    ctx.fillStyle = color("noise");
    ctx.beginPath();
    for (const [left, noise] of columnsOfNoise(data.noise, from, to, (call) => Math.round(x(call) - width / 2))) {
      ctx.rect(left, y(noise), Math.ceil(width), bbox.top + bbox.height - y(noise));
    }
    ctx.fill();
  }
  if (which === "excess") line(ctx, bbox.left, y(1), bbox.left + bbox.width, y(1), color("warning"), scale);
  if (first >= 0) {
    line(ctx, x(first), bbox.top, x(first), bbox.top + bbox.height, color("error"), 1.4 * scale);
    ctx.fillStyle = color("error");
    ctx.beginPath();
    ctx.moveTo(x(first), bbox.top + 7 * scale);
    ctx.lineTo(x(first) - 5 * scale, bbox.top - 3 * scale);
    ctx.lineTo(x(first) + 5 * scale, bbox.top - 3 * scale);
    ctx.fill();
  }
  const values = which === "error" ? data.errors : data.excess;
  if (values) marks(ctx, data, values, [from, to], { x, y, scale, color });
  ctx.restore();
}

/** What noise explains, once for each column of pixels: the most of the calls that stand there. */
function columnsOfNoise(
  noise: Float32Array,
  from: number,
  to: number,
  left: (call: number) => number,
): Map<number, number> {
  const most = new Map<number, number>();
  for (let call = from; call <= to; call++) {
    if (noise[call] > 0) most.set(left(call), Math.max(most.get(left(call)) ?? 0, noise[call]));
  }
  return most;
}

interface Paper {
  x: (call: number) => number;
  y: (value: number) => number;
  scale: number;
  color: Colors;
}

function marks(
  ctx: CanvasRenderingContext2D,
  data: UnitData,
  values: Float32Array,
  [from, to]: number[],
  paper: Paper,
) {
  const { x, y, scale, color } = paper;
  const bySeverity: number[][] = [[], [], [], [], [], [], []];
  for (let call = from; call <= to; call++) {
    if (!Number.isNaN(values[call])) bySeverity[data.severity[call]].push(call);
  }
  const size = (to - from > 4000 ? 2 : to - from > 600 ? 2.5 : 3.5) * scale;
  for (const list of bySeverity) {
    if (!list.length) continue;
    const { name, severity } = lookOf(data.verdict(list[0]));
    ctx.fillStyle = color(name);
    ctx.beginPath();
    for (const call of list) mark(ctx, severity, x(call), y(values[call]), size);
    ctx.fill();
  }
}

/** A square for an error, a triangle for a warning, a dot for the rest. */
function mark(ctx: CanvasRenderingContext2D, severity: number, x: number, y: number, size: number) {
  if (severity === 6) ctx.rect(x - size, y - size, 2 * size, 2 * size);
  else if (severity === 5) {
    ctx.moveTo(x, y - size * 1.2);
    ctx.lineTo(x + size * 1.2, y + size);
    ctx.lineTo(x - size * 1.2, y + size);
    ctx.closePath();
  } else {
    ctx.moveTo(x + size * 0.7, y);
    ctx.arc(x, y, size * 0.7, 0, 7);
  }
}

function line(
  ctx: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  stroke: string,
  scale: number,
) {
  ctx.beginPath();
  ctx.lineWidth = 1.5 * scale;
  ctx.strokeStyle = stroke;
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
