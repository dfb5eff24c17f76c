"""What the house tells about itself: numbers, sentences and traces."""
