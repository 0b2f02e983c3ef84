"""What looks like a secret is left out, and what a comparison needs is not."""

import pytest

from msprobe.base import redaction
from msprobe.base.redaction import NOT_RECORDED, has_secret, is_secret_setting, is_secret_variable, setting, variable

SECRET = [
    *(
        "MYPASSWORD",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "HF_TOKEN",
        "GITHUB_TOKEN",
    ),
    *("WANDB_API_KEY", "OPENAIAPIKEY", "SSH_KEY", "private_key", "GOOGLE_CREDENTIALS", "CI_JOB_JWT", "SESSION_COOKIE"),
    *("HTTP_AUTHORIZATION", "npm_config_authToken", "PGPASSFILE_PASSPHRASE", "swanlabApiKey", "SENTRY_DSN"),
]
PLAIN = [
    *("PATH", "PWD", "OLDPWD", "HOME", "TOKENIZERS_PARALLELISM", "HCCL_DETERMINISTIC", "ASCEND_RT_VISIBLE_DEVICES"),
    *("MS_DEV_RUNTIME_CONF", "LD_LIBRARY_PATH", "MASTER_ADDR", "PYTHONHASHSEED", "KEYBOARD_LAYOUT", "AUTHOR_NAME"),
]
SETTINGS_KEPT = [
    *(
        "num_key_value_heads",
        "pad_token_id",
        "eos_token",
        "max-tokens",
        "tokenizer-type",
        "model.tokens",
        "key",
        "tokens",
    ),
    *("kv_channels", "token_dropping", "seed", "auth_mode", "query_key_layer_scaling"),
]
SETTINGS_SECRET = ["hf_token", "--wandb-api-key", "db.password", "access_token", "model.secret", "aws.access_key_id"]
VALUES = [
    "https://user:pw@host/x",
    "redis://:pw@host:1/0",
    "https://0123456789abcdef0123@host/x",
    "ghp_0123456789abcdefghij",
    "hf_ABCDEFGHIJKLMNOP",
    "sk-abcdefghijklmnopqrst",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.x",
    "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "-Xmx4g -Djavax.password=geheim",
    "Server=a;AccountKey=abc==",
    "https://host/blob?sig=abc",
    "Bearer abcdefgh1234",
]
HARMLESS = [
    "https://host/path",
    "git@github.com:a/b.git",
    "/usr/bin:/bin",
    "0,1,2,3",
    "level0:NO,level1:ring",
    "3.10",
    "",
]


@pytest.mark.parametrize("name", SECRET)
def test_a_variable_whose_name_says_so_is_not_recorded(name):
    assert is_secret_variable(name)
    assert variable(name, "x") == NOT_RECORDED


@pytest.mark.parametrize("name", PLAIN)
def test_a_variable_that_a_comparison_needs_is_recorded(name):
    assert variable(name, "x") == "x"


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_is_a_secret_is_left_out_under_every_name(value):
    assert has_secret(value)
    assert variable("HARMLESS", value) == NOT_RECORDED
    assert variable("ASCEND_RT_VISIBLE_DEVICES", value, is_known=True) == NOT_RECORDED
    assert setting("model.url", value) == NOT_RECORDED
    assert setting("urls", ["x", value]) == ["x", NOT_RECORDED]


@pytest.mark.parametrize("value", HARMLESS)
def test_an_ordinary_value_stays(value):
    assert variable("HARMLESS", value) == value
    assert setting("model.url", value) == value


def test_a_long_word_of_letters_and_digits_is_taken_for_a_key_unless_the_variable_is_known():
    word = "8f14e45fceea167a5a36dedd4bea2543"
    assert variable("SOMETHING", word) == NOT_RECORDED
    assert variable("CUDA_VISIBLE_DEVICES", word, is_known=True) == word
    assert variable("SOMETHING", "a" * 40) == "a" * 40


@pytest.mark.parametrize("name", SETTINGS_KEPT)
def test_settings_of_models_are_no_secrets(name):
    assert not is_secret_setting(name)
    assert setting(name, 8) == 8


@pytest.mark.parametrize("name", SETTINGS_SECRET)
def test_settings_that_are_secrets_are_left_out(name):
    assert setting(name, "x") == NOT_RECORDED
    assert setting(name, None) is None


def test_a_text_that_nobody_can_look_through_counts_as_a_secret():
    assert has_secret("a" * (redaction._LONGEST + 1))
