// A chart of uPlot in the colours of the page.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export type Colors = (name: string) => string;

interface Props {
  label: string;
  height: number;
  /** What the options and data depend on. */
  on: unknown[];
  options: (color: Colors) => Omit<uPlot.Options, "width" | "height">;
  data: uPlot.AlignedData;
  made?: (plot: uPlot) => void;
}

export function Plot({ label, height, on, options, data, made }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  // Whoever calls says on what it depends.
  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const plot = new uPlot({ ...options(color), width: Math.max(200, element.clientWidth), height }, data, element);
    const observer = new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== plot.width)
        plot.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    made?.(plot);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [...on, height]);
  return <div class="plot" ref={holder} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

/** An axis in the colours of the page. */
export function axis(color: Colors, more: uPlot.Axis = {}): uPlot.Axis {
  const line = { stroke: color("line"), width: 1 };
  return {
    stroke: color("quiet"),
    font: "11px system-ui, sans-serif",
    grid: line,
    ticks: { ...line, size: 4 },
    ...more,
  };
}
