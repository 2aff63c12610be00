"""Tools and their calls, in the forms of the APIs of models. It does not know extensions.

In reading order:

    registered_tools  `host.tools`: the tools by name, and as lists for model APIs
    tool_search       finds tools by words
    model_tools       pure: converts one tool to the form of a model API
    model_calls       runs the tool calls in a model's response
    model_responses   pure: reads the calls of a response, or of the chunks of a stream
    model_answers     pure: writes the messages that answer the calls
    media             pure: the texts, images, sounds and documents of a tool result
"""
