"""What results look like: in notebooks, on a terminal, as charts, and as pages.

Results build a `View` of themselves, which is plain data. Everything here draws such data and knows no
result.
"""
