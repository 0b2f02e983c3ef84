"""What to try first: `known_causes` has the causes that a finding's data fit, `defaults` the defaults of frameworks."""
