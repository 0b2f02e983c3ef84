"""`GradComparator`: compares the signs of gradients of two runs; `similarity` measures, `pictures` draws."""
