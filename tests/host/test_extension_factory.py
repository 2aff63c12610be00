"""The code of the extensions is read once while a host checks all of them in one step."""

import asyncio

import exthost


async def test_the_code_cache_lasts_for_one_iteration_of_the_loop() -> None:
    factory = exthost.Host()._factory
    cache = factory._code_cache()
    assert cache is not None and factory._code_cache() is cache
    await asyncio.sleep(0)
    assert factory._code_cache() is not cache
