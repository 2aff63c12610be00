"""How an extension is held: from a policy and what this machine can do to a launch plan. Pure."""
