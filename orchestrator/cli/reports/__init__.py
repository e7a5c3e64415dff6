"""What commands print for people; with `--json` none of it is used."""
