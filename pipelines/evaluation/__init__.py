"""The claims of Meiser & Mohammadi 2018 against what is proved: see ``docs/evaluation.md``, which is made from this."""
