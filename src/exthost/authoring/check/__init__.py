"""Checks an extension against the rules of its dialect, for its author.

    report = await run_checks(spec, os.environ, Settings())
    report.ok, report.score

In reading order:

    settings             the time limits of a check, and the tools that it calls
    findings             the results: findings, outcomes, and the report with its score
    offer_audit          checks the tools that an extension announces: descriptions and schemas
    pipes                a process with raw pipes: bytes, stderr, signals, exit
    host_memory          the memory and settings that the extension stores during a run
    checked_process      a conversation with a process, with the framing and codec of the dialect
    starter              starts processes as the host does
    ledger               collects the findings of a run
    conversation_checks  requests: unknown, large, cancelled, several in one write
    survivors            finds and ends the processes that an extension has left
    life_checks          the start, the end, signals, and a second start
    run                  runs all checks within a time limit
    manifest_check       checks the manifest, before anything is started
    report_text, junit   the report as text, and as XML for CI systems
    pytest_plugin        the checks as tests

The rules are in `exthost.dialects.rules`, the checks of messages in
`exthost.dialects.message_audit`. The parts that differ between dialects (protocols) are in the
package of each dialect, as a `Conformance` (`exthost.dialects.conformance`).
"""
