"""A small ticket sale, in scenes: one for each part of waystation."""
