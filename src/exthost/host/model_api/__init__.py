"""Tools and their calls, in the forms of the APIs of models. It knows neither hosts nor extensions.

In reading order:

    registered_tools  `host.tools`: the tools by name, and as lists for model APIs
    tool_search       finds tools by words
    model_tools       pure: converts one tool to the form of a model API
    model_calls       runs the tool calls in a model's response
"""
