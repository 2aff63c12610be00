"""The promises of SECURITY.md, and the trials and tests that show each of them.

A trial is a test of the sandbox that runs as root and as an ordinary user (`trials.py`). A key is
the heading of a section with the number of the promise. A value lists modules of `tests/sandbox`,
single trials, and files of tests with a slash in their name. `test_promises.py` compares this table
with SECURITY.md.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.sandbox import (
    calls,
    changes,
    code,
    files,
    host_surface,
    hosts,
    landlock,
    lifetime,
    managers,
    memory,
    network,
    network_names,
    packages,
    pids,
    probes,
    programs,
    refusals,
    resources,
    restarts,
    rights,
    templates,
    tricks,
)
from tests.sandbox.trials import TRIALS, all_trials

ROOT = Path(__file__).parents[2]

Proof = ModuleType | Callable[..., Any] | str

PROMISES: Mapping[str, tuple[Proof, ...]] = {
    "Every extension 1": (lifetime, pids,
        hosts.only_a_plain_lifetime_lets_processes_outlive_a_killed_host,
        hosts.a_loop_that_is_closed_before_its_extension_is_quiet_and_leaves_no_process,
        "tests/faults/test_lifetime.py"),
    "Every extension 2": ("tests/host/test_hidden_secrets.py",
        "tests/launch/test_secret_sources.py", rights.it_has_exactly_three_descriptors,
        rights.a_secret_of_the_host_is_in_no_environment,
        rights.a_secret_by_reference_reaches_its_extension_and_is_shown_nowhere,
        refusals.names_cannot_smuggle_options_in, host_surface.advice_names_no_secret,
        host_surface.no_extension_reads_the_variables_of_a_command_that_uses_the_running_host),
    "Every extension 3": (host_surface, tricks.no_lease_on_a_file_makes_the_host_wait,
        tricks.files_of_a_package_without_end_do_not_block_the_host,
        changes.two_hundred_extensions_misbehave_and_one_is_served,
        "tests/faults/test_floods.py", "tests/faults/test_pipes.py"),
    "Every extension 4": ("tests/extension/test_restart.py", "tests/extension/test_restarting.py",
        "tests/extension/test_many_crashes.py"),
    "Every extension 5": (changes.the_store_of_a_sandboxed_extension_is_full_at_its_limit,
        "tests/host/api/test_store_quota.py"),
    "Every extension 6": (changes, restarts.a_pinned_program_that_is_replaced_is_not_started_again,
        hosts.a_pinned_program_that_is_swapped_during_its_starts_does_not_run,
        hosts.a_pinned_program_that_is_swapped_whenever_it_is_read_does_not_run,
        "tests/launch/test_code_pins.py", "tests/launch/test_integrity.py"),
    "Every extension 7": ("tests/host/test_lock.py", "tests/host/test_lock_dialects.py",
        "tests/config/test_lock_file.py", "tests/launch/test_bytecode.py",
        "tests/launch/test_tree_snapshot.py"),
    "An extension with `permissions` 1": (network, network_names,
        "tests/process/test_network_proxy.py"),
    "An extension with `permissions` 2": (files, packages, managers),
    "An extension with `permissions` 3": (code, restarts, tricks,
        refusals.a_path_swapped_for_a_link_between_load_and_spawn_is_refused),
    "An extension with `permissions` 4": (rights, templates),
    "An extension with `permissions` 5": (
        packages.a_package_is_not_given_the_secrets_that_it_asks_for,
        packages.a_package_gets_no_setting_of_another_by_its_id_and_keys,
        managers.folders_of_the_hosts_variables_are_shown_only_with_the_variable),
    "An extension with `permissions` 6": (calls,),
    "An extension with `permissions` 7": (resources, memory, tricks.page_tables_count_as_memory),
    "An extension with `permissions` 8": (
        rights.its_files_under_a_root_host_belong_to_a_user_of_its_own,
        rights.ids_of_the_same_hash_have_different_users,
        rights.root_is_never_left_to_one_that_may_write,
        rights.a_program_in_a_closed_home_runs_as_another_user_and_shows_nothing_more,
        rights.user_0_of_a_namespace_writes_only_if_it_is_an_ordinary_user_outside,
        rights.root_gives_up_its_uid_where_the_program_can_be_reached_without),
    "An extension in the Landlock sandbox 1": (landlock.landlock_confines_reading_and_writing,),
    "An extension in the Landlock sandbox 2": (
        landlock.landlock_without_network_makes_no_socket,
        landlock.landlock_refuses_a_list_of_hosts),
    "An extension in the Landlock sandbox 3": (
        landlock.landlock_keeps_an_extension_from_the_host_and_its_rights,
        landlock.landlock_is_applied_before_a_library_of_the_extension_is_loaded),
    "An extension in the Landlock sandbox 4": (
        landlock.landlock_refuses_code_in_a_writable_folder,
        landlock.landlock_refuses_a_list_of_hosts,
        landlock.landlock_is_not_replaced_by_nothing_where_the_kernel_lacks_it),
    "A WebAssembly module": ("tests/launch/test_wasm.py",),
    "A remote MCP server": ("tests/faces/bridge/test_bridge.py",
        "tests/faces/bridge/test_remote_lock.py"),
    "An extension on another machine 1": ("tests/cluster/test_encryption.py",),
    "An extension on another machine 2": ("tests/cluster/test_node_listener.py",),
    "An extension on another machine 3": ("tests/cluster/test_ray.py",),
    "An extension on another machine 4": ("tests/cluster/test_node_loss.py",
        "tests/cluster/test_silent_faults.py", "tests/cluster/test_ray.py"),
    "A guard 1": ("tests/host/test_guard.py", "tests/host/test_guarded_calls.py"),
    "A guard 2": ("tests/host/test_refused_guards.py",),
    "A guard 3": ("tests/host/test_refused_guards.py",),
    "A guard 4": ("tests/host/control/test_questions.py",),
    "Rules 1": ("tests/host/test_ruled_calls.py", "tests/faces/gateway/test_search_mode.py"),
    "Rules 2": (
        "tests/faces/gateway/test_confirmations.py",
        "tests/faces/web/test_page_questions.py",
    ),
    "Rules 3": ("tests/host/test_chosen_tools.py",),
    "A promise that cannot be kept is refused": (refusals, probes, hosts),
    "Programs run unchanged within these limits": (programs,),
}  # fmt: skip


def proof_names(proof: Proof) -> Iterator[str]:
    """Yield the names of the trials or tests of a module, a file or a single trial."""
    if isinstance(proof, str):
        body = ast.parse((ROOT / proof).read_text("utf-8")).body
        functions = [
            node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        yield from (node.name for node in functions if node.name.startswith("test_"))
    elif isinstance(proof, ModuleType):
        yield from (name for name, work in all_trials().items() if _is_from(work, proof))
    else:
        assert TRIALS[proof.__name__] is proof
        yield proof.__name__


def _is_from(work: Callable[..., Any], module: ModuleType) -> bool:
    return work.__module__ == module.__name__
