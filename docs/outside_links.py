"""A hook of MkDocs: links to files of the repository that are no pages (examples, samples) become their paths."""

import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown, page, **_):
    """The text of a page, where a link that leaves `docs` is its words and the path from the top of the repository."""
    here = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def path_of(match):
        path = posixpath.normpath(posixpath.join(here, match[2]))
        return match[0] if path.startswith("docs/") else f"{match[1]} (`{path}`)"

    return LINK.sub(path_of, markdown)
