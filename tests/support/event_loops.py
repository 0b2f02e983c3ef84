"""Coroutines in tests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def run_in_thread(work):
    """Run a coroutine where there is no event loop: a test with a cluster leaves one in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
