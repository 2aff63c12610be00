"""Coverage-guided fuzzing of framings and codecs, run by `make fuzz`. Needs atheris."""
