"""How `exthost check`, which tests whether an extension follows its dialect, checks cigen
extensions.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from exthost.dialects.conformance import Conformance, OfferWarning, read_rules

CONFORMANCE = Conformance(
    rules=read_rules("exthost.dialects.cigen"),
    # The type of a message follows only from the order of messages, so there is no request without
    # an effect: every request changes how the extension decodes the next.
    pings=(),
    is_json=False,
    has_version=False,
    error_form="",
    # A plugin returns its files as data and writes none.
    trial_call=(
        "generate",
        {
            "schema": {
                "version": "1",
                "project": {"name": "check"},
                "jobs": [{"id": "build", "steps": [{"run": {"command": "true"}}]}],
            }
        },
    ),
    # The error for a plugin that expects no plan. The frames of such a plugin are valid; only the
    # result is of the wrong type.
    result_violations=frozenset({"X0622"}),
    # The author of a plugin declares conflicts on purpose, so the warning breaks no rule ("").
    offer_warnings=(OfferWarning("it reports a conflict with ", ""),),
)
