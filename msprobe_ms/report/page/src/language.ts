// Every text of the page, in English and Chinese. Names of findings, and the Chinese of what commands say, come with the report.

import type { Messages, Words } from "./document.ts";
import { shown } from "./format.ts";

export type Language = "en" | "zh";

const TEXTS = {
  // Above everything.
  about: ["About this report", "关于本报告"],
  help: ["Keyboard and marks", "快捷键与标记"],
  theme: ["Light or dark", "浅色/深色"],
  language: ["中文", "English"],
  close: ["Close", "关闭"],
  copy: ["Copy", "复制"],
  copied: ["Copied", "已复制"],
  more: ["Show {0} more", "再显示 {0} 项"],
  skip: ["Skip to the calls", "跳到调用树"],
  // Kinds of reports.
  kind_compare: ["Two runs compared", "两次运行的精度比对"],
  kind_dump: ["One dump", "单份 dump 数据"],
  kind_overflow_check: ["NaN and infinities", "NaN 与无穷检查"],
  kind_check: ["What holds in every correct training", "不变量检查"],
  kind_monitor: ["Two monitored trainings", "两次训练的监控比对"],
  kind_config_check: ["Two configurations", "两份配置的比对"],
  kind_flow: ["Two RL flows", "两次强化学习流程的比对"],
  kind_acc_check: ["Single calls held to float64", "单 API 精度预检"],
  kind_graft: ["Proof by graft", "嫁接证明"],
  // The answer.
  answer: ["Answer", "结论"],
  state_differs: ["First wrong call", "首个出错的调用"],
  state_clean: ["Nothing differs", "未发现差异"],
  state_thin: ["Nothing differs in the few values that were judged", "在少数已判定的值中未发现差异"],
  judged: ["{0} of {1} values were judged", "{1} 个值中判定了 {0} 个"],
  state_unjudged: ["Could not be judged", "无法判定"],
  state_shown: ["Shown as collected", "仅展示采集结果"],
  state_found: ["What was found first", "首个发现"],
  state_graft: ["Result of the proof", "证明的结果"],
  in_cell: ["in", "位于"],
  step: ["step", "step"],
  rank: ["rank", "rank"],
  stage: ["stage", "阶段"],
  show_in_tree: ["Show in tree", "在树中定位"],
  evidence: ["Evidence", "依据"],
  because: [": {0}", "：{0}"],
  reaches: ["later calls that receive the difference: {0}", "后续受影响的调用：{0}"],
  to_loss: ["it reaches the loss", "影响到 loss"],
  not_to_loss: ["it does not reach the loss", "未影响到 loss"],
  source: ["Your code", "源码"],
  next: ["Next divergences, independent of the first", "其余独立的差异起点"],
  next_graft: ["Further causes", "其他原因"],
  harmless: ["Differences that are harmless", "无害的差异"],
  advice: ["What to do", "下一步"],
  notes: ["Notes", "说明"],
  causes: ["Why values differ", "差异的原因"],
  runs: ["The two runs", "两次运行"],
  run: ["The run", "本次运行"],
  as_printed: ["As printed", "命令行输出"],
  target: ["Target", "待调试"],
  golden: ["Golden", "标杆"],
  values: ["values", "个值"],
  // Verdicts.
  pass: ["pass", "通过"],
  warning: ["warning", "警告"],
  error: ["error", "错误"],
  unjudged: ["unjudged", "未判定"],
  harmless_verdict: ["harmless", "无害"],
  unmatched: ["unmatched", "未匹配"],
  none: ["not judged", "无判定"],
  // Parts of the page.
  view_calls: ["Calls", "调用"],
  view_spread: ["Ranks and steps", "rank 与 step"],
  view_curves: ["Curves", "曲线"],
  view_tables: ["Tables", "表格"],
  // The tree.
  tree: ["Calls of {0}", "{0} 的调用"],
  unit: ["Step and rank", "step 与 rank"],
  search: ["Search calls ( / )", "搜索调用（/）"],
  found: ["{0} of {1} calls", "{0} / {1} 个调用"],
  calls_count: ["{0} calls", "{0} 个调用"],
  filter: ["Filter", "筛选"],
  reset: ["Reset", "清除"],
  forward: ["forward", "前向"],
  backward: ["backward", "反向"],
  both: ["both directions", "前向和反向"],
  any_dtype: ["any dtype", "任意 dtype"],
  overflow: ["overflow marks", "溢出标记"],
  overflow_m: ["inputs are not finite, outputs are", "输入含非有限值，输出正常"],
  overflow_h: [
    "inputs and outputs are not finite, or outputs grow more than a hundredfold",
    "输入输出均含非有限值，或输出增大百倍以上",
  ],
  overflow_c: ["inputs are finite, outputs are not", "输入正常，输出含非有限值"],
  of_golden: ["golden: {0}", "标杆：{0}"],
  micro_step: ["micro step {0}", "micro step {0}"],
  unfold_found: ["Found first", "首个发现"],
  fold_all: ["Fold all", "全部收起"],
  unfold_path: ["First wrong call", "首个出错处"],
  previous_marked: ["Previous differing call (p)", "上一个差异（p）"],
  next_marked: ["Next differing call (n)", "下一个差异（n）"],
  differing_inside: ["{0} differing calls inside", "内部有 {0} 个差异调用"],
  first_wrong: ["first wrong call", "首个出错处"],
  first_found: ["found first", "首个发现"],
  first_of_unit: ["first divergence", "首个差异"],
  distance: ["distance from the tolerance", "误差与容差之比"],
  distance_times: ["{0} times the tolerance", "容差的 {0} 倍"],
  distance_any: ["beyond any tolerance", "超出任何容差"],
  nothing_found: ["No call is found.", "没有符合条件的调用。"],
  no_calls: ["This step has no calls.", "该 step 没有调用。"],
  loading: ["Loading…", "加载中…"],
  failed: ["The data of this report are damaged: {0}", "报告数据已损坏：{0}"],
  other_version: [
    "This page reads reports of version {0}; the data are of version {1}.",
    "本页面支持的报告版本为 {0}，数据版本为 {1}。",
  ],
  unknown_call: ["{0} is not in {1}.", "{1} 中没有 {0}。"],
  // A call.
  choose: ["Choose a call in the tree to see its values.", "在树中选择一个调用以查看其数值。"],
  records: ["Values", "数值"],
  no_records: ["The values of this call are not in the report.", "报告中没有该调用的数值。"],
  copy_name: ["Copy name", "复制名称"],
  copy_link: ["Copy link", "复制链接"],
  copy_config: ["Copy configuration to collect this call", "复制仅采集该调用的配置"],
  golden_name: ["golden: {0}", "标杆：{0}"],
  place: ["value", "值"],
  side: ["side", "侧"],
  max: ["max", "最大"],
  min: ["min", "最小"],
  mean: ["mean", "均值"],
  norm: ["norm", "范数"],
  digest: ["digest", "摘要"],
  one_side: ["not there", "无"],
  part_input: ["Inputs", "输入"],
  part_parameters: ["Parameters", "参数"],
  part_output: ["Outputs", "输出"],
  part_parameters_grad: ["Gradients of parameters", "参数梯度"],
  part_debug: ["Saved values", "保存的值"],
  decision: ["How it was decided: {0}", "判定依据：{0}"],
  decided: ["How it was decided", "判定依据"],
  state_of_noise: ["within noise", "属于噪声"],
  state_of_propagated: ["inherited from its inputs", "由输入传入"],
  state_of_divergent: ["the difference begins here", "差异从此处开始"],
  state_of_unknown: ["could not be judged", "无法判定"],
  state_of_harmless: ["without effect on the results", "不影响结果"],
  state_of_elsewhere: ["compared elsewhere", "在别处比较"],
  dataflow: ["Dataflow", "数据流"],
  made_by: ["Where its inputs come from", "输入来自"],
  used_by: ["What uses its outputs", "输出用于"],
  no_links: ["No recorded call made its inputs or uses its outputs.", "没有已记录的调用产生其输入或使用其输出。"],
  stack: ["Stack", "调用栈"],
  golden_stack: ["Stack of the golden", "标杆调用栈"],
  everywhere: ["This call in all steps and on all ranks", "该调用在各 step、各 rank"],
  odd_ranks: ["{0} differs from the others", "{0} 与其他不同"],
  all_alike: ["all {0} are alike", "{0} 处一致"],
  not_alike: ["they are not all alike", "并不一致"],
  value_of: ["norm of {0}", "{0} 的范数"],
  met: ["Exchanged with", "通信对端"],
  // Along the run.
  course: ["Along the step, in execution order", "按执行顺序"],
  course_error: ["relative error", "相对误差"],
  course_excess: ["distance from tolerance", "误差与容差之比"],
  course_label: [
    "One mark for each of {0} calls; {1} differ. The first divergence is at call {2}.",
    "共 {0} 个调用，{1} 个有差异，首个差异在第 {2} 个调用。",
  ],
  noise: ["what noise and differing inputs explain", "噪声与输入差异可解释的范围"],
  call_number: ["call", "调用序号"],
  curve_ratio: ["target divided by golden", "待调试 ÷ 标杆"],
  curve_values: ["values", "数值"],
  // Ranks and steps.
  by_step: ["Values that differ, by rank and step", "各 rank、各 step 的差异值个数"],
  by_module: ["Where it differs in step {0}, by rank and module", "step {0} 中各 rank 各模块的差异"],
  by_calls: ["Where it differs in step {0}, by rank and calls", "step {0} 中各 rank 各段调用的差异"],
  read_units: ["{0} of {1} ranks read", "已读取 {0} / {1} 个 rank"],
  alike_ranks: ["all ranks are alike", "各 rank 一致"],
  meetings: ["Exchanges among ranks", "卡间通信"],
  merged: ["Layouts", "并行切分"],
  // Curves and tables.
  targets: ["Targets", "监控对象"],
  left_at: ["outside the band from step {0}", "自 step {0} 起超出范围"],
  stays: ["inside the band", "在范围内"],
  band: ["band of two correct runs, as long as both are", "正常波动范围（仅画至越界处）"],
  filter_rows: ["Filter rows", "筛选行"],
  rows: ["{0} of {1} rows", "{0} / {1} 行"],
  sort_by: ["Sort by {0}", "按 {0} 排序"],
  verdict: ["verdict", "判定"],
  // Help.
  keys: ["Keys", "快捷键"],
  key_move: ["move in the tree", "在树中移动"],
  key_fold: ["fold and unfold", "收起与展开"],
  key_search: ["search", "搜索"],
  key_next: ["next and previous differing call", "下一个与上一个差异"],
  key_first: ["the first wrong call", "首个出错的调用"],
  key_help: ["this help", "本帮助"],
  key_escape: ["close, or leave the search", "关闭或退出搜索"],
  marks: ["Marks", "标记"],
  bar_help: [
    "The bar beside a call is its distance from the tolerance. The line in the middle is the tolerance; to the right of it a call is outside, at the end a thousand times.",
    "调用旁的横条表示误差与容差之比：中线为容差，越过中线即超出容差，最右端为一千倍。",
  ],
  number_help: [
    "A number at a folded row counts the differing calls inside it.",
    "折叠行上的数字为其内部差异调用的个数。",
  ],
  made_with: ["Written by {0} at {1}", "由 {0} 于 {1} 生成"],
  command: ["Command", "命令"],
  licences: ["Libraries in this page, and their licences", "页面使用的库及许可证"],
  role_message: ["message", "点对点"],
  role_all: ["all with all", "集合"],
  role_from_one: ["from one to all", "一对多"],
  role_to_one: ["from all to one", "多对一"],
  detailed: ["Values of {0} of {1} calls are in this report.", "报告含 {1} 个调用中 {0} 个的数值。"],
} as const;

