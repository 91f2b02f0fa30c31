"""What sweeps leave behind, and how builds find it: small files of JSON lines, one for each request and machine."""
