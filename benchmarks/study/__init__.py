"""How far released values are from exact ones, asked for as an analyst would."""
