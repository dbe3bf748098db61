"""`python -m keysplit` is the command `keysplit`."""

from keysplit.cli import main

main(prog_name="keysplit")
