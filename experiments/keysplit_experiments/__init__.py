"""Experiments and measurements of keysplit.

- `papers`: the papers' figures and tables, reproduced: one folder per paper, one file per figure or table. -
`harness`: what they share; `harness/experiment.py` defines an experiment. - `command`: the command `keysplit
reproduce`, which runs them. - `measured`: programs for measurements beyond the papers, one per section of
docs/measured.md.
"""
