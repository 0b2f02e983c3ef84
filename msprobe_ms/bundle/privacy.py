"""Replace texts of dumps that tell about people, machines and secrets; equal texts become equal texts on both sides.

Secrets are replaced by `msprobe.base.redaction`, as in packs of `config_check`. In addition, folders, users, hosts and,
on request, arguments become numbers. Everything is read before anything is replaced: a text that is secret in the last
dump is secret in the first one, and a number does not depend on the place where a text is found first.
"""

import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msprobe.base.redaction import Redactor, is_redacted
from msprobe.base.secret_rules import words

_POSIX = r"(?<![\w/.<>~-])/(?:[^\s/'\"`,:;|<>()\[\]{}*?=]+/)+"
_WINDOWS = r"(?<![\w])[A-Za-z]:[\\/](?:[^\s/\\'\"`,:;|<>()\[\]{}*?=]+[\\/])*"
_FOLDER = re.compile(f"(?P<folder>{_WINDOWS}|{_POSIX})")
_WHOLE_PATH = re.compile(r"(?P<folder>/(?:[^\n/:'\"]+/)+)[^\n/:'\"]*")  # a path with spaces that is the whole text
_HOME = re.compile(r"(?:/(?:home|Users)/|\\Users\\)([^/\\\s:'\",;]+)")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in (?P<function>.*)", re.DOTALL)
_INSTALLED = re.compile(r"^.*/((?:site|dist)-packages/)")
_LIBRARY = re.compile(r"^.*/(python3\.\d+/)")
_FRAMEWORK = re.compile(r"^.*/((?:mindspore/python/mindspore|msprobe_ms)/)")

_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")
_HOST_VARIABLES = ("HOSTNAME", "COMPUTERNAME", "MASTER_ADDR")
_SHORTEST_NAME = 3
_NOT_A_NAME = words(
    "root user users home admin test tests guest shared public data work ubuntu localhost linux python torch mindspore "
    "model train main"
)
"""Names of accounts and machines that tell nothing, and that would be found in many texts."""

OPTION_WORDS = words(
    "none mean sum batchmean mean_batch prod max min amax amin avg tanh relu relu6 gelu silu swish elu selu sigmoid "
    "hsigmoid hswish softmax leaky_relu linear constant reflect replicate circular symmetric zeros border reflection "
    "nearest nearest-exact bilinear bicubic trilinear area cubic same valid pad full left right floor trunc ceil round "
    "fro nuc inf ij xy fan_in fan_out lower upper reduced complete values sorted forward backward ortho "
    "NCHW NHWC NCDHW NDHWC BSH BNSD SBH BSND TND BSD ND NZ L U N T C"
)
"""Values of options that PyTorch and MindSpore define; they decide how a call is executed."""


class _Redactor(Redactor):
    """A redactor that can stop learning, so that equal texts are replaced alike from then on."""

    is_frozen = False

    def learn(self, secrets: Iterable[str]) -> None:
        if not self.is_frozen:
            super().learn(secrets)


