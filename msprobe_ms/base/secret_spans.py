"""Finds secrets in texts: by shape, by randomness, and as values of options, assignments and credentials."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log2

from . import secret_rules as rules
from .secret_names import Strength, strength_of, strength_of_path, words_of

MARK = re.compile(r"<redacted(?::(?P<digest>[0-9a-f]{5})(?::(?P<salt>[0-9a-f]{4}))?)?>|<not recorded>")
"""The mark of a redacted secret; the last form is of packs of earlier versions."""

Span = tuple[int, int]


NO_SECRET = rules.words(
    "none null nil true false yes no on off auto default disabled enabled disable enable required optional "
    "unset empty never always"
)
NUMBER = re.compile(
    r"[-+]?(?:\d{1,5}|\d*\.\d+|\d+\.|\d+(?:\.\d*)?e[-+]?\d{1,3}|\d{1,6}(?:\.\d+)?\s?[kmgtb%]i?b?|inf|nan)", re.I
)
_NUMBERS = re.compile(r"[\[(](?:\s*-?\d{1,5}(?:\.\d+)?\s*,?)*[\])]?")
REFERENCE = re.compile(
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
    """Return the irregularity of a word: among adjacent pairs with a letter, the share of rare pairs of letters and of
    changes between letters and digits; 0 without such pairs.

    98 % of words of 20 random letters and digits are above 0.5. None of 331 names with at least 14 letters and digits
    in the installed files of PyTorch and MindSpore is.
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
    """Return whether a word of at least 16 letters and digits is too irregular to consist of names and numbers."""
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
    """Return the Shannon entropy of a text in bits per character; 0 for an empty text."""
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def is_harmless(value: object, strength: Strength, name: str) -> bool:
    """Return whether a value cannot be a secret although its name, or a name above it, is secret."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return strength is not Strength.CERTAIN and (isinstance(value, float) or abs(value) < 100_000)
    if not isinstance(value, str):
        return not value
    text = value.strip()
    if not text or text.casefold() in NO_SECRET or REFERENCE.fullmatch(text) or is_mark(text):
        return True
    words = words_of(name)
    if words and words[-1] in rules.LOCATIONS and _PATH.fullmatch(text) and not any(_random_spans(text, name)):
        return True
    if name.casefold() in ("pwd", "oldpwd") and text.startswith("/"):  # the working directory in a shell
        return True
    if {"token", "tokens"} & {*words} and _SPECIAL_TOKEN.fullmatch(value):
        return True
    if strength is Strength.CERTAIN:
        return False
    return bool(
        NUMBER.fullmatch(text)
        or _NUMBERS.fullmatch(text)
        or _SPECIAL_TOKEN.fullmatch(value)
        or ({"license", "licence"} & {*words} and rules.LICENSES.fullmatch(text))
    )


def is_mark(text: str) -> bool:
    return MARK.fullmatch(text) is not None


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


def spans(text: str, name: str = "", depth: int = 0) -> Iterator[Span]:
    """Yield the spans of secrets in a text whose name is not secret."""
    yield from shape_spans(text)
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


def shape_spans(text: str) -> Iterator[Span]:
    lower = text.lower()
    for shape in rules.SHAPES:
        for needle in shape.needles:
            if needle in lower:
                yield from (found.span(found.lastgroup or 0) for found in shape.pattern.finditer(text))
                break


def _url_spans(text: str) -> Iterator[Span]:
    """Yield the user and password in URLs, up to the last `@`, because a password may contain any character."""
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
    """Yield random words, except hashes and ids according to their name or their position in a path."""
    is_identity = any(
        word in rules.IDENTITIES or word in rules.LOCATIONS for word in words_of(name.rpartition(".")[2])[-3:]
    )
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
        last = re.split("[_-]", word)[-1] if is_identity else word  # `AllFinite_52f5...`, the name of a kernel
        is_number = _HEX.fullmatch(last) or _UUID.fullmatch(word)
        ahead = text[max(begin - 500, 0) : begin]
        if is_number or word.islower() or word.isupper():
            place = re.search(r"([\w.-]+)[/=:@\s-]+$", ahead)
            is_explained = place and any(each in rules.IDENTITIES for each in words_of(place[1])[-2:])
            is_revision = re.search(r"[\w.-]/[\w.-]+@$", ahead) and is_number  # `actions/checkout@6929...`
            if (
                is_identity
                or is_explained
                or is_revision
                or re.search(r"(?:^|[\s=:])[~.]{0,2}/(?:[\w.@+-]+/)*[\w.-]*$", ahead)
            ):
                continue
        at = text.find(word, begin)
        yield at, at + len(word)


def _inside_quotes(text: str, span: Span) -> Span:
    begin, end = span
    if end - begin >= 2 and text[begin] in "\"'" and text[end - 1] == text[begin]:
        return begin + 1, end - 1
    return span


def _assignment_spans(text: str) -> Iterator[Span]:
    """Yield the values in `name = value`, `name: value`, `"name": value`, `name is value` whose name is secret."""
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
        if is_prose and strength is Strength.LIKELY and value.rstrip(".,;").isalpha():  # `the session is active`
            continue
        if value and not is_harmless(value.rstrip(",;)}]"), strength, found["name"]):
            yield span


def _end_of_value(text: str, begin: int, sign: str) -> int:
    """Return the end of a value: of its quotes, brackets, word, or line."""
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
    """Yield the values of secret options in command lines, and of variables in these values."""
    continued = re.compile(r"(?:\\\r?\n)+")
    tokens = [(found.span(), found[0]) for found in _WORD.finditer(text) if not continued.fullmatch(found[0])]
    if depth < 4:
        for (begin, _), word in tokens:
            inner = word[1:-1]
            if word[:1] in "\"'" and word[-1:] == word[:1] and re.search(r"\s", inner):
                yield from ((begin + 1 + a, begin + 1 + b) for a, b in spans(inner, depth=depth + 1))
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
    """Yield the secrets in the words of a command line: index of the word, and span in the word."""
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
            is_safe = _PASSWORD_SAFE.fullmatch(value) or is_harmless(value, Strength.LIKELY, name)
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
            if not is_harmless(value, strength, name) or REFERENCE.fullmatch(value):
                yield at, (0, len(words[at]))
            at += 1
            if not is_list:
                break


def source_spans(line: str) -> list[Span]:
    """Return the spans of secrets in a line of Python source: string literals after a secret name."""
    found_spans = [*shape_spans(line), *_url_spans(line), *_random_spans(line)]
    strings = [(found.start("string") + 1, found.end("string") - 1) for found in _STRING.finditer(line)]
    code, _, comment = line.partition(" #")
    if line.lstrip().startswith("#"):
        code, comment = "", line
    if comment:
        at = len(line) - len(comment)
        found_spans += [(at + a, at + b) for a, b in spans(comment)]
    begins = [
        (found.end(), strength_of_path(found["name"]))
        for found in _ASSIGNMENT.finditer(code)
        if found["sign"].strip() in ("=", ":", ":=", "+=") and strength_of_path(found["name"]) and not found["quote"]
    ]
    begins += [
        (end + 1, strength_of_path(line[begin:end]))
        for begin, end in strings
        if re.fullmatch(_NAME, line[begin:end].lstrip("-")) and strength_of_path(line[begin:end])
    ]
    for begin, end in strings:
        inner = line[begin:end]
        at, strength = max((each for each in begins if each[0] < begin), default=(0, Strength.NONE))
        # `key = batch["x"]`: for a likely name only a string that is assigned directly, not an argument.
        is_argument = strength is Strength.LIKELY and re.search(r"\w\s*[\[(]", _STRING.sub("", line[at : begin - 1]))
        if strength and not is_argument:
            if inner and not is_harmless(inner, Strength.LIKELY, ""):
                found_spans.append((begin, end))
        elif re.search(r"[\s=:]", inner):
            found_spans += [(begin + a, begin + b) for a, b in spans(inner, depth=1)]
    for found in re.finditer(r"\b(?P<name>\w{1,100})\s*=\s*(?P<number>\d{4,})\b", code):
        if strength_of(found["name"]) is Strength.CERTAIN:
            found_spans.append(found.span("number"))
    return found_spans
