// Small pieces: marks of verdicts, the bar of a distance, buttons that copy, folded parts.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { short } from "./format.ts";
import { type Key, t } from "./language.ts";
import { lookOf, placeOf } from "./verdicts.ts";

export function verdictName(letter: string): string {
  const { name } = lookOf(letter);
  return t(name === "harmless" ? "harmless_verdict" : name);
}

/** The mark of a verdict: its shape, letter and colour say the same. */
export function Mark({ letter, small }: { letter: string; small?: boolean }) {
  const { name, mark } = lookOf(letter);
  return (
    <span
      class={`mark ${name}${small ? " small" : ""}`}
      title={verdictName(letter)}
      role="img"
      aria-label={verdictName(letter)}
    >
      <span aria-hidden="true">{mark}</span>
    </span>
  );
}

/** How far a call is from its tolerance, in words. */
export function saidDistance(excess: number): string {
  return Number.isFinite(excess) ? t("distance_times", short(excess)) : t("distance_any");
}

/** The distance from the tolerance; the tolerance is in the middle. */
export function Bar({ excess, letter }: { excess: number | null; letter: string }) {
  if (excess === null) return <span class="bar none" />;
  const said = saidDistance(excess);
  return (
    <span class="bar" title={said} role="img" aria-label={said}>
      <span
        class={`fill ${excess > 1 ? "outside" : "inside"} ${lookOf(letter).name}`}
        style={{ width: `${placeOf(excess) * 100}%` }}
      />
    </span>
  );
}

export function Overflow({ letter, golden = "." }: { letter: string; golden?: string }) {
  return (
    <>
      <OfSide letter={letter} />
      <OfSide letter={golden} isOfGolden />
    </>
  );
}

function OfSide({ letter, isOfGolden = false }: { letter: string; isOfGolden?: boolean }) {
  if (letter === ".") return null;
  const what = t(letter === "c" ? "overflow_c" : letter === "h" ? "overflow_h" : "overflow_m");
  const said = isOfGolden ? t("of_golden", what) : what;
  return (
    <span class={`overflow ${letter} ${isOfGolden ? "golden" : ""}`} title={said} role="img" aria-label={said}>
      {isOfGolden ? "∞′" : "∞"}
    </span>
  );
}

async function put(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from a file may have no clipboard: the old way has one.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function Copy({ text, label, quiet }: { text: string; label?: Key; quiet?: boolean }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const name = t(label ?? "copy");
  return (
    <button
      type="button"
      class={`copy${quiet ? " quiet" : ""}`}
      aria-live="polite"
      onClick={() => put(text).then(() => setCopied(true))}
    >
      {isCopied ? t("copied") : name}
    </button>
  );
}

/** A part that can be folded; what is in it is made when it is open. */
export function Part(props: {
  title: ComponentChildren;
  open?: boolean;
  class?: string;
  children: () => ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(props.open ?? false);
  return (
    <details class={`part ${props.class ?? ""}`} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.title}</summary>
      {isOpen && props.children()}
    </details>
  );
}

/** The value of a promise, and the failure; `null` while it is awaited. */
export function useAwaited<T>(make: () => Promise<T>, on: unknown[]): { value: T | null; failure: string } {
  const [state, setState] = useState<{ value: T | null; failure: string }>({ value: null, failure: "" });
  // Whoever calls says on what it depends.
  useEffect(() => {
    let isWanted = true;
    setState({ value: null, failure: "" });
    make().then(
      (value) => isWanted && setState({ value, failure: "" }),
      (failure) => isWanted && setState({ value: null, failure: String(failure) }),
    );
    return () => {
      isWanted = false;
    };
  }, on);
  return state;
}

export function Failure({ text }: { text: string }) {
  return (
    <p class="failure" role="alert">
      {t("failed", text)}
    </p>
  );
}
