"""One step of one rank as a report stores it. Measures and judges nothing.

Read `unit` (the parts), then `calls`, `layout`, `state`, `links`, `details` and `findings`, which make one part each;
`assembly` combines units.
"""
