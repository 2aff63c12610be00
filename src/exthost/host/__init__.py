"""The host: extensions by name, their tools, and what happens around their calls.

In reading order:

    host               the public object
    host_settings      its settings that are given in Python
    extension_set      the extensions by their ids: added, replaced, removed, ended
    extension_factory  makes an extension from its spec
    registry           pure: names and tools
    registered_tools   the tools by their registered names, and as model APIs want them
    model_tools        pure: one tool in the form of such an API
    model_calls        pure but for running them: the tool calls in a model's response
    tool_finder        finds a tool by name, starting extensions if needed
    hook_policy        what follows when a hook fails
    hooks              extensions that look at calls before and after they happen
    hooked_call        a tool call between its hooks
    tool_runner        `host.run_tool`: finds a tool, and calls it between its hooks
    tool_loop          runs the tools that a model asks for
    event_sinks        forwards events to extensions that want them
    manifest_reload    watches manifests and reloads extensions
    audit              a JSON line per call
    extension_logs     log files of extensions, rotated
    file_merge         merges the file fragments of a result into files
    file_writer        writes those files into a folder, all or none
    api/               what extensions may request: memory and settings
"""
