"""Replace secrets in settings, environment variables, command lines and texts before they are written to a file.

Deny by default. A value is secret by the name that it has (`secret_rules`), by being below such a name, by its shape
(tokens of known services, private keys, credentials in URLs and headers), by being random, or by being the value of an
option or an assignment inside a text whose name is that of a secret. With a `Redactor`, a value that is secret in one
place is secret everywhere else.

A mark replaces a secret: `<redacted:DIGEST>`. The digest shows whether two secrets are equal. It is computed by scrypt,
so that trying out passwords is slow, and cut to 20 bits, so that a match is not a proof: one in a million wrong guesses
matches too. The salt is fixed, because two runs must agree on it; the user can give a private one in
`MSPROBE_REDACTION_SALT`, or `off` for marks without digests.
"""

import hashlib
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from math import log2

from . import secret_rules as rules

REDACTED = "<redacted>"
"""The mark of a secret without a digest."""

SALT = "MSPROBE_REDACTION_SALT"
"""The environment variable with the user's salt."""

_OLD_MARK = "<not recorded>"  # of packs of earlier versions
_MARK = re.compile(r"<redacted(?::(?P<digest>[0-9a-f]{5})(?::(?P<salt>[0-9a-f]{4}))?)?>|<not recorded>")
_DEFAULT_SALT = b"msprobe-ms/redaction/1"
_COST = 1 << 12  # of scrypt: 10 ms and 4 MiB for each secret
_MAX_DIGESTS = 300  # different ones that a redactor computes: seconds; further marks have none
_MAX_CACHED = 10_000
_MAX_LENGTH = 1 << 14  # characters of a text; a longer one is redacted as a whole
_MAX_LINE = 2000  # characters of a line of source code; what follows is cut off
_MAX_KNOWN = 10_000  # secrets that a redactor remembers
_MAX_SEARCHED = 300  # of these that are searched for inside words
_MAX_NESTING = 50

Span = tuple[int, int]


class Strength(IntEnum):
    """How certainly a name is that of a secret."""

    NONE = 0
    LIKELY = 1
    """Small numbers, special tokens and the like below it are not secret."""
    CERTAIN = 2


# Names.

_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|[\W_]+"
)
_SINGULAR = {"keys": "key", "tokens": "token", "sessions": "session", "auths": "auth"}
_COUNTS = rules.words("num n max min total count avg mean")
_WHOLE = rules.CERTAIN | rules.LIKELY | rules.SECRET_BEFORE | rules.MEASURES | rules.LOCATIONS | rules.NOT_WORDS


