"""The number of processes of a pool, from its config: `pool = { min = 2, max = 4 }`."""

import pytest

from exthost.extension.policy import PoolSize, effective_pool_size
from exthost.model.spec import Pool, Spec


@pytest.mark.parametrize(
    # PoolSize: the number at the start, the maximum, and the number that an idle extension keeps
    ("least", "most", "size"),
    [
        (None, None, PoolSize(1, 1, 0)),
        (2, None, PoolSize(2, 2, 2)),
        (None, 3, PoolSize(1, 3, 0)),
        (0, 3, PoolSize(1, 3, 0)),
        (2, 4, PoolSize(2, 4, 2)),
    ],
)
def test_a_pool_has_one_process_unless_more_are_configured(
    least: int | None, most: int | None, size: PoolSize
) -> None:
    spec = Spec(id="a", argv=("x",), pool=Pool(min=least, max=most))
    assert effective_pool_size(spec) == size
