"""The report page: findings and rows of all commands in one HTML file, which needs neither a server nor a network.

Read `document` (the content as data), `embed` (inserts it into the built page) and `file`. The sources of the page are
in `page/`.
"""
