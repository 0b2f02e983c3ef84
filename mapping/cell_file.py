"""The user's mapping of cells (`-cm`): path and class of one side, path and class of the other.

```yaml
fc1.Dense: fc1.Linear
backbone.embed.VocabEmbedding: language_model.embedding.word_embeddings.VocabParallelEmbedding
```
"""

from pathlib import Path

from msprobe.base.errors import UsageError

from .yaml_file import load, texts

_EXAMPLE = "fc1.Dense: fc1.Linear"


def read_cells(path: Path) -> dict[str, str]:
    """The rules of a file, the target's cell first; UsageError for what cannot be meant."""
    rules = texts(load(path, "the mapping of cells"), str(path), _EXAMPLE)
    found: dict[str, str] = {}
    for ours, theirs in rules.items():
        bare = bare_cell(ours), bare_cell(theirs)
        if bare[0] in found:
            raise UsageError(f"{path}: {bare[0]} stands twice, with and without `Cell.` before it; remove one")
        found[bare[0]] = bare[1]
    return found


def bare_cell(stem: str) -> str:
    """Path and class, without the `Cell.` or `Module.` of a whole stem."""
    first, _, rest = stem.partition(".")
    return rest if first in ("Cell", "Module") and rest else stem
