"""`python -m keysplit.cli`."""

from keysplit.cli import main

main()
