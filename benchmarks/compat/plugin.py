"""TensorBoard's plugin `tb-graph-ascend` opens what `msprobe graph-visualize` wrote, in a browser without a window.

    python benchmarks/compat/plugin.py [--environments DIR] [--chromium PATH] [--screenshots DIR]

The plugin is installed by pip into an environment of its own. Exit code 0: the page showed everything that
plugin_page.py asks of it, 1: something was missing, and what.
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from other_tool import ENVIRONMENTS, clean_environment

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "compare" / "graph_visualize"))

import odd_dumps  # noqa: E402 - the line above says where it is

SAMPLES = ROOT / "tests" / "samples" / "26.2.0" / "dumps"
NEEDS = ("tb-graph-ascend==8.3.2", "tensorboard==2.21.0", "playwright")
LISTING = "data/plugins_listing"
START = 60  # seconds


def install(environments: Path) -> Path:
    """The folder of an environment that has the plugin."""
    folder = environments / "plugin"
    if not (folder / "bin" / "tensorboard").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *NEEDS]
        subprocess.run(pip, env=clean_environment(), check=True)
    return folder


def draw(folder: Path) -> None:
    """The files that the page is asked about: two graphs compared, two ranks with levels, a structure alone."""

    def rank(name: str) -> str:
        (found,) = (SAMPLES / name / "step0").iterdir()
        return str(found)

    ranks = odd_dumps.ranks(folder / "dumps" / "ranks"), odd_dumps.ranks(folder / "dumps" / "changed", changed=True)
    overflow = odd_dumps.overflow(folder / "dumps" / "overflow")
    cases = {
        "compared": ("-tp", rank("ms_mix_stat"), "-gp", rank("msp_mix_stat")),
        "overflow": ("-tp", str(overflow), "-oc"),
        "ranks": ("-tp", str(ranks[0]), "-gp", str(ranks[1])),
        "structure": ("-tp", rank("task_structure_mix")),
    }
    msprobe = str(Path(sys.executable).parent / "msprobe")
    for name, words in cases.items():
        command = [msprobe, "graph_visualize", *words, "-o", str(folder / "logs" / name)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def served(environment: Path, logs: Path) -> Iterator[str]:
    """TensorBoard on a free port; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(environment / "bin" / "tensorboard"),
        "--logdir",
        str(logs),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(START * 2):
                with suppress(OSError), urllib.request.urlopen(f"{address}/{LISTING}"):
                    break
                time.sleep(0.5)
            yield address
        finally:
            server.terminate()


def main() -> int:
    """Draw, serve, look; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--screenshots", type=Path)
    args = parser.parse_args()
    environment = install(args.environments.absolute())
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
        with served(environment, Path(folder) / "logs") as address:
            look = [
                str(environment / "bin" / "python"),
                str(Path(__file__).with_name("plugin_page.py")),
                address,
                args.chromium,
            ]
            if args.screenshots:
                args.screenshots.mkdir(parents=True, exist_ok=True)
                look.append(str(args.screenshots.absolute()))
            return subprocess.run(look, env=clean_environment()).returncode


if __name__ == "__main__":
    sys.exit(main())