export type Key = keyof typeof TEXTS;

let current: Language = "en";

export function speak(language: Language): void {
  current = language;
}

/** A text in the language that is spoken; `{0}` stands for the first of `values`. */
export function t(key: Key, ...values: (string | number)[]): string {
  return TEXTS[key][current === "zh" ? 1 : 0].replace(/\{(\d)\}/g, (_, i) => String(values[Number(i)]));
}

export function isKey(key: string): key is Key {
  return Object.hasOwn(TEXTS, key);
}

/** What commands say, as the report has it. */
let table: Messages = { kinds: {}, templates: {} };

/** Use these texts from now on. */
export function learn(messages: Messages): void {
  table = messages;
}

/** What a kind of finding is called; one that is not in the table is shown as it is. */
export function kindName(kind: string): string {
  return Object.hasOwn(table.kinds, kind) ? table.kinds[kind][current === "zh" ? 1 : 0] : shown(kind);
}

/** What ranks do in an exchange. */
export function roleName(role: string): string {
  const key = `role_${role}`;
  return isKey(key) ? t(key) : shown(role);
}

const PLACEHOLDER = /\{([^{}]*)\}/g;

/** Placeholders for sides and verdicts, whose values are words of the page. */
const OF_PAGE = /^(?:r\.side|side|here|there|grade)$/;

