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
            "msprobe digest: --workers: x is invalid; give a whole number of at least 1",
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
            "msprobe check: 'c' is unexpected: it belongs to no option (msprobe check -h shows the options)",
            "msprobe check: 多余的参数 'c'：不属于任何选项（msprobe check -h 显示所有选项）",
        ),
        (
            ("monitor",),
            "msprobe: a word is missing after 'monitor', or unknown; write one of: monitor compare, monitor anomalies",
            "msprobe: 'monitor' 之后缺少子命令，或子命令未知；可选：monitor compare, monitor anomalies",
        ),
        (
            ("compre",),
            "msprobe: there is no command 'compre'; did you mean compare?",
            "msprobe: 没有命令 'compre'；是否指 compare？",
        ),
        (
            ("check", ""),
            "msprobe check: argument 1 is empty, as a shell variable without a value is; give it, or leave it out",
            "msprobe check: 第 1 个参数为空（可能是未赋值的 shell 变量）；请给出值，或去掉该参数",
        ),
    ],
)
def test_an_error_says_what_where_and_what_to_do_in_one_line(error_of, words, english, chinese):
    assert error_of("en", *words) == english
    assert error_of("zh", *words) == chinese
