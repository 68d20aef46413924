"""`make bench`: how fast the product is, measured from outside, as a table with ratios."""
