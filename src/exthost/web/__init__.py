"""The page of a running host: what `exthost run --web` serves to a browser.

In reading order:

    page_server        serves the application until it is cancelled
    application        routes, security headers, who may ask
    login              how a browser sends the token
    endpoints          the requests of the page, answered in JSON
    event_stream       a response that is a stream of events
    call_events        a call made by the page, as a stream of events
    row_sampler        the rows of all extensions as they change, coalesced
    page_traffic       messages of extensions as they come, bounded
    log_tail           the end of an extension's log file
    history            past states and calls of extensions, bounded
    extension_details  one extension: tools, permissions, process
    page_values        values of extensions as data that a page can show
    static/            HTML, CSS and JavaScript modules, served as they are

What an extension says reaches the page as JSON and is shown as text. The content security policy
allows no inline script, no other origin, and no sink that turns text into code.
"""
