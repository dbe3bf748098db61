"""What keysplit is measured by, beside the papers.

- `papers`: their figures and tables, run again: a folder for each paper, a file for each figure or table.
- `harness`: what all of these share; `harness/experiment.py` says what an experiment is.
- `command`: the command `keysplit reproduce`, which runs them.
- `measured`: programs that measure what the papers do not, one for each section of docs/measured.md.
"""
