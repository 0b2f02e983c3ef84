"""The data that all stages of a comparison share: reasons, thresholds, limits of noise."""
