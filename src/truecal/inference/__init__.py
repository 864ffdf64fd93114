"""Is it calibrated, how sure are we, and do two predictors differ; with frozen cells and independent rows."""
