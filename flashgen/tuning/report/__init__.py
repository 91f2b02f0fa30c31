"""Results to look at: the Br x Bc heat map, a page, a picture."""
