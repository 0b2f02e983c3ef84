import assert from "node:assert/strict";
import { test } from "node:test";
import { worstOf } from "../src/verdicts.ts";

const unit = { label: "step 0", layout: 1, state: 2 };

test("a unit has the worst verdict of its values", () => {
  assert.equal(worstOf({ ...unit, counts: { pass: 3 } }), "p");
  assert.equal(worstOf({ ...unit, counts: { pass: 3, warning: 1, unjudged: 2 } }), "w");
  assert.equal(worstOf({ ...unit, counts: { pass: 3, warning: 1, error: 1 }, first: 0 }), "e");
});

test("a call that is missing is an error of its unit, though no value is wrong", () => {
  assert.equal(worstOf({ ...unit, counts: { pass: 3, unjudged: 2 }, first: 0 }), "e");
  assert.equal(worstOf({ ...unit, counts: { pass: 3, unjudged: 2 } }), "u");
});
