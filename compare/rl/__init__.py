"""Two runs of an RL flow: configurations, key data and stage dumps, walked in order to the first difference."""
