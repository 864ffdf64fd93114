"""truecal beside other libraries on the same data: time, memory and values, as ratios of one run."""
