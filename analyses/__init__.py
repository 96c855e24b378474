"""What is asked of a model: plain functions from (model or activations, batch) to frozen dataclasses of arrays.

An analysis knows nothing of files, figures or the dashboard, and imports only `models`.
"""