@lru_cache(1 << 14)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case and without numbers; words written together are separated."""
    parts = (part.casefold() for part in _BOUNDARY.split(unicodedata.normalize("NFKC", name[:500])))
    return tuple(word for part in parts if part and not part.isdecimal() for word in _separated(part))


def _separated(part: str) -> tuple[str, ...]:
    if part in _WHOLE or re.match(r"(?:de|re|pre)?tokeni[sz]", part):
        return (part,)
    for word in rules.BEGINNINGS:
        if part.startswith(word):
            rest = part[len(word) :]
            return (*_halves(word), *(_separated(rest) if rest else ()))
    for word in rules.ENDINGS:
        if part.endswith(word) and part != word:
            return (*_separated(part[: -len(word)]), word)
    for word, before in rules.SHORT_ENDINGS.items():
        if part.endswith(word) and part[: -len(word)] in before:
            return part[: -len(word)], word
    for word in rules.CERTAIN:
        if not word.isascii() and word in part:
            return (word,)
    return (part,)


def _halves(word: str) -> tuple[str, ...]:
    for end in ("accesskey", "key", "token"):
        if word.endswith(end) and word != end:
            return (*_separated(word[: -len(end)]), *_halves(end))
    return ("access", "key") if word == "accesskey" else (word,)


@lru_cache(1 << 14)
def strength_of(name: str) -> Strength:
    """Return how certainly a name, one part of a path, is that of a secret."""
    words = [*words_of(name)]
    if not words:
        return Strength.NONE
    location = words[-1] in rules.LOCATIONS  # a password file holds a password; values that are paths are kept
    while len(words) > 1 and (words[-1] in rules.NEUTRAL or words[-1] in rules.LOCATIONS):
        words.pop()
    *before, last = words
    if last in rules.MEASURES and len(words) > 1:
        return Strength.NONE
    if any(word in rules.CERTAIN for word in words) or words[-2:] in (["seed", "phrase"], ["pass", "word"]):
        return Strength.LIKELY if last.endswith("s") and before and before[0] in _COUNTS else Strength.CERTAIN
    if last == "code" and {*before} & {"access", "auth", "verification", "recovery", "invite", "mfa", "otp", "login"}:
        return Strength.LIKELY
    if last not in rules.LIKELY:
        return Strength.NONE
    kind = _SINGULAR.get(last, last)
    if kind != last and before and before[0] in _COUNTS:
        return Strength.NONE
    for word in reversed(before):  # the nearest says which one it is
        if word in rules.HARMLESS_BEFORE.get(kind, ()):
            return Strength.NONE
        if word in rules.SECRET_BEFORE and kind in ("key", "token", "pass", "auth", "session"):
            return Strength.LIKELY if location else Strength.CERTAIN
    return Strength.LIKELY


def strength_of_path(path: str) -> Strength:
    """Return the strength of a path of names with dots between them: everything below a secret name is secret."""
    return max(map(strength_of, path.split(".")), default=Strength.NONE)


# Values by themselves.

_NO_SECRET = rules.words(
    "none null nil true false yes no on off auto default disabled enabled disable enable required optional "
    "unset empty never always"
)
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,5}|\d*\.\d+|\d+\.|\d+(?:\.\d*)?e[-+]?\d{1,3}|\d{1,6}(?:\.\d+)?\s?[kmgtb%]i?b?|inf|nan)", re.I
)
_NUMBERS = re.compile(r"[\[(](?:\s*-?\d{1,5}(?:\.\d+)?\s*,?)*[\])]?")
_REFERENCE = re.compile(
    r"\$\{?[A-Za-z_]\w*\}?|\$\{(?:oc\.)?env:\w+\}|\$\{\{\s*[\w.]+\s*\}\}|\{\{\s*[\w.]+\s*\}\}|%\w+%|\$[0-9@*]"
)
_SPECIAL_TOKEN = re.compile(
    r"</?[a-z_|]{1,24}>|<\|[\w:.-]{1,40}\|>|<\uff5c[^<>\uff5c]{1,40}\uff5c>|\[[A-Z_]{2,12}\]|<[a-z]+_?\d{1,4}>|\\n|[.,;:!?\s]"
)
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w./@~+ -]*|(?:[\w-]+/)+[\w.-]+|[\w-]+\.(?:pem|key|json|ya?ml|txt|env|ini|crt|cfg|conf)"
)
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]{24,}|[0-9A-F]{24,})")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_PREFIXED = re.compile(r"(?:GPU|MIG|NPU|CPU|sha1|sha256|sha512|md5)[-:]?(?=[0-9a-fA-F])", re.IGNORECASE)
_CHUNK = re.compile(r"[A-Za-z0-9_+=-]{16,}")


def irregularity(word: str) -> float:
    """Return how much of a word is unlike names: among its pairs of neighbors with a letter, the share of rare pairs of
    letters and of changes between letters and digits; 0 where there are none.

    Of 20 random letters and digits 98 % are above 0.5. Of 331 names of 14 and more letters and digits in the installed
    files of PyTorch and MindSpore none is.
    """
    counted = irregular = 0
    for one, other in pairwise(word.casefold()):
        letters = one.isalpha() + other.isalpha()
        if letters == 0 or not (one.isalnum() and other.isalnum()):
            continue
        counted += 1
        irregular += letters == 1 or one + other not in rules.PAIRS
    return irregular / counted if counted else 0.0


def is_random(word: str) -> bool:
    """Return whether a word of at least 16 letters and digits is too irregular to be made of names and numbers."""
    if _HEX.fullmatch(word) or _UUID.fullmatch(word):
        return any(map(str.isdigit, word)) and any(map(str.isalpha, word)) and len({*word}) > 5
    bare = re.sub(r"[^A-Za-z0-9]", "", word)
    if len(bare) < 16 or len({*bare}) < 9:
        return False
    longest = max(re.split(r"[_+=-]+", word), key=len)
    kinds = sum(bool(re.search(kind, longest)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    if len(longest) >= 14 and kinds >= 2:
        has_digit = any(map(str.isdigit, longest))
        return irregularity(longest) > (0.5 if has_digit else 0.45)
    return len(bare) >= 20 and kinds == 3 and irregularity(word) > 0.7


def entropy(text: str) -> float:
    """Return the Shannon entropy of the characters of a text, in bits each; 0 for an empty one."""
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def _is_harmless(value: object, strength: Strength, name: str) -> bool:
    """Return whether a value cannot be a secret although its name, or one above it, is that of one."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return strength is not Strength.CERTAIN and (isinstance(value, float) or abs(value) < 100_000)
    if not isinstance(value, str):
        return not value
    text = value.strip()
    if not text or text.casefold() in _NO_SECRET or _REFERENCE.fullmatch(text) or _is_marks(text):
        return True
    words = words_of(name)
    if words and words[-1] in rules.LOCATIONS and _PATH.fullmatch(text) and not any(_random_spans(text, name)):
        return True
    if name.casefold() in ("pwd", "oldpwd") and text.startswith("/"):  # of a shell: the working directory
        return True
    if {"token", "tokens"} & {*words} and _SPECIAL_TOKEN.fullmatch(value):
        return True
    if strength is Strength.CERTAIN:
        return False
    return bool(
        _NUMBER.fullmatch(text)
        or _NUMBERS.fullmatch(text)
        or _SPECIAL_TOKEN.fullmatch(value)
        or ({"license", "licence"} & {*words} and rules.LICENSES.fullmatch(text))
    )


