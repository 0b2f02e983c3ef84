import assert from "node:assert/strict";
import { test } from "node:test";
import { Calls } from "../src/calls.ts";
import { odd } from "../src/everywhere.tsx";
import { assigned, cellsOf, columnsOf } from "../src/modules.ts";
import { openFor, rowsOf, search } from "../src/rows.ts";
import { UnitData } from "../src/unit.ts";

function calls(parents: number[], names = parents.map((_, i) => `call${i}`), micro: number[] = []): Calls {
  return new Calls({ names, parents, kinds: "m".repeat(names.length), directions: "f".repeat(names.length), micro });
}

function unit(of: Calls, verdicts: string, links: [number, string, number, string][] = []): UnitData {
  return new UnitData(0, { label: "step0", layout: 1, state: 2 }, of, { verdicts, links });
}

const NOTHING = { query: "", verdicts: new Set<string>(), direction: "", ofDtype: null, overflow: false };

test("calls are walked with each before those inside it", () => {
  const tree = calls([-1, 0, 1, 0, -1]);
  assert.deepEqual([...tree.order], [0, 1, 2, 3, 4]);
  assert.deepEqual([...tree.depth], [0, 1, 2, 1, 0]);
  assert.deepEqual(tree.path(2), [0, 1]);
});

test("a parent may come after what is inside it, be missing, or close a circle", () => {
  const late = calls([2, 2, -1]);
  assert.deepEqual([...late.order], [2, 0, 1]);
  const circle = calls([1, 0, 99, 3]);
  assert.equal(new Set(circle.order).size, 4);
  for (let call = 0; call < 4; call++) assert.ok(circle.path(call).length < 4);
});

test("calls nested a hundred thousand deep are walked", () => {
  const size = 100_000;
  const tree = calls(Array.from({ length: size }, (_, i) => i - 1));
  assert.equal(tree.depth[size - 1], size - 1);
  const data = unit(tree, `${"p".repeat(size - 1)}e`);
  assert.deepEqual(data.inside(0), { differing: 1, worst: "e" });
  assert.equal(rowsOf(tree, new Set(openFor(tree, size - 1)), null).length, size);
});

test("rows are those of open calls, or those that are looked for with what is around them", () => {
  const tree = calls([-1, 0, 1, 0, -1], ["a", "b", "NEEDLE", "c", "d"]);
  assert.deepEqual(rowsOf(tree, new Set([0]), null), [0, 1, 3, 4]);
  const found = search(unit(tree, "pppee"), { ...NOTHING, query: "needle" });
  assert.deepEqual(found?.calls, [2]);
  assert.deepEqual(rowsOf(tree, new Set(), found), [0, 1, 2]);
  assert.deepEqual(search(unit(tree, "ppwee"), { ...NOTHING, verdicts: new Set("e") })?.calls, [3, 4]);
  assert.equal(search(unit(tree, "ppwee"), NOTHING), null);
});

test("micro steps stand above the calls where there are several", () => {
  const tree = calls([-1, 0, -1], undefined, [0, 0, 1]);
  assert.deepEqual(rowsOf(tree, new Set(), null), [~0, ~1]);
  assert.deepEqual(rowsOf(tree, new Set(openFor(tree, 1)), null), [~0, 0, 1, ~1]);
});

test("next and previous calls to look at", () => {
  const data = unit(calls([-1, -1, -1, -1]), "pehw");
  assert.equal(data.nextMarked(-1, 1), 1);
  assert.equal(data.nextMarked(1, 1), 3);
  assert.equal(data.nextMarked(1, -1), -1);
});

test("links lead both ways, and those to nowhere are left out", () => {
  const data = unit(calls([-1, -1]), "pp", [
    [1, "input.0", 0, "output.1"],
    [0, "x", 99, "y"],
  ]);
  assert.deepEqual(data.madeBy(1), [{ place: "input.0", call: 0, other: "output.1" }]);
  assert.deepEqual(data.usedBy(0), [{ place: "output.1", call: 1, other: "input.0" }]);
  assert.equal(data.links.size, 1);
});

test("layers are counted together where they are many", () => {
  const names = Array.from({ length: 100 }, (_, i) => `Cell.model.blocks.${i}.Block.forward.0`);
  const tree = calls(
    names.map(() => -1),
    names,
  );
  const columns = columnsOf(tree);
  assert.ok(columns.isOfModules);
  assert.ok(columns.columns.length <= 40 && columns.columns.length > 20);
  assert.equal(columns.columns[0].label, "model.blocks.0–2");
  const cells = cellsOf(
    unit(tree, `${"p".repeat(50)}e${"p".repeat(49)}`),
    assigned(tree, columns),
    columns.columns.length,
  );
  assert.deepEqual(
    cells.map((cell) => cell?.severity).filter((one) => one === 6),
    [6],
  );
});

test("the odd place is the rare verdict, or far from the others", () => {
  const place = (unit: number, verdict: string, excess: number | null, value: number | null = null) => ({
    unit,
    call: 0,
    verdict,
    overflow: ".",
    excess,
    value,
  });
  const units = (list: { unit: number }[]) => list.map((each) => each.unit);
  assert.deepEqual(units(odd([0, 1, 2, 3].map((i) => place(i, i === 2 ? "e" : "p", 0.1)))), [2]);
  assert.deepEqual(units(odd([0, 1, 2, 3].map((i) => place(i, "e", i === 1 ? 500 : 5)))), [1]);
  assert.deepEqual(units(odd([0, 1, 2, 3].map((i) => place(i, ".", null, i === 3 ? 7 : 5)))), [3]);
  assert.deepEqual(odd([0, 1, 2, 3].map((i) => place(i, "e", 5 + i))), []);
});
