"""Attacks that once succeeded, by id, and the trials and tests that show that they fail now.

A name without a path is a trial (`tests.sandbox.trials`), a test of the sandbox which runs as root
and as an ordinary user. The other names are tests. `test_rows.py` checks that all exist, and the
summary of a test run counts the trials by row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["ROWS", "Row", "count_by_row"]


class Row(NamedTuple):
    """An attack that was possible, and the trials and tests that show that it fails now."""

    was: str
    shown_by: tuple[str, ...]


def _tests(path: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{path}::{name}" for name in names)


ROWS: Mapping[str, Row] = {
    "B1": Row(
        "a package named files that its own sandbox then showed to it",
        (
            "an_argument_of_a_package_shows_no_file_outside",
            "a_link_in_a_package_shows_no_file_outside",
            "a_relative_argument_of_a_package_shows_no_file_outside",
            "a_pth_file_of_a_package_shows_no_folder_outside",
            "the_first_line_of_a_package_shows_no_file_outside",
            "a_variable_of_a_package_shows_no_folder_outside",
            "a_file_that_the_operator_names_is_shown_without_its_folder",
        ),
    ),
    "B2": Row(
        "a running extension changed what its next start was shown",
        (
            "files_that_an_extension_can_write_are_run_by_no_other",
            "a_package_that_an_extension_puts_into_a_search_path_is_not_run",
            "the_config_of_the_host_cannot_be_written_moved_or_replaced",
            "the_state_folder_of_the_host_is_never_granted",
            "its_own_program_in_a_granted_folder_is_protected",
            "a_link_to_its_own_program_refuses_a_writer",
            "a_pinned_program_that_is_replaced_is_not_started_again",
            "a_folder_that_is_put_in_the_place_of_a_granted_one_is_not_shown",
            "a_first_line_that_changes_after_the_admission_shows_nothing_more",
            "a_path_swapped_for_a_link_between_load_and_spawn_is_refused",
            "a_path_replaced_between_the_check_and_the_mount_is_not_shown",
            "a_package_that_changes_at_any_moment_is_judged_before_it_runs",
        ),
    ),
    "code": Row(
        "an extension changed what others, or the host, run in a project that it may write",
        (
            "an_environment_in_a_project_is_protected_from_writers_of_the_project",
            "a_module_of_a_protected_environment_runs_by_its_name",
            "a_script_of_a_protected_environment_runs_by_its_first_line",
            "a_program_on_path_is_protected",
            "a_folder_of_path_that_does_not_exist_refuses_the_later_one",
            "folders_named_by_variables_are_protected",
            "the_working_folder_of_a_module_is_not_granted",
            "the_target_of_an_editable_install_is_protected",
            "a_wrapped_command_is_followed_to_its_program",
            "a_link_in_a_granted_folder_refuses_the_later_one",
            "node_packages_of_a_project_are_protected",
            "node_packages_that_do_not_exist_refuse_the_later_one",
            "paths_in_variables_of_node_are_protected",
            "paths_in_variables_of_perl_are_protected",
            "class_paths_of_java_are_protected",
            "paths_in_variables_of_missing_interpreters_are_protected",
            "a_tool_that_reads_settings_in_a_granted_folder_refuses_the_later_one",
            "the_environment_of_the_host_is_protected",
            "a_folder_that_the_host_imports_from_is_not_granted",
            "the_program_that_makes_sandboxes_is_protected",
            "links_and_settings_in_its_grant_show_an_extension_nothing_more",
            "code_that_comes_after_a_writer_waits_for_its_restart",
            "variables_and_folders_that_a_command_sets_are_followed",
            "a_script_that_a_runner_is_given_is_protected",
            "a_program_that_a_variable_names_is_protected",
            "folders_from_which_python_would_import_refuse_the_later_one",
            "code_of_a_config_is_protected_from_an_extension_that_is_started_alone",
        ),
    ),
    "secrets": Row(
        "an extension changed what the host reads or runs to get a secret, outside any sandbox",
        ("what_the_host_reads_to_get_a_secret_is_protected",),
    ),
    "audit": Row(
        "an extension changed the audit, or put a link to another file in its place",
        ("the_audit_of_the_host_is_protected",),
    ),
    "B3": Row(
        "an extension of a root host planted a set-user-ID program",
        (
            "no_file_gets_the_set_user_id_bit",
            "its_files_under_a_root_host_belong_to_a_user_of_its_own",
            "root_is_never_left_to_one_that_may_write",
            "user_0_of_a_namespace_writes_only_if_it_is_an_ordinary_user_outside",
        ),
    ),
    "B4": Row(
        "nothing started under a Python without memfd_create",
        (
            "a_python_without_memfd_create_starts_and_contains_extensions",
            *_tests(
                "tests/process/test_init_channel.py",
                "test_pid_namespace_works_without_these_functions",
                "test_permissions_are_enforced_without_these_functions",
                "test_doctor_reports_the_missing_parts_of_a_python_instead_of_failing",
            ),
        ),
    ),
    "M1": Row(
        "one shortage at the first start weakened every later extension",
        (
            "a_shortage_at_the_first_start_does_not_weaken_later_ones",
            "a_shortage_at_the_first_start_does_not_refuse_later_ones",
            "a_host_that_ignores_sigchld_contains_as_usual",
            "a_probe_does_not_block_the_loop",
            "a_lifetime_that_is_weaker_than_usual_is_reported",
            "a_sandbox_that_is_weaker_than_configured_is_reported",
            "weaker_containment_is_refused_if_so_configured",
        ),
    ),
    "M2": Row(
        "memory beyond max_memory, without a cgroup",
        (
            "page_tables_count_as_memory",
            "pages_of_its_memory_cannot_be_left_in_a_pipe",
            "a_hog_whose_first_thread_has_ended_is_ended",
            "files_in_private_mounts_count_as_memory",
            "private_mounts_have_a_size_without_a_limit_too",
            "devices_cannot_contain_files",
            "memory_that_belongs_to_no_process_cannot_be_had",
            "buffers_of_sockets_are_bounded_by_the_number_of_descriptors",
            "buffers_of_sockets_of_many_processes_are_bounded_together",
            "the_buffers_of_a_socket_keep_their_size",
            "shared_memory_that_is_not_resident_counts",
            "shared_memory_of_which_only_a_part_is_mapped_counts",
            "shared_memory_within_the_limit_is_left_alone",
            "files_and_sockets_count_after_the_first_thread_has_ended",
        ),
    ),
    "M3": Row(
        "a sandboxed extension saw the host's variables",
        (
            "a_secret_of_the_host_is_in_no_environment",
            "a_package_is_not_given_the_secrets_that_it_asks_for",
            "a_package_gets_no_setting_of_another_by_its_id_and_keys",
            *_tests(
                "tests/launch/test_variables.py",
                "test_the_config_of_a_package_with_permissions_has_no_secret",
                "test_a_package_with_permissions_cannot_choose_a_variable_by_its_id",
            ),
        ),
    ),
    "M4": Row(
        "a pin was of another file than the one that ran",
        (
            "a_file_among_the_arguments_does_not_stand_in_for_a_pinned_program",
            "a_changed_module_of_a_pinned_package_is_not_run",
            "changed_code_does_not_run_under_a_pin_however_it_is_started",
            *_tests(
                "tests/launch/test_code_pins.py",
                "test_changed_code_is_refused_for_every_command",
                "test_a_pin_of_code_that_cannot_be_known_is_refused",
                "test_compiled_code_of_a_pinned_module_is_part_of_the_pin",
            ),
            *_tests(
                "tests/launch/test_integrity.py",
                "test_a_pin_does_not_apply_to_a_file_among_the_arguments",
                "test_a_changed_package_is_refused_with_the_file_named",
                "test_another_interpreter_is_refused",
            ),
        ),
    ),
    "M5": Row(
        "a datagram socket without network",
        (
            "without_network_no_data_arrives_at_a_listener_of_the_host",
            "without_network_only_connected_unix_pairs_can_be_made",
        ),
    ),
    "M6": Row(
        "files of a result that other programs obey",
        (
            "files_that_other_programs_obey_are_not_written",
            *_tests(
                "tests/host/test_file_writer.py",
                "test_files_that_other_programs_run_or_read_are_written_only_if_allowed",
                "test_a_link_to_protected_files_is_refused",
            ),
        ),
    ),
    "M7": Row(
        "a flood of one extension held the loop of all",
        (
            "a_flood_is_handled_in_small_steps_and_a_neighbour_is_served",
            "a_flood_on_stderr_is_dropped_beyond_a_thousand_lines_a_second",
            *_tests(
                "tests/session/test_fairness.py",
                "test_stray_output_is_passed_on_in_slices",
                "test_lines_over_the_rate_are_counted_and_the_last_lines_are_kept",
            ),
        ),
    ),
    "M8": Row(
        "half-open requests took every descriptor of the gateway",
        (
            "half_open_requests_do_not_take_the_descriptors_of_the_host",
            *_tests(
                "tests/faces/http_server/test_server.py",
                "test_incomplete_requests_are_closed_and_other_clients_are_served",
                "test_at_most_half_of_the_descriptors_are_used_for_connections",
            ),
        ),
    ),
    "M9": Row(
        "an extension filled the disk through the host's store",
        (
            "the_store_of_a_sandboxed_extension_is_full_at_its_limit",
            *_tests(
                "tests/host/api/test_store_quota.py",
                "test_records_over_the_quota_are_refused_and_stored_records_are_kept",
            ),
            *_tests(
                "tests/dialects/test_synaps.py",
                "test_a_full_store_is_an_error_for_the_plugin_and_one_warning_for_the_operator",
            ),
        ),
    ),
    "m1": Row("few descriptors", ("a_host_with_few_descriptors_starts_extensions",)),
    "m2": Row(
        "the thread that started it ended", ("an_extension_outlives_the_thread_that_started_it",)
    ),
    "m3": Row(
        "an error during the admission that nobody saw",
        ("a_folder_that_disappears_during_the_admission_is_a_refusal",),
    ),
    "m4": Row(
        "a plain lifetime that ends less than the manual said",
        ("only_a_plain_lifetime_lets_processes_outlive_a_killed_host",),
    ),
    "m5": Row(
        "time that grows with the square of the input",
        (
            "a_document_of_absurd_depth_is_refused_before_it_is_parsed",
            *_tests(
                "tests/model/documents/test_toml_text.py",
                "test_a_key_with_too_many_parts_is_refused_at_once",
            ),
            *_tests(
                "tests/config/discovery/test_configfile.py",
                "test_the_secrets_of_many_extensions_are_found_without_comparing_each_with_all",
            ),
        ),
    ),
    "m6": Row(
        "a pinned program that was swapped beside its start",
        (
            "a_pinned_program_that_is_swapped_during_its_starts_does_not_run",
            "a_pinned_program_that_is_swapped_whenever_it_is_read_does_not_run",
        ),
    ),
    "m7": Row(
        "two hosts of one config, with other variables",
        ("one_config_has_one_host_under_any_variables",),
    ),
    "m8": Row(
        "results that steer a terminal",
        (
            "a_result_does_not_steer_the_terminal",
            *_tests(
                "tests/faces/cli/test_common.py",
                "test_json_escapes_terminal_control_characters_and_stays_the_same_json",
            ),
        ),
    ),
    "m9": Row(
        "processor time and processes without a limit",
        (
            "processor_time_is_summed_over_all_processes",
            "processor_time_of_orphans_counts_too",
            "processor_time_of_children_that_end_by_themselves_counts",
            "processor_time_of_children_too_short_to_be_seen_counts",
            "processor_time_of_unreaped_children_counts",
            "processor_time_of_children_that_are_waited_for_is_not_counted_twice",
            "a_sandboxed_extension_has_a_limit_of_processes_without_any_configuration",
        ),
    ),
    "m10": Row(
        "config files without end",
        (
            "only_a_plain_file_of_a_few_megabytes_is_a_config",
            "files_of_a_package_without_end_do_not_block_the_host",
            *_tests(
                "tests/config/discovery/test_configfile.py",
                "test_a_pipe_a_device_and_a_folder_are_refused",
                "test_a_sparse_file_of_gigabytes_is_refused",
            ),
        ),
    ),
    "m11": Row(
        "advice that names a secret",
        (
            "advice_names_no_secret",
            *_tests(
                "tests/launch/test_grant_advice.py", "test_sensitive_files_are_never_suggested"
            ),
        ),
    ),
    "m12": Row(
        "noise after a loop that was closed too early",
        ("a_loop_that_is_closed_before_its_extension_is_quiet_and_leaves_no_process",),
    ),
    "proc": Row(
        "a program that the kernel spares when memory runs out", ("nothing_in_proc_can_be_written",)
    ),
    "leases": Row("a host that waited for a file", ("no_lease_on_a_file_makes_the_host_wait",)),
    "calls": Row(
        "system calls that nobody had thought of",
        (
            "denied_calls_are_refused",
            "unlisted_and_future_system_calls_do_not_exist",
            "a_clone_makes_no_namespace_of_any_kind",
            "a_personality_can_be_read_but_not_changed",
            "io_uring_and_other_risky_system_calls_fail",
        ),
    ),
    "client": Row(
        "a command that used the running host could be read",
        (
            "no_extension_reads_the_variables_of_a_command_that_uses_the_running_host",
            *_tests(
                "tests/faces/cli/test_cli.py",
                "test_other_processes_of_the_user_cannot_read_the_memory_of_a_verb",
            ),
        ),
    ),
    "uid": Row(
        "two extensions of a root host with one user, by the choice of an id",
        (
            "ids_of_the_same_hash_have_different_users",
            *_tests(
                "tests/process/test_user_registry.py",
                "test_extensions_with_the_same_hash_have_different_users",
                "test_the_user_of_a_removed_extension_is_not_used_again",
                "test_hosts_that_run_at_the_same_time_agree_on_a_user_for_each_extension",
            ),
        ),
    ),
    "umask": Row(
        "a state folder that nobody could reach",
        (
            "a_host_with_a_narrow_umask_gives_its_extension_a_state_folder",
            "files_of_the_host_are_unreadable_for_others_under_any_umask",
        ),
    ),
    "names": Row(
        "a package was shown what managers keep, by the name of its program",
        (
            "the_name_of_a_packages_program_shows_nothing",
            "a_relative_path_of_the_operator_into_a_package_shows_nothing",
            "a_link_or_first_line_of_a_package_that_leads_to_a_manager_shows_nothing",
            "a_variable_of_a_package_leads_to_no_managers_folder",
            *_tests(
                "tests/process/test_file_view.py",
                "test_a_package_program_named_like_a_runtime_shows_nothing",
                "test_a_package_does_not_see_the_tool_in_its_command",
                "test_a_package_does_not_select_a_version",
                "test_a_manifest_cannot_show_a_tool",
                "test_the_siblings_of_a_folder_named_shims_are_not_shown",
            ),
        ),
    ),
    "managers": Row(
        "a program was shown all that its manager keeps: credentials, logs, other packages",
        (
            *(
                f"of_{name}_a_program_sees_what_it_needs_to_run"
                for name in (
                    *("uv", "npm", "pnpm", "pyenv", "rbenv", "nodenv", "asdf", "mise", "volta"),
                    *("conda", "an_environment_of_conda", "nvm", "fnm", "sdkman", "pipx"),
                )
            ),
            "a_shim_of_a_real_pyenv_runs",
            "a_tool_that_uv_installed_runs_through_uvx_and_by_itself",
            "uvx_runs_with_a_private_cache_and_with_one_that_is_granted",
            "uvx_fetches_a_package_into_a_private_cache",
            "npx_fetches_a_package_into_a_private_cache",
        ),
    ),
    "libraries": Row(
        "a package was shown the folders of the host's PYTHONPATH",
        (
            "folders_of_the_hosts_variables_are_shown_only_with_the_variable",
            *_tests(
                "tests/process/test_file_view.py",
                "test_folders_of_a_variable_are_shown_if_the_child_gets_the_variable",
                "test_python_sees_the_user_packages_of_its_version",
            ),
        ),
    ),
    "advice": Row(
        "advice to grant a home folder, or to write what others run",
        (
            "advice_names_no_secret",
            "the_help_for_a_module_beside_a_script_names_the_sandbox",
            "the_help_for_a_program_that_writes_its_own_folder_names_the_grant",
            "the_help_for_a_package_that_is_not_installed_names_the_command",
            *_tests(
                "tests/launch/test_grant_advice.py",
                "test_a_shared_folder_is_never_suggested",
                "test_write_access_to_code_is_not_suggested",
                "test_a_file_visible_through_a_link_is_not_called_hidden",
            ),
        ),
    ),
    "pids": Row(
        "programs that met in /tmp, since each had pid 2",
        (
            "programs_that_share_a_folder_have_different_pids",
            "a_program_that_is_started_again_has_another_pid",
            "the_processes_of_a_pool_have_different_pids",
            "a_sandboxed_program_has_the_second_pid_of_its_namespace",
            "two_java_programs_do_not_share_their_performance_file",
        ),
    ),
    "crowd": Row(
        "many hostile extensions at once", ("two_hundred_extensions_misbehave_and_one_is_served",)
    ),
}


def count_by_row(passed: Iterable[str]) -> str:
    """Return how often the trials of each row passed, in the order of the table, as one line."""
    times = Counter(passed)
    counts = {
        id: sum(times[name] for name in row.shown_by if "::" not in name)
        for id, row in ROWS.items()
    }
    return ", ".join(f"{id} {count}" for id, count in counts.items() if count)
