import assert from "node:assert/strict";
import { test } from "node:test";
import { configurationOf, listed } from "../src/collection.ts";
import { labelInside, measured, partsOf, short, shown, told } from "../src/format.ts";
import { hashOf, placeOf } from "../src/place.ts";

test("what is unseen or turns text around is shown escaped", () => {
  assert.equal(shown("a\u202eb\u0000\ud800"), "a\\u202eb\\u0000\\ud800");
  assert.equal(shown("\u{1f600} 中文"), "\u{1f600} 中文");
});

test("numbers have five digits that count", () => {
  const cases: [number | string | null, string][] = [
    [0.0114321, "0.011432"],
    [1e-7, "1e-7"],
    [-123456789, "-1.235e8"],
    [65504, "65504"],
    ["NaN", "NaN"],
    [Number.NEGATIVE_INFINITY, "-inf"],
    [null, ""],
  ];
  for (const [value, text] of cases) assert.equal(short(value), text);
});

test("measures in percent are as short as others", () => {
  assert.equal(measured("0.17155454404698295%"), "0.17155%");
  assert.equal(measured("50% of it"), "50% of it");
  assert.equal(measured(0.25), "0.25");
});

test("two numbers that differ are told apart", () => {
  assert.equal(told(15.8628, 15.8627), "15.8628");
  assert.equal(told(1.00000000001, 1), "1.00000000001");
  assert.equal(told(2, 2), "2");
  assert.equal(told(3.25, "NaN"), "3.25");
});

test("parts of names", () => {
  const norm = partsOf("Cell.blocks.1.norm2.RMSNorm.forward.0");
  assert.deepEqual(norm, { label: "blocks.1.norm2", of: "RMSNorm", number: "0", path: "blocks.1.norm2" });
  assert.equal(labelInside(norm, partsOf("Cell.blocks.1.Block.forward.0")), "norm2");
  assert.deepEqual(partsOf("Tensor.__add__.7.backward"), { label: "__add__", of: "Tensor", number: "7", path: "" });
  assert.equal(partsOf("</script>").label, "</script>");
});

test("the configuration names the call and not its neighbours", () => {
  assert.equal(listed("Cell.fc.Dense.backward.12"), "Cell.fc.Dense.");
  assert.equal(listed("Tensor.__add__.7.forward"), "Tensor.__add__.7.");
  const made = JSON.parse(configurationOf('a"b', 3, undefined));
  assert.deepEqual(made.step, [3]);
  assert.ok(!("rank" in made));
  assert.deepEqual(made.tensor.list, ['a"b']);
});

test("an address holds any name", () => {
  for (const call of ["a&b=c#d", "中文 +%", "</script>", ""]) {
    const place = { call, unit: "step0 rank1" };
    assert.deepEqual(placeOf(hashOf(place)), place);
  }
  assert.equal(placeOf(hashOf({ call: "\ud800", unit: "" })).call, "\ufffd");
});
