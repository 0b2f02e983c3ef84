"""The files of the framework's own kernel dump become a dump of ours. Needs no framework."""
