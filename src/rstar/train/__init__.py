"""Training: tokenizer, data, the loop. Needs torch; modules outside import it only to train."""
