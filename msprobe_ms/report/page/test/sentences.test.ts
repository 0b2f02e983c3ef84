import assert from "node:assert/strict";
import { test } from "node:test";
import type { Words } from "../src/document.ts";
import { kindName, learn, printed, say, speak } from "../src/language.ts";

const TEMPLATES = {
  "{place} differs ({reasons})": "{place} 有差异（{reasons}）",
  "Digests differ: {r.target}, golden {r.golden}": "摘要不同：{r.target}，标杆 {r.golden}",
  "only the {here} makes this call; the {there} continues with {name} (the {here}'s {known_as})":
    "仅{here}侧有此调用，{there}侧接着执行 {name}（即{here}侧的 {known_as}）",
  "all inputs agree, but {difference}": "所有输入一致，但{difference}",
  "{place} differs within tolerance": "{place} 的差异在容差内",
  "{title}: {text}": "{title}：{text}",
  "no difference": "未发现差异",
  "{judged} pairs judged, {open} unjudged": "判定 {judged} 对，未判定 {open} 对",
};
learn({ kinds: { "argument differs": ["argument differs", "参数取值不同"] }, templates: TEMPLATES });

const NAMED: Words = [
  "{place} differs ({reasons})",
  "output.0",
  ["Digests differ: {r.target}, golden {r.golden}", "a", "b"],
];
const OF_SIDE: Words = ["only the {here} makes this call; the {there} continues with {name} (the {here}'s {known_as})"];

function in_(language: "en" | "zh", words: Words): string {
  speak(language);
  const said = say(words);
  speak("en");
  return said;
}

test("a text is the same in both languages", () => {
  assert.equal(in_("zh", "{place} differs"), "{place} differs");
});

test("a phrase is said in the language that is spoken, and so are those inside", () => {
  assert.equal(in_("en", NAMED), "output.0 differs (Digests differ: a, golden b)");
  assert.equal(in_("zh", NAMED), "output.0 有差异（摘要不同：a，标杆 b）");
});

test("a placeholder that stands twice has one value, and sides are words of the page", () => {
  const words: Words = [OF_SIDE[0], "target", "golden", "target", "other"];
  assert.equal(
    in_("en", words),
    "only the target makes this call; the golden continues with target (the target's other)",
  );
  assert.equal(in_("zh", words), "仅待调试侧有此调用，标杆侧接着执行 target（即待调试侧的 other）");
});

test("a name has a space to the Chinese around it", () => {
  const words: Words = ["all inputs agree, but {difference}", ["{place} differs within tolerance", "output.0"]];
  assert.equal(in_("zh", words), "所有输入一致，但 output.0 的差异在容差内");
});

test("an unknown template is said as it is, and what is damaged does no harm", () => {
  assert.equal(in_("zh", ["new: {a}", "x"]), "new: x");
  assert.equal(in_("en", ["a\u202e{a}{b}", "$&{a}"]), "a\\u202e$&{a}{b}");
  assert.equal(in_("en", ["toString"]), "toString");
  assert.equal(in_("en", [1] as unknown as Words), "");
  let deep: Words = "x";
  for (let i = 0; i < 10_000; i++) deep = ["{a}", deep];
  assert.equal(in_("en", deep), "");
});

test("the line of a command is printed as it was, and said in the language that is spoken", () => {
  const line: Words = ["{title}: {text}", ["no difference"], ["{judged} pairs judged, {open} unjudged", "12", "0"]];
  speak("zh");
  assert.equal(printed(line), "no difference: 12 pairs judged, 0 unjudged");
  assert.equal(say(line), "未发现差异：判定 12 对，未判定 0 对");
  speak("en");
});

test("a kind has a name in both languages, and one that is not known is shown as it is", () => {
  assert.equal(kindName("argument differs"), "argument differs");
  assert.equal(kindName("of \u202ea later version"), "of \\u202ea later version");
  speak("zh");
  assert.equal(kindName("argument differs"), "参数取值不同");
  assert.equal(kindName("toString"), "toString");
  speak("en");
});
