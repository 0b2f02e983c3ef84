// The letters of verdicts: how bad each is, and the mark and the colour class that stand for it.

import type { Unit } from "./document.ts";

export const LETTERS = ["e", "w", "u", "n", "h", "p", "."] as const;

export interface Look {
  /** The key of its name in the table of texts, which is also the name in counts. */
  name: "error" | "warning" | "unjudged" | "unmatched" | "harmless" | "pass" | "none";
  mark: string;
  severity: number;
}

export const LOOKS: Record<string, Look> = {
  e: { name: "error", mark: "✕", severity: 6 },
  w: { name: "warning", mark: "!", severity: 5 },
  u: { name: "unjudged", mark: "?", severity: 4 },
  n: { name: "unmatched", mark: "–", severity: 3 },
  h: { name: "harmless", mark: "≈", severity: 2 },
  p: { name: "pass", mark: "✓", severity: 1 },
  ".": { name: "none", mark: "·", severity: 0 },
};

const BY_SEVERITY = [".", "p", "h", "n", "u", "w", "e"];

export function lookOf(letter: string | undefined): Look {
  return Object.hasOwn(LOOKS, letter ?? ".") ? LOOKS[letter ?? "."] : LOOKS["."];
}

export function letterOf(severity: number): string {
  return BY_SEVERITY[severity] ?? ".";
}

export function letterOfName(name: string): string {
  return LETTERS.find((letter) => LOOKS[letter].name === name) ?? ".";
}

/** The severity from which a call differs: a warning. */
export const DIFFERS = 5;

/** Where a distance from the tolerance stands on a bar: 0 is a thousandth of it or less, 0.5 the tolerance itself, 1 a
 * thousand times it or more. */
export function placeOf(excess: number): number {
  if (Number.isNaN(excess) || excess === Number.POSITIVE_INFINITY) return 1;
  if (excess <= 0) return 0;
  return Math.min(1, Math.max(0, 0.5 + Math.log10(excess) / 6));
}

/** The worst verdict of a unit; one in which a call is missing has a first wrong call, and no wrong value. */
export function worstOf(unit: Unit): string {
  if (unit.first !== undefined && unit.first !== null && !unit.counts?.warning) return "e";
  for (const severity of [6, 5, 4, 3, 2, 1])
    if (unit.counts?.[lookOf(letterOf(severity)).name]) return letterOf(severity);
  return ".";
}
