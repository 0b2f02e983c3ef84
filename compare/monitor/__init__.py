"""Two trainings that were monitored: where their numbers part, and what of the training that is."""
