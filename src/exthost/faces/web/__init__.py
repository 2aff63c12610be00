"""The web page of a running host, which `exthost run --web` serves to a browser.

In reading order:

    page_server        serves the application until it is cancelled
    application        routes, access checks and security headers
    login              how a browser gets the token and sends it
    endpoints          the API of the page: answers its requests in JSON
    event_stream       a response that is a stream of server-sent events
    call_events        a call made by the page, as a stream of events
    page_questions     the questions to a person about calls
    row_sampler        the state of all extensions, as a stream of changes
    resource_usage     the processor time and memory of extensions over time
    page_traffic       the messages of extensions, as a stream of bounded batches
    history            the last states and calls of each extension
    extension_details  one extension: its tools, permissions and process
    page_values        converts values of extensions to JSON of a bounded size
    static/            HTML, CSS and JavaScript modules, served as they are

Text of an extension is sent to the page as JSON and displayed as plain text, never as HTML. The
content security policy allows no inline script and no other origin, and blocks DOM functions that
turn text into code (trusted types).
"""
