"""The display of results: in notebooks, on a terminal, as charts, and as pages.

A result builds a `View` of itself, which is plain data. The code here draws views only.
"""
