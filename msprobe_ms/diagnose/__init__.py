"""From two runs that differ to the call: what was collected is walked, and what is lacking is proposed."""
