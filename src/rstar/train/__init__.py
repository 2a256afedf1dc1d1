"""Training: tokenizer, data, the loop. Needs torch; nothing above imports this room unless it trains."""
