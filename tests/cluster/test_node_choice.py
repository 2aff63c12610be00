"""Which node of a cluster gets the next process of an extension, and which process should move.

`choose_node` and `find_move` get the nodes, the settings of the extension's pool, the number of its
own processes on each node (`counts`), that of all extensions, the ids of nodes that were just lost
(`suspects`), and the name of the extension. Here that name is "x".
"""

import pytest

from exthost.cluster.node_choice import choose_node, find_move
from exthost.cluster.placer import Node
from exthost.errors import SpawnFailed
from exthost.model.spec import Pool

A = Node(id="a", name="a", resources={"CPU": 4}, free={"CPU": 4}, labels={"zone": "1"})
B = Node(id="b", name="b", resources={"CPU": 2}, free={"CPU": 2}, labels={"zone": "2"})
FULL = Node(id="full", name="full", resources={"CPU": 8}, free={"CPU": 0})
HEAD = Node(id="head", name="head", resources={"GPU": 4}, free={"GPU": 4})
UNKNOWN = Node(id="unknown", name="unknown", resources=None, labels={"zone": "1"})
DRAINING = Node(id="draining", name="draining", is_draining=True)


@pytest.mark.parametrize(
    ("nodes", "pool", "counts", "suspects", "expected"),
    [
        ([A, B], Pool(), {}, [], "a"),
        ([A, B], Pool(), {"a": 1}, [], "b"),
        ([A, B], Pool(spread=False), {"b": 1}, [], "b"),
        ([A, B], Pool(spread=False, per_node=1), {"b": 1}, [], "a"),
        # A node that was just lost is used only if there is no other.
        ([A, B], Pool(), {"b": 5}, ["a"], "b"),
        ([A], Pool(), {}, ["a"], "a"),
        ([DRAINING, B], Pool(), {"b": 5}, [], "b"),
        ([A, B], Pool(resources=(("CPU", 3),)), {"a": 5}, [], "a"),
        # Nodes with free resources have precedence.
        ([FULL, B], Pool(resources=(("CPU", 1),)), {"b": 5}, [], "b"),
        # A lost node may be back, while a process would wait on a full node.
        ([FULL, A], Pool(resources=(("CPU", 1),)), {"a": 5}, ["a"], "a"),
        ([A, B], Pool(labels=(("zone", "2"),)), {"b": 5}, [], "b"),
    ],
)
def test_the_expected_node_is_chosen(
    nodes: list[Node], pool: Pool, counts: dict[str, int], suspects: list[str], expected: str
) -> None:
    assert choose_node(nodes, pool, counts, {}, suspects, "x").id == expected


def test_processes_of_other_extensions_count_too() -> None:
    assert choose_node([A, B], Pool(), {}, {"a": 1}, [], "x").id == "b"
    assert choose_node([A, B], Pool(spread=False), {}, {"b": 1}, [], "x").id == "b"
    # Its own processes have precedence.
    assert choose_node([A, B], Pool(), {"b": 1}, {"a": 7, "b": 1}, [], "x").id == "a"


def test_a_node_without_processors_gets_no_process() -> None:
    head = Node(id="head", name="head", resources={"memory": 10}, free={"memory": 10})
    assert choose_node([head, B], Pool(), {"b": 9}, {"b": 9}, [], "x").id == "b"
    with pytest.raises(SpawnFailed) as caught:
        choose_node([head], Pool(), {}, {}, [], "x")
    assert caught.value.code == "X0425"


@pytest.mark.parametrize(
    ("nodes", "pool", "code", "message"),
    [
        ([], Pool(), "X0421", "the cluster has no node"),
        ([DRAINING], Pool(per_node=1), "X0421", "each of its 1 nodes is being drained"),
        ([A], Pool(per_node=1), "X0421", "each of the 1 suitable nodes has 1 (pool.per_node)"),
        (
            [A, B],
            Pool(per_node=1, labels=(("zone", "1"),)),
            "X0421",
            "each of the 1 suitable nodes has 1 (pool.per_node)",
        ),
        ([HEAD], Pool(), "X0425", "there is head, which has no CPUs and runs nothing"),
        ([HEAD], Pool(resources=(("GPU", 1),)), "X0425", "which has no CPUs and runs nothing"),
        ([UNKNOWN], Pool(labels=(("zone", "9"),)), "X0425", "there is unknown with zone=1"),
        (
            [UNKNOWN],
            Pool(resources=(("GPU", 1),), labels=(("zone", "9"),)),
            "X0425",
            "there is unknown with zone=1 and unknown resources",
        ),
        ([A, B], Pool(resources=(("CPU", 5),)), "X0425", "asked for CPU 5; there is a with CPU 4"),
        ([A], Pool(resources=(("tape", 1),)), "X0425", "a with tape 0"),
        ([A], Pool(labels=(("zone", "9"),)), "X0425", "asked for zone=9; there is a with zone=1"),
        # Ray gives each node a label with its id, for which the pool did not ask.
        ([A], Pool(labels=(("rack", "9"),)), "X0425", "asked for rack=9; there is a with nothing"),
    ],
)
def test_no_node_is_an_error_that_names_the_request(
    nodes: list[Node], pool: Pool, code: str, message: str
) -> None:
    with pytest.raises(SpawnFailed) as caught:
        choose_node(nodes, pool, {"a": 1}, {}, [], "x")
    assert caught.value.code == code
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("nodes", "pool", "counts", "suspects", "expected"),
    [
        ([A, B], Pool(), {"a": 2}, [], ("a", "b")),
        ([A, B], Pool(), {"a": 3, "b": 1}, [], ("a", "b")),
        # A difference of one cannot be improved.
        ([A, B], Pool(), {"a": 2, "b": 1}, [], None),
        ([A, B], Pool(spread=False), {"a": 2}, [], None),
        # A node that was just lost may be lost again.
        ([A, B], Pool(), {"a": 2}, ["b"], None),
        ([A, DRAINING], Pool(), {"a": 2}, [], None),
        ([A, FULL], Pool(resources=(("CPU", 1),)), {"a": 2}, [], None),
        ([A, B], Pool(labels=(("zone", "1"),)), {"a": 2}, [], None),
        ([], Pool(), {}, [], None),
    ],
)
def test_a_process_moves_only_to_a_node_with_fewer_processes_and_room(
    nodes: list[Node],
    pool: Pool,
    counts: dict[str, int],
    suspects: list[str],
    expected: tuple[str, str] | None,
) -> None:
    move = find_move(nodes, pool, counts, {}, suspects, "x")
    assert (move and (move[0], move[1].id)) == expected
