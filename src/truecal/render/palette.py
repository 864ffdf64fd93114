"""The colours of models and curves in plots and reports. None is orange, which marks what is off."""

LINES = ("#0072B2", "#7B4FB5", "#009E73", "#CC79A7", "#5B6EE1", "#3A9FD6", "#222222", "#6D6A00")
