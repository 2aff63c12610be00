"""GitHub Actions from a cigen schema. In reading order:

plugin     the cigen plugin: plan and generate
workflows  a schema → the workflows of a repository; pure
yaml_text  values → YAML
"""
