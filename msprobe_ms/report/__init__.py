"""The report: findings and rows of the other commands as one HTML file, which needs neither server nor network."""
