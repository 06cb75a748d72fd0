"""The figures of the 2018 paper."""
