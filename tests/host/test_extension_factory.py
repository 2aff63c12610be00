"""A cache for the code of extensions, which is read when a host checks them before their start.

A host checks all its extensions in one iteration of the event loop. Many of them have code in
common, which is read once. Later the files may have changed, so the cache must not last longer.
"""

import asyncio

import exthost


async def test_the_code_cache_lasts_for_one_iteration_of_the_loop() -> None:
    factory = exthost.Host()._factory
    cache = factory._code_cache()
    assert cache is not None and factory._code_cache() is cache
    await asyncio.sleep(0)
    assert factory._code_cache() is not cache
