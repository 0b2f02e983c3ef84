"""The flags of mindstudio-probe, and older ones of this tool, that mean the same as a canonical flag: accepted, and not
shown in helps. `docs/en/reference/command-line.md` lists them.
"""

from typing import NamedTuple


class Alias(NamedTuple):
    """A flag, its canonical flag, and the first release that has it.

    `8.1` and `26` are releases of mindstudio-probe; `own` is an earlier spelling of this tool. `verbs` are the commands
    that accept it, where not all that have the canonical flag do.
    """

    flag: str
    canonical: str
    since: str
    verbs: tuple[str, ...] = ()


_OF_DUMPS = ("bundle", "compare", "report", "diagnose", "check", "overflow-check", "gather", "monitor anomalies")
_CHECKED = ("acc-check", "repro")

ALIASES = (
    Alias("--target_path", "--target", "26"),
    Alias("--golden_path", "--golden", "26"),
    Alias("--input_path", "--input", "8.1", ("compare", "overflow-check", "graph")),
    Alias(
        "--output_path",
        "--output",
        "8.1",
        (
            "compare",
            "convert",
            "diagnose",
            "gather",
            "graph",
            "graph-visualize",
            "monitor compare",
            "overflow-check",
            "report",
        ),
    ),
    Alias("--out_path", "--output", "8.1", ("acc-check", "api-precision-compare", "monitor anomalies", "repro")),
    Alias("--output_dir", "--output", "8.1", ("merge-result",)),
    Alias("--api_output_path", "--output", "8.1", ("op-generate",)),
    Alias("--rank", "--ranks", "26", _OF_DUMPS[:-1]),
    Alias("--step", "--steps", "26", _OF_DUMPS),
    Alias("-fm", "--fuzzy", "26"),
    Alias("--fuzzy_match", "--fuzzy", "8.1"),
    Alias("--api_mapping", "--api-mapping", "8.1"),
    Alias("--cell_mapping", "--cell-mapping", "8.1"),
    Alias("--layer_mapping", "--layer-mapping", "8.1"),
    Alias("--data_mapping", "--data-mapping", "8.1"),
    Alias("--rank_size", "--rank-size", "26"),
    Alias("--stack_mode", "--stack", "8.1"),
    Alias("--compare_only", "--compare-only", "8.1"),
    Alias("--diff_analyze", "--diff-analyze", "8.1"),
    Alias("-tensor_log", "--log-each", "26"),
    Alias("--is_print_compare_log", "--log-each", "26"),
    Alias("-progress_log", "--log-progress", "26"),
    Alias("--is_print_progress_log", "--log-progress", "26"),
    Alias("--overflow_check", "--mark-overflow", "8.1"),
    Alias("--complete_stack", "--complete-stack", "8.1"),
    Alias("--file_type", "--file-type", "26"),
    Alias("--input_dir", "--input", "8.1", ("merge-result",)),
    Alias("-config", "--config", "8.1", ("acc-check", "merge-result")),
    Alias("--config-path", "--config", "8.1", ("merge-result",)),
    Alias("--config_path", "--config", "8.1", ("acc-check",)),
    Alias("--config_input", "--input", "8.1", ("op-generate",)),
    Alias("-api_info", "--dump", "8.1", _CHECKED),
    Alias("--api_info_file", "--dump", "8.1", _CHECKED),
    Alias("-csv_path", "--resume-from", "8.1"),
    Alias("--result_csv_path", "--resume-from", "8.1"),
    Alias("-save_error_data", "--save-error-data", "8.1"),
    Alias("--white_list", "--only", "own", ("acc-check",)),
    Alias("--black_list", "--skip", "own", ("acc-check",)),
    Alias("-npu", "--npu", "8.1"),
    Alias("--npu_csv_path", "--npu", "8.1"),
    Alias("-gpu", "--gpu", "8.1"),
    Alias("--gpu_csv_path", "--gpu", "8.1"),
    Alias("--dump_data", "--dump-data", "8.1"),
    Alias("--micro_step", "--micro-step", "26"),
    Alias("--process_num", "--process-num", "26"),
    Alias("--data_path", "--data", "8.1", ("monitor anomalies",)),
    Alias("--topk", "--top", "8.1", ("monitor anomalies",)),
    *(
        Alias(f"--{name}", f"--{name.replace('_', '-')}", "own")
        for name in ("generated_tokens", "recomputed_tokens", "generated_mask", "recomputed_mask", "prompt_lengths")
    ),
)


def aliases_of(verb: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the further flags of an option of a command that has these canonical flags."""
    rows = (each for each in ALIASES if each.canonical in flags and verb in (each.verbs or (verb,)))
    return tuple(each.flag for each in rows)
