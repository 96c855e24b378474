"""What is studied: tasks, positional schemes, the decoder, training, evaluation, captures."""
