"""The number of processes that a pool starts again after processes were lost.

The processes of a pool may run on the nodes of a cluster. If a node is lost, its processes are
replaced together. If processes end by themselves, each replacement is a separate restart.
`request_at` asks for a process at a time; `take_due` returns how many to start now.
"""

from exthost.extension.policy import PoolSize
from exthost.extension.recovery import PoolGrowth

SIZE = PoolSize(at_start=100, max=100, when_idle=100)


def test_processes_of_a_lost_node_are_replaced_together() -> None:
    growth = PoolGrowth(SIZE)
    for _ in range(40):
        growth.request_at(1.0, is_node_lost=True)
    assert growth.take_due(0.5, SIZE.max) == 0
    assert growth.take_due(1.0, SIZE.max) == 40
    assert growth.take_due(2.0, SIZE.max) == 0


def test_processes_that_ended_by_themselves_are_replaced_one_by_one() -> None:
    growth = PoolGrowth(SIZE)
    for _ in range(3):
        growth.request_at(1.0, is_node_lost=False)
    assert [growth.take_due(1.0, SIZE.max) for _ in range(4)] == [1, 1, 1, 0]


def test_one_start_is_tried_while_a_cluster_has_no_room() -> None:
    growth = PoolGrowth(SIZE)
    for _ in range(3):
        growth.request_at(1.0, is_node_lost=True)
    assert growth.take_due(1.0, limit=1) == 1
    assert growth.take_due(1.0, SIZE.max) == 2


def test_a_busy_pool_and_a_lost_process_need_one_new_process() -> None:
    growth = PoolGrowth(SIZE)
    growth.request_at(1.0, is_node_lost=True)
    growth.request()
    assert growth.take_due(1.0, SIZE.max) == 1
    assert growth.take_due(1.0, SIZE.max) == 0
