"""The papers: each folder is a paper, each file in it a figure or a table of that paper."""
