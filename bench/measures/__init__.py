"""The measurements, by subject. Each public function takes a Setting and returns a Reading, or
builds such a function from its parameters. `bench/rows.py` gives them names and targets.
"""