const CHINESE = /[\u4e00-\u9fff]/;
const LATIN = /[\w\]]/;

const DEEPEST = 20;

function chinese(template: string): string {
  return Object.hasOwn(table.templates, template) ? table.templates[template] : template;
}

/** What a command says: a text as it is, a phrase in the language that is spoken. */
export function say(words: Words, language = current, depth = 0): string {
  if (typeof words === "string") return shown(words);
  const [template, ...values] = words;
  if (typeof template !== "string" || depth > DEEPEST) return "";
  const names = [...new Set(Array.from(template.matchAll(PLACEHOLDER), (found) => found[1]))];
  return shown(language === "zh" ? chinese(template) : template).replace(PLACEHOLDER, (whole, name, at, all) => {
    const value = values[names.indexOf(name)];
    if (value === undefined) return whole;
    if (language !== "zh") return say(value, language, depth + 1);
    const isOfPage = typeof value === "string" && OF_PAGE.test(name) && isKey(value);
    return apart(all[at - 1], isOfPage ? t(value) : say(value, language, depth + 1), all[at + whole.length]);
  });
}

/** A text with a space to what stands around it, where a Chinese character and a Latin one would touch. */
function apart(before: string | undefined, text: string, after: string | undefined): string {
  const is = (kind: RegExp, one: string | undefined) => one !== undefined && kind.test(one);
  const left = is(CHINESE, before) && is(LATIN, text[0]) ? " " : "";
  const right = is(CHINESE, after) && is(LATIN, text.at(-1)) ? " " : "";
  return left + text + right;
}

/** What a command says, as it prints it. */
export function printed(words: Words): string {
  return say(words, "en");
}
