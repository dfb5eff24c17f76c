"""What operators ask, answered: how much, how long, why not, is it all there, how many workers."""
