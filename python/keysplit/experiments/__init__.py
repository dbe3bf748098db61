"""The experiments of the papers, run again: ``keysplit reproduce``.

A folder is a paper, a file in it a figure or a table of that paper. The files beside the folders are what all
of them share: [`experiment`][keysplit.experiments.experiment] says what an experiment is.
"""
