// The configuration with which the next run collects one call only, with its tensors.

const OF_CALL = /^((?:Cell|Module)\..+\.)(?:forward|backward|parameters_grad)(?:\.\d+)?$/;

/** The text for `list` that names this call and not its neighbours: of a module without direction and number. */
export function listed(name: string): string {
  return OF_CALL.exec(name)?.[1] ?? name.replace(/\.(?:forward|backward)$/, ".");
}

export function configurationOf(name: string, step: number | undefined, rank: number | undefined): string {
  const of = (key: string, value: number | undefined) => (value === undefined ? [] : [`  "${key}": [${value}]`]);
  const members = [
    '  "task": "tensor"',
    '  "dump_path": "./dump_of_call"',
    ...of("step", step),
    ...of("rank", rank),
    '  "level": "mix"',
    `  "tensor": {"list": [${JSON.stringify(listed(name))}]}`,
  ];
  return `{\n${members.join(",\n")}\n}\n`;
}
