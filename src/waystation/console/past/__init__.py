"""The past: what the console shows of the history that the pipeline keeps."""