class Privacy:
    """Replaces texts. First `see` and `see_frame` each of them, then `settle`, then `text`, `argument` and `frame`.

    `environment` are variables of the environment: values of secret ones are recognized everywhere, and they name
    the user and the machine. `counts` tells how many different texts of a kind were replaced.
    """

    def __init__(self, environment: Mapping[str, str], anonymous: bool = False) -> None:
        self.anonymous = anonymous
        self.counts: Counter[str] = Counter()
        self._redactor = _Redactor()
        for name, value in sorted(environment.items()):
            self._redactor.variable(name, value)
        self._seen: dict[str, None] = {}
        self._arguments: dict[str, None] = {}
        self._files: dict[str, dict[str, None]] = {}
        self._users = {environment[name] for name in _USER_VARIABLES if environment.get(name)}
        hosts = {platform.node(), *(environment.get(name, "") for name in _HOST_VARIABLES)}
        self._hosts = hosts | {host.partition(".")[0] for host in hosts if not _ADDRESS.fullmatch(host)}
        self._runs: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._numbers: dict[str, str] = {}  # an argument -> its replacement
        self._names: dict[str, str] = {}
        self._name: re.Pattern[str] | None = None
        self._places: dict[str, str] = {}  # a file of a stack -> its replacement
        self._texts: dict[str, str] = {}
        self._keys: dict[str, str] = {}  # a key of a dict among arguments -> its replacement, where that differs

    def see(self, text: str) -> str:
        """Take note of a text; return it as it is."""
        self._seen[text] = None
        return text

    def see_argument(self, text: str) -> str:
        """Take note of an argument of a call; return it as it is."""
        self._arguments[text] = None
        return self.see(text)

    def see_frame(self, frame: str, side: str) -> str:
        """Take note of a frame of a call stack of a side; return it as it is."""
        place, _, code = frame.partition("\n")
        if found := _FRAME.match(place):
            self._files.setdefault(side, {})[found["file"]] = None
            self._users.update(_HOME.findall(found["file"]))
            self._redactor.source(code)
        else:
            self.see(frame)
        return frame

    def see_setting(self, name: str, value: object) -> None:
        """Take note of a setting."""
        self._redactor.setting(name, value)
        _strings(value, self.see)

    def settle(self) -> None:
        """Decide about all texts that were seen; nothing is learned afterwards."""
        texts = sorted(self._seen)
        for text in texts:
            self._redactor.text(text)
        self._redactor.is_frozen = True
        for text in texts:
            self._users.update(_HOME.findall(text))
        redacted = [self._redactor.text(text) for text in texts]
        for folder in sorted({folder for text in redacted for folder in _folders_in(text)}):
            self._number_of(folder)
        for kind, names in (("user", self._users), ("host", self._hosts)):
            kept = sorted(
                {n for n in names if len(n) >= _SHORTEST_NAME and n.lower() not in _NOT_A_NAME and not n.isdecimal()}
            )
            for name in kept:
                self._names.setdefault(name, f"<{kind}{sum(kind in other for other in self._names.values()) + 1}>")
        if self._names:
            longest_first = sorted(map(re.escape, self._names), key=len, reverse=True)
            self._name = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(longest_first)})(?![A-Za-z0-9])")
        for address in sorted({each for text in redacted for each in _ADDRESS.findall(text)}):
            self._host_of(address)
        if self.anonymous:
            for text in sorted(self._arguments):
                if text not in OPTION_WORDS:
                    self._numbers[text] = f"<text{len(self._numbers) + 1}>"
        for side, files in sorted(self._files.items()):
            self._place_files(side, list(files))

    def text(self, text: str) -> str:
        """Return a text without secrets, folders, users and hosts."""
        if (made := self._texts.get(text)) is None:
            self.counts["secrets"] += self._redactor.text(text) != text
            made = self._texts[text] = self._replaced(text)
        return made

    def _replaced(self, text: str) -> str:
        return self._without_names(self._without_folders(self._redactor.text(text)))

    def argument(self, text: str) -> str:
        """Return an argument of a call, which is a number if arguments are anonymous."""
        if (number := self._numbers.get(text)) is not None:
            self.counts["texts"] = len(self._numbers)
            return number
        return self.text(text)

    def key(self, key: str) -> str:
        """Return a key of a dict among the arguments of a call, which is a part of names of records."""
        made = self.text(key)
        if made != key:
            self._keys[key] = made
        return made

    def name(self, name: str) -> str:
        """Return the name of a record with the keys as they are packed."""
        for key, made in self._keys.items():
            name = name.replace(f".{key}", f".{made}")
        return name

    def setting(self, name: str, value: object) -> object:
        """Return a setting without secrets, folders, users and hosts."""
        redacted = self._redactor.setting(name, value)
        if is_redacted(redacted) and redacted != value:
            self.counts["secrets"] += 1
        return _strings(redacted, self._setting_text)

    def _setting_text(self, text: str) -> str:
        """Return a text of a setting. A path there is mostly a folder, whose own name goes, too."""
        if _WHOLE_PATH.fullmatch(f"{text}/"):
            return self._number_of(f"{text.rstrip('/')}/")
        return self.text(text)

    def run(self, text: str) -> str:
        """Return the number of a run instead of its id."""
        return self._runs.setdefault(text, f"run{len(self._runs) + 1}")

    def frame(self, frame: str, side: str) -> str:
        """Return a frame of a call stack with a short path, and without what is secret in its line of code."""
        place, end, code = frame.partition("\n")
        if not (found := _FRAME.match(place)):
            return self.text(frame)
        file = self._places.get(f"{side}:{found['file']}", found["file"])
        if self.anonymous:
            code = " <code>" if code else ""
        else:
            code = self._without_names(self._without_folders(self._redactor.source(code)))
        return f"File {file}, line {found['line']}, in {self._without_names(found['function'])}{end}{code}"

    def traceback(self, written: str) -> str:
        """Return the text of a traceback."""
        return "\n".join(self.output(line) for line in written.splitlines())

    def output(self, text: str, roots: Mapping[str, str] | None = None) -> str:
        """Return a text of the comparison's output; `roots` are paths that have a name of their own."""
        for path, word in sorted((roots or {}).items(), key=lambda item: -len(item[0])):
            text = text.replace(path, word)
        text = self.name(text)
        if "/" in text or "\\" in text:
            for key, place in self._places.items():
                text = text.replace(key.partition(":")[2], place)
        return self._replaced(text)  # not remembered: a table has millions

    def _place_files(self, side: str, files: list[str]) -> None:
        """Shorten the paths of a side's stacks."""
        own = [file for file in map(_posix, files) if file.startswith("/") and not _known_place(file)]
        common = os.path.commonpath([os.path.dirname(file) for file in own]) if own else ""
        for file in files:
            path = _posix(file)
            if known := _known_place(path):
                short = known
            elif path.startswith("/"):
                short = os.path.relpath(path, common)
            else:
                short = path
            self._places[f"{side}:{file}"] = self._without_names(self._without_folders(short))
            self.counts["files"] += short != file

    def _number_of(self, folder: str) -> str:
        if folder not in self._folders:
            self._folders[folder] = f"<dir{len(self._folders) + 1}>/"
            self.counts["folders"] += 1
        return self._folders[folder]

    def _host_of(self, host: str) -> str:
        if host not in self._names:
            self._names[host] = f"<host{sum('host' in other for other in self._names.values()) + 1}>"
        return self._names[host]

    def _without_folders(self, text: str) -> str:
        if whole := _WHOLE_PATH.fullmatch(text):
            return self._number_of(whole["folder"]) + text[whole.end("folder") :]
        return _FOLDER.sub(lambda found: self._number_of(found["folder"]), text)

    def _without_names(self, text: str) -> str:
        made = _ADDRESS.sub(lambda found: self._host_of(found[0]), text)
        if self._name is not None:
            made = self._name.sub(lambda found: self._names[found[0]], made)
        self.counts["names"] += made != text
        return made


def _strings(value: object, change: Callable[[str], str]) -> object:
    """Return a value of JSON with each text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key) if isinstance(key, str) else key: _strings(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strings(each, change) for each in value]
    return value


def _folders_in(text: str) -> list[str]:
    if whole := _WHOLE_PATH.fullmatch(text):
        return [whole["folder"]]
    return [found["folder"] for found in _FOLDER.finditer(text)]


def _posix(file: str) -> str:
    made = file.replace("\\", "/")
    return made[2:] if re.match(r"[A-Za-z]:/", made) else made


def _known_place(path: str) -> str:
    """Return the path of a file of a package, of Python or of a framework's sources; empty for any other.

    The user's lines are told from those of frameworks by these paths, with a slash before them.
    """
    if path.startswith("<"):
        return path
    for pattern in (_INSTALLED, _FRAMEWORK, _LIBRARY):
        if found := pattern.match(path):
            return f".../{found[1]}{path[found.end() :]}"
    return ""
