"""Helps and errors in English and Chinese; unknown options name the nearest."""

import re
from importlib import import_module

import pytest
from snapshots import help_of

from msprobe.cli import VERBS, main
from msprobe.options.declaration import declared


def test_every_option_has_a_help_in_both_languages():
    for verb, each in VERBS.items():
        options = import_module(each.module).Options
        for name, option in declared(options).items():
            assert option.help, (verb, name)
            assert option.zh, (verb, name)
            same = option.help == option.zh
            assert same == (not re.search(r"[a-z]{3,} [a-z]", option.help)), (verb, name)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_a_chinese_help_has_no_english_sentence(verb):
    text = help_of(verb, "zh")
    assert re.search("[\u4e00-\u9fff]", text)
    assert not re.findall(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,} [a-z]{2,}\b", text)
    assert re.findall(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,} [a-z]{2,}\b", help_of(verb, "en"))


@pytest.fixture
def error_of(monkeypatch, capsys):
    """The one line that a wrong command ends with."""

    def told(lang, *words):
        monkeypatch.setenv("MSPROBE_LANG", lang)
        assert main(list(words)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return told


@pytest.mark.parametrize(
    ("words", "english", "chinese"),
    [
        (
            ("compare", "a", "b", "--formt", "csv"),
            "msprobe compare: unknown option --formt; did you mean --format? (msprobe compare -h shows the options)",
            "msprobe compare: 未知选项 --formt；是否指 --format？（msprobe compare -h 显示所有选项）",
        ),
        (
            ("gather", "x"),
            "msprobe gather: missing: -o/--output (msprobe gather -h shows the options)",
            "msprobe gather: 缺少：-o/--output（msprobe gather -h 显示所有选项）",
        ),
        (
            ("check", "a", "--format", "jsn"),
            "msprobe check: --format: jsn is invalid; did you mean json? Choose one of text, json",
            "msprobe check: --format: jsn 无效；是否指 json？可选：text、json",
        ),
        (
            ("digest", "a", "--workers", "x"),
            "msprobe digest: --workers: x is invalid; give an integer of at least 1",
            "msprobe digest: --workers: x 无效；请给出不小于 1 的整数",
        ),
        (
            ("digest", "a", "--workers"),
            "msprobe digest: --workers: expected one argument (msprobe digest -h shows the options)",
            "msprobe digest: --workers：缺少值或值的个数不对（msprobe digest -h 显示所有选项）",
        ),
        (
            ("compare", "a", "b", "--html=x"),
            "msprobe compare: --html: takes no value (msprobe compare -h shows the options)",
            "msprobe compare: --html：不接受值（msprobe compare -h 显示所有选项）",
        ),
        (
            ("check", "a", "b", "c"),
            "msprobe check: 'c' is unexpected: it does not belong to any option (msprobe check -h shows the options)",
            "msprobe check: 多余的参数 'c'：不属于任何选项（msprobe check -h 显示所有选项）",
        ),
        (
            ("monitor",),
            "msprobe: the subcommand of 'monitor' is missing or unknown; choose from: monitor compare, "
            "monitor anomalies",
            "msprobe: 'monitor' 之后缺少子命令，或子命令未知；可选：monitor compare, monitor anomalies",
        ),
        (
            ("compre",),
            "msprobe: there is no command 'compre'; did you mean compare?",
            "msprobe: 没有命令 'compre'；是否指 compare？",
        ),
        (
            ("check", ""),
            "msprobe check: argument 1 is empty, possibly an unset shell variable; give a value, or leave the "
            "argument out",
            "msprobe check: 第 1 个参数为空（可能是未赋值的 shell 变量）；请给出值，或去掉该参数",
        ),
    ],
)
def test_an_error_says_what_where_and_what_to_do_in_one_line(error_of, words, english, chinese):
    assert error_of("en", *words) == english
    assert error_of("zh", *words) == chinese


@pytest.mark.parametrize(
    ("words", "english", "chinese"),
    [
        (
            ("compare",),
            "msprobe compare: two dumps are required: give -tp TARGET -gp GOLDEN, or -i compare.json",
            "msprobe compare: 需要两份 dump：-tp TARGET -gp GOLDEN，或 -i compare.json",
        ),
        (
            ("compare", "-tp", "a", "-gp", "b", "--xlsx", "--format", "csv"),
            "msprobe compare: --xlsx and --format csv contradict each other; give only one",
            "msprobe compare: --xlsx 与 --format csv 冲突；请只给出一个",
        ),
        (
            ("compare", "-tp", "a", "-gp", "b", "--ranks", "3-0"),
            'msprobe compare: --ranks: "3-0" is a descending range; write the smaller number first, "0-3"',
            'msprobe compare: --ranks: "3-0" 前后颠倒；请先写较小的数，即 "0-3"',
        ),
        (
            ("compare", "-tp", "a", "-gp", "b", "--tp", "2"),
            "msprobe compare: --tp: the number of ranks is also needed; add --rank-size, for example --rank-size 8 1",
            "msprobe compare: --tp：还需要 rank 总数；请给出 --rank-size，例如 --rank-size 8 1",
        ),
        (
            ("compare", "a", "b", "--atol", "-1"),
            "msprobe compare: --atol: a tolerance must be a non-negative number, not -1.0",
            "msprobe compare: --atol: 容差必须是不小于 0 的数，而不是 -1.0",
        ),
        (
            ("diagnose", "a"),
            "msprobe diagnose: a: the trusted run is missing; give both: msprobe diagnose A B",
            "msprobe diagnose: a：缺少标杆运行；请同时给出两者：msprobe diagnose A B",
        ),
        (
            ("report", "a", "-o", "page.pdf"),
            "msprobe report: -o page.pdf: the name of a page must end in .html; add it, or give a folder",
            "msprobe report: -o page.pdf：页面的文件名以 .html 结尾；请加上，或给出文件夹",
        ),
        (
            ("bundle", "a", "b", "--scramble"),
            "msprobe bundle: --scramble requires --tensors; add it, or omit --scramble",
            "msprobe bundle: --scramble 针对张量；请同时给出 --tensors，或去掉它",
        ),
        (
            ("config-check", "-d", "-c", "a", "b"),
            "msprobe config-check: -d (pack) and -c (compare) exclude each other; give only one",
            "msprobe config-check: -d 打包，-c 比对；请只给出一个",
        ),
        (
            ("check", "a", "--only", "replai"),
            "msprobe check: --only: there is no invariant 'replai'; did you mean replay?",
            "msprobe check: --only：没有不变量 'replai'；是否指 replay？",
        ),
        (
            ("config-check", "--dry-run", "-c", "a", "b"),
            "msprobe config-check: --dry-run requires -d",
            "msprobe config-check: --dry-run 用于打包；请与 -d 一起使用",
        ),
    ],
)
def test_a_command_refuses_its_options_in_the_language_of_the_user(
    error_of, words, english, chinese, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert error_of("en", *words) == english
    assert error_of("zh", *words) == chinese


def test_a_path_that_is_not_there_is_told_in_the_language_of_the_user(error_of, tmp_path):
    path = tmp_path / "a"
    assert error_of("en", "compare", f"{path}", "b").startswith(
        f"msprobe compare: {path}: no such file or folder; give a dump.json"
    )
    assert error_of("zh", "compare", f"{path}", "b").startswith(
        f"msprobe compare: {path}：没有该文件或文件夹；请给出 dump.json"
    )
