"""How a row gets its worker, and its place: two engines for plans, one for online mode."""
