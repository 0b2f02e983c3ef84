"""Messages in other languages, by their English templates (`base/phrase.py`).

A template has the same placeholders in each language. Code that makes a message has the English template; a translation
is looked up when the message is shown.
"""

from .chinese import checks, comparisons, flows

CHINESE: dict[str, str] = {
    **comparisons.MESSAGES,
    **checks.MESSAGES,
    **flows.MESSAGES,
}