def _is_marks(text: str) -> bool:
    return _MARK.fullmatch(text) is not None


# Texts: every function below gives the places of secrets in a text.

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_NAME = r"[^\W\d][\w.-]{0,200}"
_ASSIGNMENT = re.compile(
    rf"(?P<quote>\\*[\"'])?(?<![\w-])(?P<name>-{{0,2}}{_NAME})(?(quote)(?P=quote))[\])]*"
    r"\s*(?P<sign>=>|:=|==|!=|\+=|=(?!=)|:(?![:/])|\uff1a|\s(?:is|was|are|to)\s(?=\S))\s*"
)
_VERBS = ("is", "was", "are", "to")
_CHINESE = re.compile(
    r"(?:密码|口令|密钥|令牌|凭证|秘钥|私钥|验证码)\s*(?:是|为|[:\uff1a=])?\s*(?P<secret>[\x21-\x7e]{4,})"
)
_PAIR = re.compile(rf"(?P<quote>[\"'])-{{0,2}}(?P<name>{_NAME})(?P=quote)\s*,\s*(?P<value>{_QUOTED})")
_PHRASES = (
    re.compile(r"\blogin\s+\S+\s+password\s+(?P<secret>\S+)", re.IGNORECASE),  # .netrc
    re.compile(r"\bidentified\s+by\s+[\"']?(?P<secret>[^\s\"';]+)", re.IGNORECASE),  # SQL
    re.compile(
        rf"\b(?:echo|printf)\s+(?:-\w+\s+)*(?P<secret>{_QUOTED}|[^\s|]{{1,256}})\s*\|\s*[^|]{{0,200}}"
        r"(?:sudo\s+-\w*S|--password-stdin|--stdin|chpasswd|passwd|cryptsetup|\blogin\b)"
    ),
    re.compile(r"\bsudo\s+-\w*S\b.{0,200}?<<<\s*(?P<secret>\S+)"),
)
"""Commands and statements that are followed by a secret."""
_DECLARATION = re.compile(r"\b(?:ENV|ARG|setenv|set(?:\s+-g?x)?)\s+(?P<name>\w+)\s+(?P<value>\S+)")
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z_][\w.:-]*)[^<>]*>(?P<value>[^<>]+)</")
_USER_AND_HOST = re.compile(r"(?<![\w/.@:-])(?P<secret>[\w.+-]{1,64}:[^\s:@/\"']{1,256})@(?!sha\d+:)[A-Za-z][\w.-]*")
_WORD = re.compile(rf"(?:{_QUOTED}|\\.|[^\s\"'\\])+|[\"']", re.DOTALL)
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
_URL = re.compile(r"(?<![A-Za-z0-9+])[A-Za-z][A-Za-z0-9+.-]{0,30}://")
_HOST_AND_PORT = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+|localhost|\[[0-9a-fA-F:]+\]):\d{1,5}(?:/|$)")
_PASSWORD_SAFE = re.compile(r"\d{1,5}(?:[:-]\d{1,5})*(?:/\w+)?|[~./].*|\$.*")
_USER_OPTIONS = ("-u", "--user", "-U", "--proxy-user", "--userpwd")
_STRING = re.compile(rf"[rbfuRBFU]{{0,2}}(?P<string>{_QUOTED})")


