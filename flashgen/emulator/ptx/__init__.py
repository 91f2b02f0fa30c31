"""PTX text to typed instructions."""
