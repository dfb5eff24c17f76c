"""Templates, texts and themes of the pages; the routes are in `http.pages`."""