def _spans(text: str, name: str = "", depth: int = 0) -> Iterator[Span]:
    """Return where secrets are in a text that has a name without importance."""
    yield from _shape_spans(text)
    yield from _url_spans(text)
    yield from _random_spans(text, name)
    yield from (found.span("secret") for found in _CHINESE.finditer(text))
    yield from (found.span("secret") for found in _USER_AND_HOST.finditer(text))
    yield from (found.span("value") for found in _ELEMENT.finditer(text) if strength_of_path(found["name"]))
    if re.search(r"[=:\uff1a\s]", text):
        yield from _assignment_spans(text)
        yield from _option_spans(text, depth)
        for pattern in _PHRASES:
            yield from (_inside_quotes(text, found.span("secret")) for found in pattern.finditer(text))
        for found in (*_PAIR.finditer(text), *_DECLARATION.finditer(text)):
            if strength_of_path(found["name"]):
                yield _inside_quotes(text, found.span("value"))


def _shape_spans(text: str) -> Iterator[Span]:
    lower = text.lower()
    for shape in rules.SHAPES:
        for needle in shape.needles:
            if needle in lower:
                yield from (found.span(found.lastgroup or 0) for found in shape.pattern.finditer(text))
                break


def _url_spans(text: str) -> Iterator[Span]:
    """Return the user and password of URLs, up to the last `@`: a password may hold any character."""
    whole = _URL.match(text) is not None and "\n" not in text and not re.search(r"\s\w+://|\s--?\w", text)
    for found in _URL.finditer(text):
        begin = found.end()
        if whole:
            rest = text[begin:]
        else:
            end = re.search(r"[\s\"'<>`]|$", text[begin:])
            rest = text[begin : begin + end.start()] if end else ""
        user, at, _ = rest.rpartition("@")
        if not at:
            continue
        is_named = ":" in user and not _HOST_AND_PORT.match(user)
        is_token = "/" not in user and (len(user) >= 16 or any(map(str.isdigit, user)))
        if is_named or is_token:
            yield begin, begin + len(user)
        if whole:
            break


def _random_spans(text: str, name: str = "") -> Iterator[Span]:
    """Return words that are random. Those that a name, or a place in a path, explains as a hash or an id are not."""
    is_identity = any(word in rules.IDENTITIES for word in words_of(name.rpartition(".")[2])[-3:])
    compact = text.strip()
    if re.fullmatch(r"[A-Za-z0-9+/]{38,}={0,2}", compact) and not compact.startswith("/"):
        bare = re.sub(r"[+/=]", "", compact)
        is_mixed = not compact.islower() and not compact.isupper()
        is_irregular = irregularity(bare) > 0.5 or (len(compact) == 40 and is_mixed and entropy(compact) > 4.5)
        if is_irregular and any(map(str.isdigit, bare)):
            if not (is_identity and _HEX.fullmatch(compact)):
                at = text.find(compact)
                yield at, at + len(compact)
            return
    for found in _CHUNK.finditer(text):
        word, begin = found[0], found.start()
        prefix = _PREFIXED.match(word)
        if prefix and (_HEX.fullmatch(word[prefix.end() :]) or _UUID.fullmatch(word[prefix.end() :])):
            continue
        if "=" in word.rstrip("="):  # `name=value`
            head, _, tail = word.rpartition("=")
            word, begin = tail, begin + len(head) + 1
        word = word.strip("=-+_")
        if not is_random(word):
            continue
        is_number = _HEX.fullmatch(word) or _UUID.fullmatch(word)
        ahead = text[max(begin - 500, 0) : begin]
        if is_number or word.islower() or word.isupper():
            place = re.search(r"([\w.-]+)[/=:@\s-]+$", ahead)
            is_explained = place and any(each in rules.IDENTITIES for each in words_of(place[1])[-2:])
            if is_identity or is_explained or re.search(r"(?:^|[\s=:])[~.]{0,2}/(?:[\w.@+-]+/)*[\w.-]*$", ahead):
                continue
        at = text.find(word, begin)
        yield at, at + len(word)


def _inside_quotes(text: str, span: Span) -> Span:
    begin, end = span
    if end - begin >= 2 and text[begin] in "\"'" and text[end - 1] == text[begin]:
        return begin + 1, end - 1
    return span


def _assignment_spans(text: str) -> Iterator[Span]:
    """Return values of `name = value`, `name: value`, `"name": value`, `name is value` whose name is secret."""
    for found in _ASSIGNMENT.finditer(text):
        strength = strength_of_path(found["name"].strip("-"))
        sign = found["sign"].strip()
        if sign in ("==", "!="):
            continue
        is_prose = sign in _VERBS
        if not strength or (is_prose and len(words_of(found["name"])) > 2):
            continue
        if sign == "to" and strength is not Strength.CERTAIN:
            continue
        begin = found.end()
        end = _end_of_value(text, begin, sign)
        span = _inside_quotes(text, (begin, end))
        value = text[slice(*span)]
        if value and not _is_harmless(value.rstrip(",;)}]"), strength, found["name"]):
            yield span


