"""The ways of a join: by workers, by a broadcast of hot keys, by a grid; and which of them is taken."""
