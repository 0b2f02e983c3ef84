// A list of rows of one height, of which only those in sight are in the page.

import type { ComponentChildren, HTMLAttributes } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const AROUND = 8;
/** Pixels of a list in the window, below which the whole list counts as in sight. */
const LEAST = 120;

interface Props {
  count: number;
  height: number;
  render: (row: number) => ComponentChildren;
  /** This row comes into sight whenever `goneTo` changes. */
  row?: number;
  goneTo?: unknown;
  /** What stands above the rows and stays in sight. */
  above?: ComponentChildren;
  /** The width below which the list scrolls sideways. */
  width?: number;
  holder?: HTMLAttributes<HTMLDivElement> & { class?: string };
  body?: HTMLAttributes<HTMLDivElement>;
}

/** How much of an element stands below the window while the page is not scrolled; 0 where too little would be left. */
function belowTheWindow(element: HTMLElement): number {
  const { top, height } = element.getBoundingClientRect();
  const below = Math.max(0, top + window.scrollY + height - window.innerHeight);
  return height - below < LEAST ? 0 : below;
}

export function List({ count, height, render, row = -1, goneTo, above, width, holder, body }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const [below, setBelow] = useState(0);
  useLayoutEffect(() => {
    const one = element.current;
    if (!one) return;
    const measure = () => {
      setSight({ top: one.scrollTop, height: one.clientHeight });
      setBelow(belowTheWindow(one));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(one);
    measure();
    return () => observer.disconnect();
  }, []);
  // Only what was gone to moves the list, not what is unfolded.
  useLayoutEffect(() => {
    const one = element.current;
    if (!one || row < 0) return;
    const top = row * height;
    const inSight = one.clientHeight - below;
    if (top < one.scrollTop + height || top > one.scrollTop + inSight - 3 * height) {
      one.scrollTop = Math.max(0, top - inSight / 3);
    }
  }, [goneTo, below]);
  // As much room behind the last row as stands below the window, so that any row can be moved into sight.
  const room = row >= 0 && count * height > sight.height - below ? below : 0;
  const first = Math.max(0, Math.floor(sight.top / height) - AROUND);
  const last = Math.min(count, Math.ceil((sight.top + sight.height) / height) + AROUND);
  const rows: ComponentChildren[] = [];
  for (let i = first; i < last; i++) rows.push(render(i));
  return (
    <div
      {...holder}
      class={`list ${holder?.class ?? ""}`}
      ref={element}
      onScroll={(event) => {
        const { scrollTop, clientHeight } = event.currentTarget;
        setSight({ top: scrollTop, height: clientHeight });
      }}
    >
      {above}
      <div
        {...body}
        class="rows"
        style={{ height: `${count * height + room}px`, minWidth: width ? `${width}px` : undefined }}
      >
        <div class="window" role="presentation" style={{ transform: `translateY(${first * height}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
