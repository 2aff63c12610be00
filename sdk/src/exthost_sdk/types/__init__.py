"""Translates between Python types and JSON: schemas of types, and values in both directions.

- `constraints`: reads descriptions and bounds from `Annotated`
- `schema`: builds the JSON schema of a Python type
- `conversion`: converts a JSON value to a value of a Python type, and reports mismatches
- `json_text`: encodes and decodes JSON text
- `docstring`: reads descriptions from a docstring
- `function`: `Function`, a handler with its schema, which checks arguments and calls the handler
"""
