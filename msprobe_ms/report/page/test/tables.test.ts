import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeOf } from "../src/course.tsx";
import { columnsOf } from "../src/curves.tsx";
import { compared, rowsWanted, verdictsOf } from "../src/ordered.ts";
import { placeOf } from "../src/verdicts.ts";

const TABLE = {
  columns: ["name", "value"],
  rows: [
    ["b10", 3],
    ["b9", "NaN"],
    ["a", null],
    ["c", "-Infinity"],
  ],
  verdicts: "pewe",
};

test("numbers come before NaN, texts and nothing; texts count", () => {
  assert.deepEqual(rowsWanted(TABLE, "", new Set(), { column: 1, isDown: false }), [3, 0, 1, 2]);
  assert.deepEqual(rowsWanted(TABLE, "", new Set(), { column: 1, isDown: true }), [1, 0, 3, 2]);
  assert.deepEqual(rowsWanted(TABLE, "", new Set(), { column: 0, isDown: false }), [2, 1, 0, 3]);
  assert.ok(compared("b9", "b10") < 0);
});

test("rows by verdict and text", () => {
  assert.deepEqual(rowsWanted(TABLE, "", new Set(), { column: -1, isDown: true }), [1, 3, 2, 0]);
  assert.deepEqual(rowsWanted(TABLE, "B", new Set("e"), null), [1]);
  assert.deepEqual(verdictsOf(TABLE), [
    ["e", 2],
    ["w", 1],
    ["p", 1],
  ]);
});

test("the tolerance is in the middle of a bar", () => {
  const cases: [number, number][] = [
    [1, 0.5],
    [1000, 1],
    [0, 0],
    [1e-9, 0],
    [Number.POSITIVE_INFINITY, 1],
  ];
  for (const [excess, place] of cases) assert.equal(placeOf(excess), place);
});

test("the axis ends in powers of ten around the numbers", () => {
  const { low, high } = rangeOf(Float32Array.from([0, 2e-4, 0.5, Number.NaN, Number.POSITIVE_INFINITY]));
  assert.ok(low <= 2e-4 && high >= 0.5);
  assert.ok(Math.abs(Math.log10(low) - Math.round(Math.log10(low))) < 1e-9);
  assert.ok(rangeOf(new Float32Array()).high > 0);
});

test("a curve is divided by the golden, and so is its band; what is no number, or divided by zero, is left out", () => {
  const curve = {
    statistic: "mean",
    rank: 0,
    steps: [0, 1, 2, 3],
    target: [2, -3, "NaN", 5],
    golden: [4, -2, 1, 0],
    low: [3, -2.5, 0.5, -1],
    high: [5, -1.5, 1.5, 1],
  };
  assert.deepEqual(columnsOf(curve, "ratio"), [
    [0.75, 0.75, 0.5, null],
    [1.25, 1.25, 1.5, null],
    [1, 1, 1, null],
    [0.5, 1.5, null, null],
  ]);
  assert.deepEqual(columnsOf(curve, "values")[3], [2, -3, null, 5]);
});
