"""What is asked: questions become prompts and canvases, slot logprobs become probabilities."""
