"""What is measured of every head, one module a family of scores; `base.py` says how they are registered."""
