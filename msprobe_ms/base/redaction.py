"""What looks like a secret: names of variables and settings that hold one, and values that are one.

Nothing of it is written into a file that people pass on. The rules err on the side of leaving out: of a value that was
left out nobody knows whether it differs, and the comparison says so.
"""

import re

NOT_RECORDED = "<not recorded>"
"""Stands in the place of a secret."""

_WORDS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "pw", "secret", "secrets", "credential", "credentials"),
    *(
        "token",
        "auth",
        "authorization",
        "apikey",
        "key",
        "keys",
        "cookie",
        "cookies",
        "jwt",
        "bearer",
        "pat",
        "signature",
    ),
    *("netrc", "kubeconfig", "dsn"),
)
_INSIDE = ("password", "passwd", "passphrase", "secret", "credential", "apikey", "privatekey", "accesskey", "token")
_HARMLESS = ("tokenizer", "tokenizers", "pwd", "oldpwd")
"""Variables that no rule applies to: `TOKENIZERS_PARALLELISM`, and the working directory of a shell."""

_OF_SETTINGS = re.compile(
    r"passw(?:or)?d|passphrase|secret|credential|api_?key|private_?key|access_?key|"
    r"(?:^|_)(?:hf|hub|auth|access|api|bearer|wandb|github|oauth|session|refresh|id)_token$|(?:^|_)(?:pwd|jwt|dsn)$"
)
"""Settings have names like `num_key_value_heads` and `pad_token_id`: of these only what says more."""

_VALUES = (
    re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@?#]*:[^/\s@?#]*@", re.IGNORECASE),  # a URL with a password
    re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:?#]{16,}@", re.IGNORECASE),  # a URL with a token in the place of the user
    re.compile(
        r"(?:passw(?:or)?d|passphrase|secret|credential|api_?-?key|access_?-?key|private_?-?key|auth_?-?token"
        r"|access_?-?token|accountkey|sharedaccesskey|[?&;\s](?:token|sig|signature|pwd|x-amz-signature))"
        r"[\"']?\s*[=:]\s*[\"']?[^\s\"']",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:bearer|basic)\s+[a-z0-9+/=._-]{8,}", re.IGNORECASE),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    # Tokens that name their maker: of GitHub, GitLab, Hugging Face, OpenAI, Slack, AWS, Google, npm, PyPI, a JWT.
    re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abposr]-|npm_|pypi-|AIza|ya29\.)[A-Za-z0-9_-]{12,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
)

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_RANDOM = re.compile(r"[A-Za-z0-9+_=-]{32,}")
_LONGEST = 1 << 16  # characters of a value that are looked through; nobody looks through a longer one


def is_secret_variable(name: str) -> bool:
    """Whether a variable of the environment holds a secret, by its name."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if name.lower() in _HARMLESS or parts[:1] in (["tokenizer"], ["tokenizers"]):
        return False
    joined = "".join(parts)
    return any(part in _WORDS for part in parts) or any(word in joined for word in _INSIDE) or joined.endswith("key")


def is_secret_setting(name: str) -> bool:
    """Whether a setting of a training holds a secret, by its name."""
    last = name.rpartition(".")[2] if not name.rpartition(".")[2].isdecimal() else name
    return bool(_OF_SETTINGS.search(last.lower().replace("-", "_")))


def has_secret(text: str) -> bool:
    """Whether there is a secret in a text, by what it looks like."""
    return len(text) > _LONGEST or any(pattern.search(text) for pattern in _VALUES)


def variable(name: str, value: str, is_known: bool = False) -> str:
    """The value of a variable, or the mark in its place. Of one that `is_known` to hold none only a URL is doubted."""
    if has_secret(value) or (not is_known and (is_secret_variable(name) or _is_random(value))):
        return NOT_RECORDED
    return value


def setting(name: str, value: object) -> object:
    """The value of a setting, or the mark in its place; lists are looked through."""
    if isinstance(value, list | tuple):
        return [setting(name, each) for each in value]
    is_text = isinstance(value, str)
    if (is_secret_setting(name) and value not in (None, "", True, False)) or (is_text and has_secret(str(value))):
        return NOT_RECORDED
    return value


def _is_random(value: str) -> bool:
    """Whether a value is one long word of letters and digits, as keys are that no name tells of."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return bool(_RANDOM.fullmatch(value)) and has_both
