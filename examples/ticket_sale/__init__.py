"""A small ticket sale, told in scenes: one for each part of waystation."""
