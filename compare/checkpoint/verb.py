"""The part of `msprobe config-check` that compares two checkpoints, parameter by parameter.

The file is a JSON object with l2, cos, numel, shape and the verdict of each parameter; the worst are on standard
output, with the numbers in the last line. Exit code 0: every parameter is on both sides and passes. 1: something
differs, or is on one side only.
"""

from pathlib import Path

from msprobe.base.files import refuse_existing
from msprobe.base.log import terminal_line
from msprobe.compare.core.standard import DTYPE
from msprobe.findings.document import Document, printed
from msprobe.mapping.user_files import read_data

from .compare import ANOTHER, answer_of, compare_checkpoints, counts_of, verdicts_of, write

ANSWER = "./ckpt_similarity.json"


def run(
    target: Path, golden: Path, *, output: str, data_mapping: str, standard: str, top: int, is_json: bool = False
) -> int:
    """Compare two checkpoints, write every parameter, print the answer; return the exit code."""
    answer = Path(output or ANSWER)
    refuse_existing(answer, ANOTHER)
    rules = read_data(Path(data_mapping)) if data_mapping else None
    result = compare_checkpoints(target, golden, rules, standard or DTYPE)
    write(result, answer)
    exit_code = 0 if result.is_clean else 1
    if is_json:
        details = {
            "target": result.target,
            "golden": result.golden,
            "standard": result.standard,
            "left_out": list(result.left_out),
            "tied": list(result.tied),
        }
        verdicts, counts = verdicts_of(result), counts_of(result)
        files = {"parameters": answer}
        printed(Document("config-check", answer_of(result), verdicts, exit_code, counts, files, details))
        return exit_code
    summary, *worst = result.lines(top)
    for line in (f"every parameter: {answer}", *worst, summary):
        print(terminal_line(line))
    return exit_code