def _end_of_value(text: str, begin: int, sign: str) -> int:
    """Return where the value ends that begins here: with its quotes, its brackets, its word, or its line."""
    rest = text[begin:]
    if quoted := re.match(rf"[rbfu]?(?:{_QUOTED})|\\+([\"']).*?\\+\1", rest, re.DOTALL):
        return begin + quoted.end()
    if rest[:1] in ("[", "{", "("):
        depth = 0
        for at, c in enumerate(rest):
            depth += (c in "[{(") - (c in "]})")
            if not depth:
                return begin + at + 1
        return len(text)
    if sign in (":", "\uff1a") and text[begin - 1 : begin].isspace():
        closing = re.search(r"\n|[\"'](?=[\s,)\]}]|$)|,\s+[\"']?[\w-]+[\"']?\s*[:=]", rest)
    elif sign in _VERBS:
        closing = re.search(r"\s", rest)
    else:
        closing = re.search(r"\s|[\"'](?=[\s,)\]}]|$)", rest)
    return begin + (closing.start() if closing else len(rest))


def _option_spans(text: str, depth: int = 0) -> Iterator[Span]:
    """Return the values of secret options of a command line, and of the variables that such an option uses."""
    continued = re.compile(r"(?:\\\r?\n)+")
    tokens = [(found.span(), found[0]) for found in _WORD.finditer(text) if not continued.fullmatch(found[0])]
    if depth < 4:
        for (begin, _), word in tokens:
            inner = word[1:-1]
            if word[:1] in "\"'" and word[-1:] == word[:1] and re.search(r"\s", inner):
                yield from ((begin + 1 + a, begin + 1 + b) for a, b in _spans(inner, depth=depth + 1))
    places = [place for place, _ in tokens]
    found = [*secret_words([word for _, word in tokens])]
    used: set[str] = set()
    for at, (begin, end) in found:
        first = places[at][0]
        span = _inside_quotes(text, (first + begin, first + end))
        value = text[slice(*span)]
        names = re.findall(r"\$\{?([A-Za-z_]\w*)", value)
        if names:
            used |= {*names}
            if re.fullmatch(r"(?:\$\{?[A-Za-z_]\w*\}?|:)+", value):
                continue
        yield span
    for name in used:
        for each in re.finditer(rf"(?<![\w$])(?:{re.escape(name)})=", text):
            end = _end_of_value(text, each.end(), "=")
            yield _inside_quotes(text, (each.end(), end))
        for each in re.finditer(rf"\bread\s+(?:-\w+\s+)*{re.escape(name)}\s*<<<\s*(\S+)", text):
            yield each.span(1)


def secret_words(words: Sequence[str]) -> Iterator[tuple[int, Span]]:
    """Return which words of a command line are secret, as the place of the word and of the secret in it."""
    command = ""
    at = 0
    while at < len(words):
        word = words[at]
        bare = word.strip("\"'")
        following = words[at + 1] if at + 1 < len(words) else None
        if not bare.startswith("-") and (at == 0 or words[at - 1] in ("|", "&&", ";", "sudo", "||") or not command):
            command = bare.rpartition("/")[2] if "=" not in bare else command
        option = _OPTION.fullmatch(bare)
        at += 1
        if is_short := re.fullmatch(r"[\"']?-(\w)=(?P<value>.+?)[\"']?", word, re.DOTALL):
            is_secret = is_short[1] in rules.SECRET_LETTERS.get(command, "p")
            if is_secret and not _PASSWORD_SAFE.fullmatch(is_short["value"]):
                yield at - 1, is_short.span("value")
            continue
        if joined := re.fullmatch(r"[\"']?-([pu])(?P<value>[^\s=-].*?)[\"']?", word, re.DOTALL):
            is_user = joined[1] == "u" and ":" in joined["value"]
            is_password = joined[1] == "p" and re.match(r"(?:mysql|mariadb|sshpass|7z|mongo)", command)
            if is_user or is_password:
                yield at - 1, joined.span("value")
                continue
        if option is None:
            continue
        name = option["name"]
        if following is None:
            continue
        value = following.strip("\"'")
        if bare in _USER_OPTIONS:
            is_pair = ":" in value or (bare == "-U" and "%" in value)
            if is_pair and not re.fullmatch(r"\d+:\d+", value):  # `docker run -u 1000:1000`
                yield at, (0, len(following))
            continue
        if len(name) == 1:
            is_known = name in rules.SECRET_LETTERS.get(command, "")
            is_password = name == "p" and command not in rules.NO_PASSWORD_OPTION and not value.startswith("-")
            is_safe = _PASSWORD_SAFE.fullmatch(value) or _is_harmless(value, Strength.LIKELY, name)
            if (is_known or is_password) and not is_safe:
                yield at, (0, len(following))
            continue
        prefixed = re.match(r"(?:pass|env|file|stdin|fd):", value)
        if name in ("passin", "passout") and prefixed:
            if value.startswith("pass:"):
                yield at, (0, len(following))
            continue
        strength = strength_of_path(name)
        if not strength:
            continue
        is_list = (
            bool(words_of(name))
            and words_of(name)[-1].endswith("s")
            and words_of(name)[-1] not in ("pass", "credentials")
        )
        while at < len(words):
            value = words[at].strip("\"'")
            if re.match(r"--?[A-Za-z]", value) and (value.startswith("--") or len(value) == 2):
                break
            if not _is_harmless(value, strength, name) or _REFERENCE.fullmatch(value):
                yield at, (0, len(words[at]))
            at += 1
            if not is_list:
                break


