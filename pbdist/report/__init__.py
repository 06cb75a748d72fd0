"""Everything that is looked at: the figures of figure files, plots of Datasets, reports, the explorer."""
