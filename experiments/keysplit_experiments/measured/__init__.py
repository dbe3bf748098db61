"""What the papers do not measure: each file is a program, `python -m keysplit_experiments.measured.NAME`."""
