"""`waystation room`: a waiting room and its doors."""
