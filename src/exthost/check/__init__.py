"""Checks an extension against the rules of its dialect, for its author.

    report = await run_checks(spec, os.environ, Settings())
    report.ok, report.score

In reading order:

    rules                what is checked, as data (`rules.toml`), with the dialect's own rule ids
    settings             how long, and which tools are called
    findings             what is found: findings, outcomes, the report with its score
    message_audit        every message against the rules for messages
    offer_audit          what is offered: names, descriptions, schemas
    byte_log             the bytes of both sides, as evidence
    pipes                one process with raw pipes: bytes, stderr, signals, exit
    checked_process      a conversation with it, by the framing and codec of the dialect
    operation            a tool call with such a process
    starter              processes as the host starts them
    ledger               collects the findings of a run
    conversation_checks  requests of every kind, large, in one write, cancelled, unknown
    life_checks          the start, the end, signals, starting again
    run                  all of it within a time limit
    manifest_check       the manifest, before anything is started
    report_text, junit   the report for people and for CI systems
    pytest_plugin        checks as tests

What a dialect adds is in its package (`exthost.dialects.conformance`).
"""
