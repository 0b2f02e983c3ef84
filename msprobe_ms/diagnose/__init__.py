"""Find where two runs diverge by everything that was collected, and propose the next collection.

Read `collected` (the content of one side), `walk` (the steps), `diagnosis` (results as data), `next_collection`, then
`page`. `proof` reads the proof of a cause, which the page quotes.
"""