# Marks.

_digests: dict[tuple[bytes, str], str] = {}


def mark(secret: str) -> str:
    """Return the mark of a secret."""
    text = os.environ.get(SALT, "")
    if text.strip().lower() == "off":
        return REDACTED
    salt = b"user/" + text.encode("utf-8", "surrogatepass") if text else _DEFAULT_SALT
    digest = _digest(salt, f"secret/{secret}")[:5]
    if not digest:
        return REDACTED
    return f"<redacted:{digest}:{_digest(salt, 'salt')[:4]}>" if text else f"<redacted:{digest}>"


def _digest(salt: bytes, text: str) -> str:
    """Return a slow digest; empty for an interpreter whose OpenSSL lacks scrypt."""
    key = salt, text
    if key not in _digests:
        if len(_digests) >= _MAX_CACHED:
            _digests.clear()
        try:
            content = text.encode("utf-8", "surrogatepass")
            _digests[key] = hashlib.scrypt(content, salt=salt, n=_COST, r=8, p=1, maxmem=1 << 26, dklen=8).hex()
        except (AttributeError, ValueError, MemoryError, OSError):
            return ""
    return _digests[key]


def is_redacted(value: object) -> bool:
    """Return whether something in a value was redacted."""
    if isinstance(value, str):
        return _MARK.search(value) is not None
    if isinstance(value, Mapping):
        return any(is_redacted(key) or is_redacted(each) for key, each in value.items())
    return isinstance(value, list | tuple) and any(map(is_redacted, value))


def same(ours: object, theirs: object) -> bool | None:
    """Return whether two values of which one at least is redacted are equal; None where the marks do not show it."""
    if ours is None or theirs is None:
        return ours is theirs
    one, other = (value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
                  for value in (ours, theirs))  # fmt: skip
    one, other = (mark(text) if not _MARK.search(text) and _is_marks(by) else text
                  for text, by in ((one, other), (other, one)))  # fmt: skip
    marks = [*_MARK.finditer(one), *_MARK.finditer(other)]
    if one == other:
        return True if all(each["digest"] for each in marks) else None
    if _MARK.sub(REDACTED, one) != _MARK.sub(REDACTED, other):
        return False
    comparable = all(each["digest"] for each in marks) and len({each["salt"] for each in marks}) == 1
    return False if comparable else None


def redacted_places(value: object, prefix: str = "") -> Iterator[str]:
    """Return the paths of values, inside objects and lists, in which something was redacted."""
    waiting: list[tuple[str, object]] = [(prefix, value)]
    while waiting:
        name, held = waiting.pop()
        if isinstance(held, Mapping | list | tuple):
            inner = held.items() if isinstance(held, Mapping) else enumerate(held)
            waiting += reversed([(f"{name}.{key}" if name else str(key), each) for key, each in inner])
        elif is_redacted(held):
            yield name


# What others call.

_COMMON = rules.words("root admin user users test guest localhost python bash password secret token key main")


