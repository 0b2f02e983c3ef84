"""Key data of two runs, saved tensor by tensor: found, paired, measured, and laid out in one sheet per tag."""
