"""Python types and JSON: the schema of a type, and values from one to the other.

- `constraints`: descriptions and bounds, from `Annotated`
- `schema`: the JSON schema of a type
- `conversion`: a JSON value into a value of a type, with a message for each fault
- `json_text`: messages as text, and the values that JSON does not have
- `docstring`: descriptions from a docstring
- `function`: a handler: its schema, its arguments, and how it is run
"""