class Redactor:
    """Redacts values, and remembers which were secret: these are redacted at every later place, under any name.

    With `remembers=False` only the number of its digests is bounded.
    """

    def __init__(self, remembers: bool = True) -> None:
        self._remembers = remembers
        self._known: dict[str, None] = {}
        self._marked: set[int] = set()

    def learn(self, secrets: Iterable[str]) -> None:
        """Remember secrets. Short ones and common words are not, they would be found everywhere."""
        for each in secrets if self._remembers else ():
            text = each.strip().strip("\"'")
            is_common = (
                text.casefold() in _COMMON or text.casefold() in _NO_SECRET or (text.isdecimal() and len(text) < 6)
            )
            is_name = _REFERENCE.fullmatch(text) or _NUMBER.fullmatch(text) or _MARK.search(text)
            if 4 <= len(text) <= 4096 and not is_common and not is_name and len(self._known) < _MAX_KNOWN:
                self._known[text] = None

    def learn_options(self, words: Sequence[str]) -> None:
        """Remember the values of the secret options of a command line, and the names that they use."""
        self.learn(words[at][slice(*span)] for at, span in secret_words(words))

    def _mark(self, secret: str) -> str:
        key = hash(secret)
        if key not in self._marked and len(self._marked) >= _MAX_DIGESTS:
            return REDACTED
        self._marked.add(key)
        return mark(secret)

    def variable(self, name: str, value: str) -> str:
        """Return the value of an environment variable without secrets."""
        if name == SALT:  # not even its digest
            return REDACTED
        return str(self.leaf(name, value, strength_of(name)))

    def setting(self, name: str, value: object) -> object:
        """Return the value of a setting without secrets; `name` is a path with dots. Objects and lists are searched."""
        return self._within(name, value, strength_of_path(name), 0)

    def _within(self, name: str, value: object, strength: Strength, depth: int) -> object:
        if not isinstance(value, Mapping | list | tuple) or not value or depth > _MAX_NESTING:
            return self.leaf(name, value, strength)
        found = [
            (key, self._within(str(key), each, inner, depth + 1)) for key, each, inner in self.members(value, strength)
        ]
        return (
            {self._key(key): each for key, each in found} if isinstance(value, Mapping) else [each for _, each in found]
        )

    def _key(self, key: object) -> object:
        return self.text(key) if isinstance(key, str) and any(_shape_spans(key)) else key

    def members(self, value: object, strength: Strength) -> list[tuple[object, object, Strength]]:
        """Return the members of an object or a list: key, value, and how certainly it is secret by the names above.

        An entry `{name: HF_TOKEN, value: ...}` has the name that it states; in a list of words options count.
        """
        if isinstance(value, Mapping):
            stated = next((value[key] for key in ("name", "key", "variable") if isinstance(value.get(key), str)), "")
            found = []
            for key, each in value.items():
                own = strength_of(str(key)) if not _is_stated(str(key), value) else Strength.NONE
                if str(key).lower() in ("value", "val", "default", "content", "data") and stated:
                    own = max(own, strength_of_path(stated))
                found.append((key, each, max(strength, own)))
            return found
        held = list(value) if isinstance(value, list | tuple) else []
        if not strength and held and all(isinstance(each, str) for each in held):
            held = self.words(held)
            if len(held) == 2 and strength_of_path(held[0]) and not held[0].startswith("-"):
                return [(0, held[0], strength), (1, held[1], strength_of_path(held[0]))]
        return [(at, each, strength) for at, each in enumerate(held)]

    def words(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command line without the values of secret options."""
        made = list(words)
        for at, (begin, end) in secret_words(made):
            secret = made[at][begin:end]
            if not _REFERENCE.fullmatch(secret) and not _is_marks(secret):
                self.learn([secret])
                made[at] = f"{made[at][:begin]}{self._mark(secret)}{made[at][end:]}"
        return made

    def leaf(self, name: str, value: object, strength: Strength) -> object:
        """Return a value that holds no others without secrets; `strength` is that of its name and those above."""
        if strength and not _is_harmless(value, strength, name.rpartition(".")[2]):
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            self.learn([text])
            return self._mark(text)
        return self.text(value, name) if isinstance(value, str) else value

    def text(self, text: str, name: str = "") -> str:
        """Return a text without secrets; `name`, if it has one, explains hashes."""
        if len(text) > _MAX_LENGTH:
            return self._mark(text)
        if text[:1] in "{[" and text[-1:] in "}]":
            try:
                held = json.loads(text)
            except (ValueError, RecursionError):
                held = None
            if isinstance(held, dict | list):
                made = self._within(name, held, Strength.NONE, 0)
                return text if made == held else json.dumps(made, ensure_ascii=False)
        return self._replaced(text, [*_spans(text, name), *self._known_spans(text)])

    def source(self, line: str) -> str:
        """Return a line of Python source without secrets: the strings after a secret name, not other names."""
        line = line[:_MAX_LINE]
        spans = [*_shape_spans(line), *_url_spans(line), *_random_spans(line), *self._known_spans(line)]
        strings = [(found.start("string") + 1, found.end("string") - 1) for found in _STRING.finditer(line)]
        code, _, comment = line.partition(" #")
        if line.lstrip().startswith("#"):
            code, comment = "", line
        if comment:
            at = len(line) - len(comment)
            spans += [(at + a, at + b) for a, b in _spans(comment)]
        begins = [
            (found.end(), strength_of_path(found["name"]))
            for found in _ASSIGNMENT.finditer(code)
            if found["sign"].strip() in ("=", ":", ":=", "+=")
            and strength_of_path(found["name"])
            and not found["quote"]
        ]
        begins += [
            (end + 1, strength_of_path(line[begin:end]))
            for begin, end in strings
            if re.fullmatch(_NAME, line[begin:end].lstrip("-")) and strength_of_path(line[begin:end])
        ]
        for begin, end in strings:
            inner = line[begin:end]
            at, strength = max((each for each in begins if each[0] < begin), default=(0, Strength.NONE))
            # `key = batch["x"]`: of a likely name only what is assigned itself, not an argument of a call.
            is_argument = strength is Strength.LIKELY and re.search(
                r"\w\s*[\[(]", _STRING.sub("", line[at : begin - 1])
            )
            if strength and not is_argument:
                if inner and not _is_harmless(inner, Strength.LIKELY, ""):
                    spans.append((begin, end))
            elif re.search(r"[\s=:]", inner):
                spans += [(begin + a, begin + b) for a, b in _spans(inner, depth=1)]
        for found in re.finditer(r"\b(?P<name>\w{1,100})\s*=\s*(?P<number>\d{4,})\b", code):
            if strength_of(found["name"]) is Strength.CERTAIN:
                spans.append(found.span("number"))
        return self._replaced(line, spans)

    def _known_spans(self, text: str) -> Iterator[Span]:
        if not self._known:
            return
        if text.strip() in self._known:
            yield 0, len(text)
        for found in re.finditer(r"[^\s\"'=,]+", text):
            if found[0] in self._known:
                yield found.span()
        if len(self._known) <= _MAX_SEARCHED:
            for known in self._known:
                if len(known) >= 8 and (at := text.find(known)) >= 0:
                    while at >= 0:
                        yield at, at + len(known)
                        at = text.find(known, at + len(known))

    def _replaced(self, text: str, spans: Iterable[Span]) -> str:
        """Return the text with marks in the place of secrets; marks that it holds already remain."""
        old = [found.span() for found in _MARK.finditer(text)]
        merged: list[list[int]] = []
        for begin, end in sorted(spans):
            if begin >= end or any(a <= begin and end <= b for a, b in old):
                continue
            if _is_marks(text[begin:end].strip(" \"',;)}]")):
                continue
            if merged and begin < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        parts, done = [], 0
        for begin, end in merged:
            secret = text[begin:end]
            self.learn([secret])
            parts += [text[done:begin], self._mark(secret)]
            done = end
        return "".join([*parts, text[done:]])


def _is_stated(key: str, entry: Mapping[object, object]) -> bool:
    """Return whether a member is the name that an entry `{key: NAME, value: ...}` states."""
    return key.lower() == "key" and any(str(other).lower() in ("value", "val") for other in entry)


_shared = Redactor(remembers=False)


def variable(name: str, value: str) -> str:
    """Return the value of an environment variable without secrets."""
    return _shared.variable(name, value)


def setting(name: str, value: object) -> object:
    """Return the value of a setting without secrets."""
    return _shared.setting(name, value)


@lru_cache(4096)
def text(value: str) -> str:
    """Return a text without secrets."""
    return _shared.text(value)


def traceback(written: str) -> str:
    """Return the text of a traceback without secrets: in its lines of source code, and in messages."""
    lines = written.splitlines(keepends=True)
    return "".join(
        line
        if line.lstrip().startswith("File ")
        else f"    {source(line.strip())}\n"
        if line.startswith("    ")
        else text(line)
        for line in lines
    )


@lru_cache(4096)
def source(line: str) -> str:
    """Return a line of source code without secrets."""
    return _shared.source(line)
