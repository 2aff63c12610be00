"""The page of a running host: what `exthost run --web` serves to a browser.

In reading order:

page         the face: serves the application until it is cancelled
application  routes, security headers, who may ask
login        how a browser brings the token
endpoints    what the page asks, as JSON
call_events  a call made by the page, as a stream of events
live         the rows of all extensions as they change, coalesced
traffic      messages of extensions as they come, bounded
history      what became of extensions and calls, bounded
details      one extension: tools, permissions, process
shown        values of extensions as data that a page can show
static/      HTML, CSS and JavaScript modules, served as they are

What an extension says reaches the page as JSON and is shown as text. The content security policy
allows no inline script, no other origin, and no sink that turns text into code.
"""
