"""Check a zip file of unknown origin before anything of it is read: names, kinds and sizes of its entries."""

import re
import stat
import zipfile
from dataclasses import dataclass

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """The largest archive that is read: bytes of one entry and of all entries unpacked, the number of entries, and how
    many times its compressed size an entry of more than 1 MiB may unpack to."""

    entry: int
    total: int
    entries: int
    ratio: int


def suspicious(archive: zipfile.ZipFile, limits: ZipLimits) -> str:
    """Return why an archive is not read; empty if nothing is wrong with it."""
    entries = archive.infolist()
    if len(entries) > limits.entries:
        return f"has {len(entries)} entries"
    seen: set[str] = set()
    total = 0
    for entry in entries:
        name = entry.filename
        if name in seen:
            return f"has two entries {name!r}"
        seen.add(name)
        if problem := _odd_name(name) or _odd_entry(entry, limits):
            return f"entry {name!r} {problem}"
        total += entry.file_size
    return f"unpacks to {total >> 20} MiB" if total > limits.total else ""


def _odd_name(name: str) -> str:
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or "\\" in name or "\0" in name:
        return "has an absolute path"
    return "leads out of the archive" if ".." in name.split("/") else ""


def _odd_entry(entry: zipfile.ZipInfo, limits: ZipLimits) -> str:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.compress_type not in _METHODS:
        return "uses an unsupported compression method"
    if entry.file_size > limits.entry:
        return f"unpacks to {entry.file_size >> 20} MiB"
    if entry.file_size > 1 << 20 and entry.file_size > limits.ratio * max(entry.compress_size, 1):
        return f"unpacks to {entry.file_size // max(entry.compress_size, 1)} times its size"
    return ""
