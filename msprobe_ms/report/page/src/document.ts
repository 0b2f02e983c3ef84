// What a report holds: the classes of `document.py` as they come in JSON. Members that hold their default are left out.

export type Measured = number | string | null;

export interface Side {
  path: string;
  framework?: string;
  level?: string;
  task?: string;
  versions?: Record<string, string>;
}

export interface Source {
  file: string;
  line: number;
  first?: number;
  lines?: string[];
}

export interface Place {
  name: string;
  cell?: string;
  record?: string;
  step?: number;
  rank?: number;
  micro_step?: number;
  source?: Source;
  unit?: number;
  call?: number;
}

export interface Finding {
  kind: string;
  place: Place;
  reason?: Words;
  grade?: string;
  evidence?: Words[];
  later_calls?: number;
  reaches_loss?: boolean;
}

export interface Suggestion {
  text: Words;
  command?: string;
  config?: string;
}

export interface Answer {
  state: string;
  line: Words;
  first?: Finding;
  next?: Finding[];
  harmless?: Finding[];
  advice?: Suggestion[];
  notes?: Words[];
}

export interface Unit {
  label: string;
  layout: number;
  state: number;
  details?: [number, number][];
  step?: number;
  rank?: number;
  stage?: string;
  counts?: Record<string, number>;
  first?: number;
  line?: Words;
}

export interface Meeting {
  name: string;
  calls: [number, number][];
  role?: string;
}

export interface CurveSet {
  target: string;
  stage: Words;
  chunk: number;
  is_answer?: boolean;
  excess?: Measured;
}

export interface TableSet {
  title: Words;
  chunk: number;
  rows?: number;
}

export interface Head {
  kind: string;
  title: Words;
  command: string;
  time: string;
  tool: string;
  target: Side;
  golden: Side | null;
  answer: Answer;
  counts?: Record<string, number>;
  causes?: [number, Words][];
  units?: Unit[];
  meetings?: Meeting[];
  curves?: CurveSet[];
  tables?: TableSet[];
  merged?: Words;
  calls?: number;
  detailed?: number;
  messages: number;
  statistics: string[];
  version: number;
}

export interface Layout {
  names: string[];
  parents: number[];
  kinds: string;
  directions: string;
  classes?: string[];
  micro?: number[];
  golden?: string[];
}

export interface State {
  verdicts: string;
  excess?: Measured[];
  errors?: Measured[];
  noise?: Measured[];
  overflow?: string;
  links?: [number, string, number, string][];
  golden_overflow?: string;
}

export interface Tensor {
  dtype?: string;
  shape?: number[];
  statistics?: Record<string, Measured>;
  digest?: string;
  value?: string;
}

export interface CallRecord {
  place: string;
  part: string;
  target?: Tensor;
  golden?: Tensor;
  verdict?: string;
  measures?: Record<string, Measured>;
  limits?: string;
  reasons?: Words[];
  state?: string;
  decision?: Words[];
}

export interface CallDetails {
  call: number;
  records?: CallRecord[];
  stack?: string[];
  golden_stack?: string[];
}

export interface Details {
  calls: CallDetails[];
}

export interface Curve {
  statistic: string;
  rank: number | null;
  steps: number[];
  target: Measured[];
  golden?: Measured[];
  low?: Measured[];
  high?: Measured[];
  left?: number;
}

export interface Table {
  columns: Words[];
  rows: Cell[][];
  verdicts?: string;
}

/** What commands say: names of kinds of findings in English and Chinese, and templates in Chinese. */
export interface Messages {
  kinds: Record<string, readonly [string, string]>;
  templates: Record<string, string>;
}

/** A cell of a table: a number, or what a command says. */
export type Cell = number | Words | null;

/** What a command says: a text, or a phrase as its template and the values of its placeholders. */
export type Words = string | [string, ...Words[]];

export const VERSION = 2;

/** A number of the data: null for none; "NaN", "Infinity" and "-Infinity" are the numbers they name. */
export function numberOf(value: Measured | undefined): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}
