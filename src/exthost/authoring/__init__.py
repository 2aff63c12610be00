"""Tools for people who write extensions, dialects or hosts.

sdk      writes an extension in Python; users import it as `exthost.sdk`
check    checks an extension against the rules of its dialect (`exthost check`)
replay   plays a recorded session again, in the role of the host or of the extension
testing  the hostile extension, test vectors and faulty pipes; public as `exthost.testing`
"""
